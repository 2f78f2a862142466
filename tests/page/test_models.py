"""The view Models."""

import shutil
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from polyseme.models.registry import bundled_models
from polyseme.settings import BUNDLED
from tests.conftest import Serve
from tests.page.conftest import Open

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def several(serve: Serve, broken_models: Path, tmp_path_factory: pytest.TempPathFactory):
    """A service with three models, one of which is broken."""
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(broken_models / "broken", folder / "broken")
    shutil.copytree(bundled_models() / BUNDLED, folder / "second")
    manifest = (folder / "second" / "manifest.json").read_text()
    (folder / "second" / "manifest.json").write_text(manifest.replace(f'"{BUNDLED}"', '"second"'))
    return serve(models_dir=folder, preload_models=True)


def test_a_model_is_described(visit: Open, client: httpx.Client) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    card = visit("#models").page.get_by_role("article", name="wiki-en")
    text = card.text_content()
    assert "100,000 words × 300, 8-bit integers" in text
    assert f"{model['bytes'] / 1e6:.1f} MB" in text
    assert "1 layer of 4 heads, trained" in text
    for fact in (model["source"], model["licence"], "default", "cased"):
        assert fact in text


def test_the_quality_in_the_manifest_is_drawn(visit: Open, client) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    picture = visit("#models").page.get_by_role("img", name="Measured quality in percent")
    texts = picture.locator("text").all_text_contents()
    shown = dict(zip(texts[::2], texts[1::2], strict=True))
    assert shown == {
        "accuracy, CoarseWSD-20": f"{model['quality']['coarsewsd']['accuracy']:.1f}",
        "macro F1, CoarseWSD-20": f"{model['quality']['coarsewsd']['macro_f1']:.1f}",
        "train split, WiC": f"{model['quality']['wic']['train_accuracy']:.1f}",
        "dev split, WiC": f"{model['quality']['wic']['dev_accuracy']:.1f}",
    }


def test_the_caption_says_that_quality_is_from_the_manifest(visit: Open) -> None:
    caption = visit("#models").page.locator("figcaption").text_content()
    assert caption.endswith("does not check whether a model was trained on these data sets.")


def test_opening_the_details_keeps_the_focus(open_page: Open) -> None:
    reader = open_page("#models")
    summary = reader.page.get_by_text("Training of wiki-en")
    summary.focus()
    for address in ("#models?model=wiki-en", "#models"):
        reader.page.keyboard.press("Enter")
        reader.page.wait_for_url(f"**/{address}")
        reader.settle()
        expect(summary).to_be_focused()
    reader.page.keyboard.press("Enter")
    reader.page.get_by_label("Theme").select_option("dark")
    reader.page.get_by_text("lab/factory/build_wiki_en.py").wait_for()
    reader.page.evaluate("location.hash = '#models'")
    expect(reader.page.get_by_text("lab/factory/build_wiki_en.py")).to_be_hidden()


def test_names_of_measures_differ_on_a_narrow_screen(visit: Open, several: httpx.Client) -> None:
    reader = visit("#models", service=several, width=320)
    picture = reader.page.get_by_role("img", name="Measured quality in percent")
    names = picture.locator("text:not(.number)").all_text_contents()
    assert len(names) == len(set(names)) == 8


def test_the_training_opens_and_the_address_has_it(open_page: Open) -> None:
    reader = open_page("#models")
    assert not reader.page.get_by_text("lab/factory/build_wiki_en.py").is_visible()
    reader.page.get_by_text("Training of wiki-en").click()
    reader.page.get_by_text("lab/factory/build_wiki_en.py").wait_for()
    reader.page.wait_for_url("**/#models?model=wiki-en")
    assert "macro f1" in reader.page.get_by_role("article").text_content()
    reader.page.reload()
    reader.page.get_by_text("lab/factory/build_wiki_en.py").wait_for()


def test_a_broken_model_shows_its_problem_and_others_have_links(
    visit: Open, several: httpx.Client
) -> None:
    reader = visit("#models", service=several)
    broken = reader.page.get_by_role("article", name="broken")
    given = {one["id"]: one for one in several.get("/v1/models").json()["data"]}
    assert given["broken"]["problem"] in broken.text_content()
    assert broken.get_by_role("link").count() == 0
    reader.page.get_by_role("article", name="second").get_by_role("link", name="neigh").click()
    reader.settle()
    choice = reader.page.get_by_label("Model")
    expect(choice).to_have_value("second")
    options = choice.locator("option").all_text_contents()
    assert options == ["second", "wiki-en (default)"]
    assert '"model":"second"' in reader.command()
    choice.select_option("wiki-en (default)")
    reader.settle()
    assert '"model"' not in reader.command()


def test_an_unknown_model_in_the_address_is_reported(visit: Open) -> None:
    reader = visit("#neighbors?model=nothing")
    reader.problem.wait_for()
    message = reader.problem.locator("p").text_content()
    assert "nothing" not in message
    assert "model" in message
    reader.page.get_by_label("Model").select_option("wiki-en (default)")
    reader.page.get_by_role("heading", name="Nearest to bank").wait_for()


def test_the_shown_results_can_be_saved(visit: Open, tmp_path: Path) -> None:
    reader = visit("#models")
    assert reader.saved_json(tmp_path) == reader.run_command()
    assert reader.saved_json(tmp_path)["object"] == "list"


@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (1200, "light")])
def test_it_is_accessible_and_fits(
    visit: Open, axe: Axe, several: httpx.Client, width: int, theme: str
) -> None:
    reader = visit("#models?model=wiki-en", service=several, width=width, theme=theme)
    reader.page.locator("details[open] .facts").first.wait_for()
    assert reader.violations(axe) == []
    assert not reader.scrolls_sideways()
