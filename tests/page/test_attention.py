"""The view Attention: the sentence, its words, the address, and models of every kind."""

import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

import polyseme
from tests.page.conftest import Open
from tests.page.driver import (
    APPLE_VIEW,
    APPLES,
    HEBREW,
    address,
    attention,
    contributions,
    encoded,
    grid,
    point,
    query_of,
    readout,
    weights,
    word_texts,
    words,
)

pytestmark = pytest.mark.slow


def test_an_example_opens_on_the_word_that_it_is_about(open_page: Open) -> None:
    reader = open_page("#attention")
    result = reader.page.locator("section[aria-label=Words] strong")
    assert result.text_content() == "bank and bank: 1.00 static, 0.61 in context"
    assert word_texts(reader)[2] == "bank"
    assert words(reader).nth(2).get_attribute("aria-pressed") == "true"
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
    assert reader.heading("Apple: 1.00 static, 0.50 in context").is_visible()


def test_the_pronoun_shows_what_the_models_give(open_page: Open, several: httpx.Client) -> None:
    reader = open_page("#attention", service=several)
    reader.press("A pronoun")
    note = reader.texts(".example-note")[0]
    assert "Teaching notes often expect “animal” for “it”" in note
    text = "The animal didn't cross the street because it was too tired."
    row = contributions(several, text)[0, 8]
    assert f"“animal” contributes {row[1]:.2f} to it" in note
    assert reader.heading("it is made of").is_visible()
    assert words(reader).nth(8).get_attribute("aria-pressed") == "true"
    point(reader, 8, 1, 13)
    assert readout(reader) == f"it gets from animal: {row[1]:.4f}"
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


def test_a_sentence_is_submitted_by_a_pause_by_enter_or_by_the_button(open_page: Open) -> None:
    reader = open_page(APPLE_VIEW)
    sentence = reader.field("Sentence")
    sentence.fill("The river bank")
    expect(words(reader)).to_have_count(3)
    assert reader.address == "#attention?text=The+river+bank"
    sentence.press_sequentially(" too")
    expect(words(reader)).to_have_count(4)
    assert sentence.input_value() == "The river bank too"
    sentence.fill("one")
    reader.page.keyboard.press("Shift+Enter")
    reader.page.keyboard.type("two")
    reader.keys("Enter")
    assert word_texts(reader) == ["one", "two"]
    assert sentence.input_value() == "one\ntwo"
    assert reader.address == "#attention?text=one%0Atwo"
    sentence.fill("one two three")
    reader.press("Show attention")
    assert word_texts(reader) == ["one", "two", "three"]


def test_a_sentence_is_one_entry_of_the_history_however_it_is_submitted(open_page: Open) -> None:
    reader = open_page(APPLE_VIEW)
    reader.submit("Sentence", "A river")
    # All states of a sentence that is being typed are one entry.
    for text in ("one two three", "one two three four"):
        reader.field("Sentence").fill(text)
        expect(words(reader)).to_have_count(len(text.split()))
    reader.keys("Enter")
    reader.press("A pronoun")
    expect(words(reader).nth(1)).to_contain_text("animal")
    for text in ("one two three four", "A river", APPLES):
        reader.back()
        assert reader.field("Sentence").input_value() == text
        assert len(word_texts(reader)) == (12 if text == APPLES else len(text.split()))
    reader.page.go_forward()
    reader.settle()
    assert word_texts(reader) == ["A", "river"]


def test_a_sentence_over_the_limit_shows_the_services_error(
    open_page: Open, client: httpx.Client
) -> None:
    long = "river " * 20_000
    reader = open_page(APPLE_VIEW)
    reader.field("Sentence").fill(long)
    expect(reader.problem).to_be_visible()
    error = client.post("/v1/encode", json={"input": long}).json()
    assert error["status"] == 413
    numbers = f"has {error['size']} words, but at most {error['limit']} are allowed."
    assert numbers in reader.problem.text_content()
    assert not words(reader).first.is_visible()


