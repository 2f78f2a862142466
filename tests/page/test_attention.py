"""The view Attention: the sentence, its words, the address, and models of every kind."""

import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import polyseme
from tests.page.conftest import Visit
from tests.page.driver import APPLE_VIEW, APPLES, HEBREW, address, query_of

pytestmark = pytest.mark.slow


def test_an_example_opens_on_the_word_that_it_is_about(visit: Visit) -> None:
    reader = visit("#attention")
    result = reader.page.locator("section[aria-label=Words] strong")
    assert result.text_content() == "bank and bank: 1.00 static, 0.61 in context"
    assert reader.word_texts()[2] == "bank"
    assert reader.words().nth(2).get_attribute("aria-pressed") == "true"
    # The word that decides the sense contributes most.
    assert reader.texts("figure svg.bars .row text")[0] == "river"
    reader.press("Two apples")
    # One word, with one static vector: with the case as written, they would be two.
    assert reader.query == {"text": APPLES, "case": "lower"}
    assert result.text_content() == "Apple and apple: 1.00 static, 0.50 in context"
    assert "one word, with one static vector" in reader.texts(".example-note")[0]
    reader.link("Compare this occurrence").click()
    reader.settle()
    assert reader.query["case"] == "lower"


def test_the_pronoun_shows_what_the_models_give(visit: Visit) -> None:
    reader = visit("#attention", service="several")
    reader.press("A pronoun")
    note = reader.texts(".example-note")[0]
    assert "Teaching notes often expect “animal” for “it”" in note
    text = "The animal didn't cross the street because it was too tired."
    row = reader.contributions(text)[0, 8]
    assert f"“animal” contributes {row[1]:.2f} to it" in note
    assert reader.heading("it is made of").is_visible()
    # The model wiki-en-deep is not in this service, so the note is checked against the library.
    deep = polyseme.load("wiki-en-deep")
    for last in ("tired", "wide"):
        (sentence,) = deep.encode([text.replace("tired", last)], include=["attention"])
        assert sentence.attention[2, 4, 8].argmax() == 1


def test_every_head_of_the_bundled_models_has_a_name() -> None:
    page = Path(polyseme.__file__).parent / "page/attention/heads.json"
    for model, names in json.loads(page.read_text("utf-8")).items():
        layers = polyseme.load(model).model.layers
        assert [len(layer) for layer in names] == [layer.heads for layer in layers]


def test_a_sentence_is_submitted_by_a_pause_by_enter_or_by_the_button(visit: Visit) -> None:
    reader = visit(APPLE_VIEW)
    sentence = reader.field("Sentence")
    sentence.fill("The river bank")
    expect(reader.words()).to_have_count(3)
    assert reader.address == "#attention?text=The+river+bank"
    sentence.press_sequentially(" too")
    expect(reader.words()).to_have_count(4)
    assert sentence.input_value() == "The river bank too"
    sentence.fill("one")
    reader.page.keyboard.press("Shift+Enter")
    reader.page.keyboard.type("two")
    reader.keys("Enter")
    assert reader.word_texts() == ["one", "two"]
    assert sentence.input_value() == "one\ntwo"
    assert reader.address == "#attention?text=one%0Atwo"
    sentence.fill("𝔘𝔫𝔦 of 😀")
    reader.press("Show attention")
    assert reader.word_texts() == ["𝔘𝔫𝔦", "of", "😀"]
    # The sentence is never part of a requested URL.
    reader.reload()
    assert len(reader.requests) > 2
    assert all("?" not in one.url.split("#")[0] for one in reader.requests)


def test_a_sentence_is_one_entry_of_the_history_however_it_is_submitted(visit: Visit) -> None:
    reader = visit(APPLE_VIEW)
    reader.submit("Sentence", "A river")
    # All states of a sentence that is being typed are one entry.
    for text in ("one two three", "one two three four"):
        reader.field("Sentence").fill(text)
        expect(reader.words()).to_have_count(len(text.split()))
    reader.keys("Enter")
    reader.press("A pronoun")
    expect(reader.words().nth(1)).to_contain_text("animal")
    for text, count in {"one two three four": 4, "A river": 2, APPLES: 12}.items():
        reader.back()
        assert reader.field("Sentence").input_value() == text
        assert len(reader.word_texts()) == count


