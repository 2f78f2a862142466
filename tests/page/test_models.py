"""The views Models and Neighbors."""

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Visit

pytestmark = pytest.mark.slow


def test_a_model_and_the_quality_in_its_manifest_are_shown(visit: Visit) -> None:
    reader = visit("#models")
    (model,) = (one for one in reader.models() if one["default"])
    card = reader.card("wiki-en")
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


def test_a_broken_model_shows_its_problem_and_others_have_links(visit: Visit) -> None:
    reader = visit("#models", service="several")
    broken = reader.card("broken")
    given = {one["id"]: one for one in reader.models()}
    assert given["broken"]["problem"] in broken.text_content()
    assert broken.get_by_role("link").count() == 0
    # The default model is first.
    assert reader.texts(".model h3")[0] == "wiki-en" != next(iter(given))
    second = reader.card("second")
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


def test_the_bars_keep_the_focus_and_a_result_is_announced_once(visit: Visit) -> None:
    reader = visit("#neighbors?word=river")
    bars = reader.page.locator(".bars [role=button]")
    reader.record_announcements("main")
    reader.field("Word").fill("half a wo")
    bars.nth(2).focus()
    with reader.page.expect_response("**/v1/neighbors") as response:
        reader.page.keyboard.press("Enter")
    reader.settle()
    expect(bars.first).to_be_focused()
    chosen = response.value.request.post_data_json["word"]
    expect(reader.field("Word")).to_have_value(chosen)
    first = response.value.json()["neighbors"][0]
    assert reader.announced() == [
        f"10 words nearest to {chosen}, first {first['word']}: {first['similarity']:.2f}."
    ]
    reader.keys("ArrowDown", "ArrowDown")
    expect(bars.nth(2)).to_be_focused()
    assert reader.announced() == []


def test_a_sum_has_the_services_neighbors(visit: Visit) -> None:
    reader = visit("#neighbors?k=5")
    reader.submit("Word", "king - man + woman")
    assert reader.query == {"word": "king - man + woman", "k": "5"}
    body = {"positive": ["king", "woman"], "negative": ["man"], "k": 5}
    given = reader.post("neighbors", body)["neighbors"]
    rows = reader.page.get_by_role("group", name="Words nearest to king + woman − man")
    assert [row.get_attribute("aria-label") for row in rows.get_by_role("button").all()] == [
        f"{one['word']}, {one['similarity']:.2f}: show its neighbors" for one in given
    ]
    reader.button("queen, ").click()
    reader.settle()
    assert reader.query == {"word": "queen", "k": "5"}
    # The example of a sum.
    reader.press("king − man + woman")
    assert (reader.sent()["positive"], reader.sent()["negative"]) == (["king", "woman"], ["man"])