def test_an_invalid_address_shows_the_defaults(visit: Open) -> None:
    reader = visit(f"{APPLE_VIEW}&word=99")
    for state in ({"word": 99}, {"layer": 7, "head": "x"}, {"row": -1, "word": "e"}):
        reader.go(address("attention", text=APPLES, **state))
        assert words(reader).nth(0).get_attribute("aria-pressed") == "true", state
        assert reader.heading("Layer 0, contributions").is_visible(), state
        reader.go(f"{APPLE_VIEW}&word=4&head=2")
        assert words(reader).nth(0).get_attribute("aria-pressed") == "false"
        assert reader.heading("Layer 0, head 2").is_visible()


def test_the_sentence_is_never_part_of_a_requested_url(open_page: Open) -> None:
    reader = open_page(APPLE_VIEW)
    reader.submit("Sentence", "a secret sentence")
    reader.reload()
    assert word_texts(reader) == ["a", "secret", "sentence"]
    assert len(reader.requests) > 2
    assert [one.url for one in reader.requests if "secret" in one.url.split("#")[0]] == []


def test_letters_beyond_the_bmp_and_emoji_are_words(visit: Open, client: httpx.Client) -> None:
    text = "👩‍🚀 𝔘𝔫𝔦 river 😀"
    reader = visit(address("attention", text=text))
    assert word_texts(reader) == [token["text"] for token in encoded(client, text)["tokens"]]


def test_the_arrow_keys_move_between_words(visit: Open) -> None:
    reader = visit(APPLE_VIEW)
    words(reader).nth(0).focus()
    reader.keys("ArrowRight", "ArrowRight", "Home", "End", "ArrowLeft", "Enter")
    assert reader.address == f"{APPLE_VIEW}&word=10"
    assert reader.heading("apple is made of").is_visible()
    assert [word.get_attribute("tabindex") for word in words(reader).all()].count("0") == 1