def test_an_occurrence_opens_compare_with_another_one_if_there_is_one(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&word=10")
    link = reader.link("Compare this occurrence")
    for text, word, rows in [
        (APPLES, 10, [[APPLES, "apple", 0], [APPLES, "Apple", 0]]),
        ("apple bank", 1, [["apple bank", "bank", 0], ["", "", 0]]),
    ]:
        reader.go(address("attention", text=text, word=word))
        assert json.loads(query_of(link.get_attribute("href"))["occurrences"]) == rows


SHORTEN = "async (text) => (await import('/page/text.js')).shorten(text, 3)"


def test_shortened_words_keep_grapheme_clusters(visit: Visit) -> None:
    family = "👩‍👩‍👧‍👦"
    assert visit(APPLE_VIEW).page.evaluate(SHORTEN, family * 4) == f"{family * 2}…"


def test_each_cell_is_announced_once(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&row=0&column=0")
    reader.record_announcements(".main figure")
    reader.grid().focus()
    for column in (1, 2):
        reader.keys("ArrowRight")
        assert reader.query["column"] == str(column)
        assert reader.announced() == [reader.readout()]
    reader.page.evaluate("document.activeElement.blur()")
    box = reader.grid().bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 3)
    reader.settle()
    expected = reader.contributions(APPLES)[0, 0, 13]
    announced = f"Apple gets from its position: {expected:.4f}".replace("-", "−")
    assert reader.announced() == [announced]


TEXT = "apple bank river money did high end"
WORDS = TEXT.split()


def test_each_head_of_each_layer_is_shown_without_a_request(visit: Visit) -> None:
    reader = visit(address("attention", text=TEXT, model="deep"), service="tiny_models")
    given = reader.weights(TEXT, model="deep")
    reader.requests.clear()
    for layer, head in [(0, 2), (1, 0)]:
        reader.press(f"Layer {layer}, head {head}")
        reader.point(5, 2, len(WORDS))
        assert reader.readout() == f"high attends to river: {given[layer, head, 5, 2]:.4f}"
    reader.words().nth(2).click()
    reader.settle()
    row = reader.contributions(TEXT, model="deep")[-1, 2]
    name = reader.page.get_by_role("img", name="is made of").get_attribute("aria-label")
    parts = [*WORDS, "the word itself", "a fixed vector"]
    best = np.abs(row).argmax()
    assert name.startswith(f"river is made of {parts[best]}: {row[best]:.2f}".replace("-", "−"))
    assert reader.query["layer"] == "1"
    reader.press("Lines")
    assert reader.requested() == []
    # Another model does not have this layer.
    reader.choose("Model", "bare")
    assert reader.heading("Layer 0, head 0").is_visible()


def test_the_resolution_of_each_word_is_shown(visit: Visit) -> None:
    reader = visit("#attention?model=deep&text=river", service="tiny_models")
    for model, text, expected in [
        ("small", "Apple bank x", ["other case: apple", "unknown"]),
        ("parts", "gnu apple", ["subword"]),
    ]:
        reader.go(address("attention", text=text, model=model))
        assert reader.texts("button.word small") == expected, model
        composed = reader.text("1 composed of subwords")
        assert composed.is_visible() == (model == "parts")


def test_right_to_left_words_keep_their_direction(visit: Visit) -> None:
    text = " ".join(HEBREW)
    reader = visit(address("attention", text=text, model="hebrew", head=0), service="tiny_models")
    expected = reader.weights(text, model="hebrew")[0, 0]
    reader.point(1, 2, 3)
    assert reader.readout() == f"{HEBREW[1]} attends to {HEBREW[2]}: {expected[1, 2]:.4f}"
    buttons = reader.words()
    lefts = [button.bounding_box()["x"] for button in buttons.all()]
    assert lefts == sorted(lefts, reverse=True)
    buttons.first.focus()
    reader.page.keyboard.press("ArrowLeft")
    expect(buttons.nth(1)).to_be_focused()
