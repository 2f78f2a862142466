"""The view Models."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open

pytestmark = pytest.mark.slow


def test_a_model_and_the_quality_in_its_manifest_are_shown(
    visit: Open, client: httpx.Client
) -> None:
    listed = client.get("/v1/models").json()["data"]
    (model,) = (one for one in listed if one["default"])
    reader = visit("#models")
    text = reader.page.get_by_role("article", name="wiki-en", exact=True).text_content()
    for fact in (
        "100,000 words × 300, 8-bit integers",
        f"{model['bytes'] / 1e6:.1f} MB",
        "1 layer of 4 heads, trained",
        model["source"],
        model["licence"],
        "default",
        "with capitals",
    ):
        assert fact in text
    quality = model["quality"]
    # The number of words of a data set is no measure of quality.
    assert "words" in quality["coarsewsd"]
    assert reader.texts("article[aria-label='wiki-en'] dd li") == [
        f"CoarseWSD-20 (10 words), accuracy: {quality['coarsewsd']['accuracy']:.2f}%",
        f"CoarseWSD-20 (10 words), macro F1: {quality['coarsewsd']['macro_f1']:.2f}%",
        f"WiC, train split: {quality['wic']['train_accuracy']:.2f}%",
        f"WiC, dev split: {quality['wic']['dev_accuracy']:.2f}%",
    ]
    assert reader.text("does not check whether a model was trained on these data").is_visible()


def test_the_training_is_shown_on_request(open_page: Open) -> None:
    reader = open_page("#models")
    card = reader.page.get_by_role("article", name="wiki-en", exact=True)
    facts = card.get_by_text("lab/factory/build_wiki_en.py")
    assert not facts.is_visible()
    card.get_by_text("Training of wiki-en").press("Enter")
    expect(facts).to_be_visible()
    assert "macro_f1" in card.text_content()
    reader.theme("dark")
    expect(facts).to_be_visible()


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
    choice = reader.field("Model")
    expect(choice).to_have_value("second")
    options = choice.locator("option").all_text_contents()
    assert options[:2] == ["wiki-en (default)", "second"]
    assert "broken" not in options
    assert '"model":"second"' in reader.command()
    reader.choose("Model", "wiki-en (default)")
    assert '"model"' not in reader.command()


def test_the_default_model_is_first_and_each_model_has_links_to_its_views(
    visit: Open, several: httpx.Client
) -> None:
    listed = [one["id"] for one in several.get("/v1/models").json()["data"]]
    reader = visit("#models", service=several)
    assert listed[0] != "wiki-en"
    assert reader.texts(".model h3") == ["wiki-en", *(n for n in listed if n != "wiki-en")]
    second = reader.page.get_by_role("article", name="second")
    assert "1.3 MB, and the vocabulary and vectors of wiki-en" in second.text_content()
    links = second.get_by_role("link")
    assert [link.get_attribute("href") for link in links.all()] == [
        "#attention?model=second", "#compare?model=second", "#senses?model=second",
        "#steps?model=second&source=sentence", "#neighbors?model=second",
    ]  # fmt: skip
