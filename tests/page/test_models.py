"""The view Models."""

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open

pytestmark = pytest.mark.slow


def test_a_model_and_the_quality_in_its_manifest_are_shown(visit: Open) -> None:
    reader = visit("#models")
    (model,) = (one for one in reader.models() if one["default"])
    card = reader.page.get_by_role("article", name="wiki-en", exact=True)
    words, layers = "100,000 words × 300, 8-bit integers", "1 layer of 4 heads, trained"
    size = f"{model['bytes'] / 1e6:.1f} MB"
    for fact in (words, size, layers, model["source"], model["licence"], "with capitals"):
        expect(card).to_contain_text(fact)
    quality = model["quality"]
    assert reader.texts("article[aria-label='wiki-en'] dd li") == [
        f"CoarseWSD-20 (10 words), accuracy: {quality['coarsewsd']['accuracy']:.2f}%",
        f"CoarseWSD-20 (10 words), macro F1: {quality['coarsewsd']['macro_f1']:.2f}%",
        f"WiC, train split: {quality['wic']['train_accuracy']:.2f}%",
        f"WiC, dev split: {quality['wic']['dev_accuracy']:.2f}%",
    ]
    assert reader.text("does not check whether a model was trained on these data").is_visible()
    facts = card.get_by_text("lab/factory/build_wiki_en.py")
    assert not facts.is_visible()
    card.get_by_text("Training of wiki-en").press("Enter")
    expect(facts).to_be_visible()


def test_a_broken_model_shows_its_problem_and_others_have_links(visit: Open) -> None:
    reader = visit("#models", service="several")
    broken = reader.page.get_by_role("article", name="broken")
    given = {one["id"]: one for one in reader.models()}
    assert given["broken"]["problem"] in broken.text_content()
    assert broken.get_by_role("link").count() == 0
    # The default model is first.
    assert reader.texts(".model h3")[0] == "wiki-en" != next(iter(given))
    second = reader.page.get_by_role("article", name="second")
    assert "1.3 MB, and the vocabulary and vectors of wiki-en" in second.text_content()
    links = [link.get_attribute("href") for link in second.get_by_role("link").all()]
    assert links[::3] == ["#attention?model=second", "#steps?model=second&source=sentence"]
    second.get_by_role("link", name="neigh").click()
    reader.settle()
    choice = reader.field("Model")
    expect(choice).to_have_value("second")
    options = choice.locator("option").all_text_contents()
    assert options[:2] == ["wiki-en (default)", "second"]
    assert '"model":"second"' in reader.command()
    reader.open_view("Compare")
    reader.settle()
    assert reader.query["model"] == "second"
    reader.choose("Model", "wiki-en (default)")
    assert '"model"' not in reader.command()