def test_an_occurrence_opens_compare_with_another_one_if_there_is_one(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(f"{APPLE_VIEW}&word=10")
    link = reader.link("Compare this occurrence")
    for text, word, rows in [
        (APPLES, 10, [[APPLES, "apple", 0], [APPLES, "Apple", 0]]),
        ("bank river bank", 2, [["bank river bank", "bank", 1], ["bank river bank", "bank", 0]]),
        ("apple bank", 1, [["apple bank", "bank", 0], ["", "", 0]]),
    ]:
        reader.go(address("attention", text=text, word=word))
        assert query_of(link.get_attribute("href")) == {"occurrences": json.dumps(
            rows, ensure_ascii=False, separators=(",", ":")
        )}  # fmt: skip
    reader = visit("#attention?model=four&case=exact&text=bank", service=tiny_models)
    query = query_of(reader.link("Compare this occurrence").get_attribute("href"))
    assert (query["model"], query["case"]) == ("four", "exact")


def test_very_long_words_are_shortened_and_never_wider_than_the_page(visit: Open) -> None:
    reader = visit(APPLE_VIEW, width=320)
    for length in (25, 60, 100_000):
        long = "m" * length
        for picture in ("heatmap", "lines"):
            reader.go(address("attention", text=f"river {long}", word=1, picture=picture))
            assert not reader.scrolls_sideways(), (length, picture)
        shown = long if length == 25 else f"{long[:39]}…"
        assert reader.heading("is made of").text_content() == f"{shown} is made of"
        labels = reader.page.locator(".attention [aria-label]").evaluate_all(
            "(all) => all.map((one) => one.getAttribute('aria-label').length)"
        )
        assert max(labels) < 1000


SHORTENED = """async (family) => {
  const { bars } = await import("/page/bars.js");
  const { fitTexts, shorten } = await import("/page/text.js");
  const figure = bars([{ word: family.repeat(9), value: 1 }], { width: 150, name: "" });
  return [
    figure.querySelector("text").textContent, fitTexts([family.repeat(9)], 12, 60)[0],
    shorten(family.repeat(3), 3), shorten(family.repeat(4), 3),
  ];
}"""


def test_shortened_words_keep_grapheme_clusters(visit: Open) -> None:
    family = "👩‍👩‍👧‍👦"
    *fitted, three, four = visit(APPLE_VIEW).page.evaluate(SHORTENED, family)
    for shortened in fitted:
        assert shortened.endswith("…")
        assert shortened.rstrip("…").replace(family, "") == ""
        assert len(shortened) > len(family)
    assert (three, four) == (family * 3, f"{family * 2}…")


def test_each_cell_is_announced_once(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(f"{APPLE_VIEW}&row=0&column=0")
    reader.record_announcements(".main figure")
    grid(reader).focus()
    for column in (1, 2):
        reader.keys("ArrowRight")
        assert reader.query["column"] == str(column)
        assert reader.announced() == [readout(reader)]
    reader.page.evaluate("document.activeElement.blur()")
    box = grid(reader).bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 3)
    reader.settle()
    expected = contributions(client, APPLES)[0, 0, 13]
    announced = f"Apple gets from its position: {expected:.4f}".replace("-", "−")
    assert reader.announced() == [announced]


def test_hints_are_not_announced(open_page: Open) -> None:
    reader = open_page("#attention?picture=lines")
    expect(attention(reader).get_by_role("status")).to_contain_text("Point at a word")
    reader.record_announcements(".main figure")
    reader.submit("Sentence", "A river bank")
    expect(words(reader).first).to_contain_text("A")
    assert reader.announced() == []


def test_the_note_on_unknown_words_agrees_with_the_weights(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit(APPLE_VIEW)
    zero = "Static vectors of unknown words are zero, and"
    for text, expected in {
        "river bank": "2 words and marks, none unknown.",
        "qqzx": f"1 word or mark, 1 unknown. {zero} each attends to itself.",
        "qqzx vvwk": f"2 words and marks, 2 unknown. {zero} each attends to itself.",
        "river qqzx vvwk": f"3 words and marks, 2 unknown. {zero} no word attends to them.",
    }.items():
        attended = weights(client, text)[0]
        unknown = [token["resolution"] == "oov" for token in encoded(client, text)["tokens"]]
        assert (attended[:, :, unknown].max(initial=0) == 0) == (not all(unknown))
        reader.go(address("attention", text=text))
        assert reader.texts(".usage") == [expected]


def test_the_list_of_heads_is_rebuilt_only_if_it_differs(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(address("attention", text="apple bank", model="four"), service=tiny_models)
    offered = attention(reader).get_by_label("Head", exact=True).locator("option")
    fixed = ["contributions", "mean of heads"]
    assert offered.all_text_contents() == [*fixed, "0", "1", "2", "3"]
    offered.first.evaluate("(option) => { option.dataset.kept = 'true'; }")
    reader.choose("Head", "2")
    words(reader).nth(1).click()
    reader.settle()
    expect(offered.first).to_have_attribute("data-kept", "true")
    reader.go(address("attention", text="apple bank", model="deep", picture="lines"))
    assert offered.all_text_contents() == [*fixed, "0", "1", "2"]


TEXT = "apple bank river money did high end"
WORDS = TEXT.split()


def test_each_head_of_each_layer_is_shown(visit: Open, tiny_models: httpx.Client) -> None:
    given = weights(tiny_models, TEXT, model="deep")
    reader = visit(address("attention", text=TEXT, model="deep"), service=tiny_models)
    for layer, head in [(0, 0), (0, 2), (1, 0), (1, 1)]:
        reader.press(f"Layer {layer}, head {head}")
        for row, column in [(0, 3), (5, 2)]:
            point(reader, row, column, len(WORDS))
            weight = f"{given[layer, head, row, column]:.4f}"
            assert readout(reader) == f"{WORDS[row]} attends to {WORDS[column]}: {weight}"
    words(reader).nth(2).click()
    reader.settle()
    row = contributions(tiny_models, TEXT, model="deep")[-1, 2]
    name = reader.page.get_by_role("img", name="is made of").get_attribute("aria-label")
    parts = [*WORDS, "the word itself", "a fixed vector"]
    best = np.abs(row).argmax()
    assert name.startswith(f"river is made of {parts[best]}: {row[best]:.2f}".replace("-", "−"))
    assert reader.query["layer"] == "1"
    reader.press("Layer 0, contributions")
    first = max(contributions(tiny_models, TEXT, model="deep")[0, 2], key=abs)
    name = reader.page.get_by_role("img", name="is made of").get_attribute("aria-label")
    assert f": {first:.2f}".replace("-", "−") in name
    # Another model does not have these layers and heads.
    reader.go(address("attention", text=TEXT, model="many", layer=9, head=9))
    reader.choose("Model", "deep")
    assert reader.heading("Layer 0, contributions").is_visible()
    assert readout(reader).startswith("apple gets from ")


def test_twelve_layers_of_twelve_heads_fit(visit: Open, tiny_models: httpx.Client) -> None:
    state = address("attention", text=TEXT, model="many", layer=11, head=11)
    reader = visit(state, service=tiny_models, width=360)
    thumbnails = reader.page.get_by_role("group", name="Layers and heads").get_by_role("button")
    assert thumbnails.count() == 12 * 14
    assert not reader.scrolls_sideways()
    thumbnails.first.focus()
    reader.keys("ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    assert "layer=2&head=mean" in reader.address


NAMES = {"subword": "subword", "oov": "unknown"}
"""The names of resolutions; others are "other case", and `exact` has none."""


def test_the_resolution_of_each_word_is_shown(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit("#attention?model=deep&text=river", service=tiny_models)
    resolutions = set()
    for model, text in [
        ("small", "Apple bank x"),
        ("parts", "gnu apple"),
        ("deep", "aPPLE Bank BANK x MONEY"),
    ]:
        reader.go(address("attention", text=text, model=model))
        tokens = encoded(tiny_models, text, model=model)["tokens"]
        expected = []
        for token in tokens:
            if token["resolution"] == "exact":
                continue
            name = NAMES.get(token["resolution"], "other case")
            same = token["key"] in {None, token["text"]}
            expected.append(name if same else f"{name}: {token['key']}")
        assert reader.texts("button.word small") == expected, model
        resolutions |= {token["resolution"] for token in tokens}
        composed = reader.text("1 composed of subwords")
        assert composed.is_visible() == (model == "parts")
    assert resolutions >= {"exact", "lower", "subword", "oov"}


def test_right_to_left_words_keep_their_direction(visit: Open, tiny_models: httpx.Client) -> None:
    text = " ".join(HEBREW)
    reader = visit(address("attention", text=text, model="hebrew", head=0), service=tiny_models)
    expected = weights(tiny_models, text, model="hebrew")[0, 0]
    point(reader, 1, 2, 3)
    assert readout(reader) == f"{HEBREW[1]} attends to {HEBREW[2]}: {expected[1, 2]:.4f}"
    buttons = words(reader)
    lefts = [button.bounding_box()["x"] for button in buttons.all()]
    assert lefts == sorted(lefts, reverse=True)
    buttons.first.focus()
    reader.page.keyboard.press("ArrowLeft")
    expect(buttons.nth(1)).to_be_focused()
    assert not reader.scrolls_sideways()


def test_a_single_word_has_a_figure(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit(address("attention", text="apple", model="deep", head=0), service=tiny_models)
    assert readout(reader) == "apple attends to apple: 1.0000"
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    assert readout(reader) == "apple attends to apple: 1.0000"


def test_choosing_a_head_a_picture_or_a_word_sends_no_request(
    open_page: Open, tiny_models: httpx.Client
) -> None:
    reader = open_page(address("attention", text=TEXT, model="deep"), service=tiny_models)
    reader.requests.clear()
    reader.press("Layer 1, head 0")
    reader.press("Lines")
    words(reader).nth(3).click()
    reader.settle()
    assert reader.requested() == []
    assert "word=3" in reader.address
