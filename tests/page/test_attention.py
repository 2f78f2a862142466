"""The view Attention: the sentence, its words, the address, and models of every kind."""

import csv
import io
import json
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import numpy as np
import pytest
from playwright.sync_api import Locator, Route, expect

from tests.page.attention import (
    APPLE_WORDS,
    APPLES,
    HEBREW,
    attention,
    attention_address,
    encoded,
    grid,
    point,
    readout,
    sentence,
    weights,
    words,
)
from tests.page.conftest import Open
from tests.page.reader import Reader, hold

pytestmark = pytest.mark.slow


def word_texts(reader: Reader) -> list[str]:
    return [word.locator("bdi").text_content() for word in words(reader).all()]


def test_the_first_example_has_two_apples(visit: Open) -> None:
    reader = visit("#attention")
    assert sentence(reader).input_value() == APPLES
    assert word_texts(reader) == APPLE_WORDS
    assert words(reader).nth(0).get_attribute("aria-pressed") == "true"


def test_typing_shows_the_new_sentence_after_a_pause(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("The river bank")
    expect(words(reader)).to_have_count(3)
    assert reader.address == "#attention?text=The+river+bank"
    sentence(reader).press_sequentially(" too")
    expect(words(reader)).to_have_count(4)
    assert sentence(reader).input_value() == "The river bank too"


def test_back_and_forward_restore_sentences(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("The river bank")
    expect(words(reader)).to_have_count(3)
    sentence(reader).fill("A river")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(2)
    reader.page.get_by_role("button", name="A pronoun").click()
    expect(words(reader).first).to_contain_text("The")
    seen = []
    for _ in range(2):
        reader.page.go_back()
        reader.settle()
        seen.append(sentence(reader).input_value())
    assert seen == ["A river", APPLES]
    assert word_texts(reader) == APPLE_WORDS
    reader.page.go_forward()
    reader.settle()
    assert word_texts(reader) == ["A", "river"]


def test_enter_submits_and_shift_enter_starts_a_line(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("one")
    reader.page.keyboard.press("Shift+Enter")
    reader.page.keyboard.type("two")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(2)
    assert sentence(reader).input_value() == "one\ntwo"
    assert reader.address == "#attention?text=one%0Atwo"


def test_the_button_submits(open_page: Open) -> None:
    reader = open_page()
    before = reader.page.evaluate("history.length")
    sentence(reader).fill("one two three")
    reader.page.get_by_role("button", name="Show attention").click()
    expect(words(reader)).to_have_count(3)
    # The history of Chromium has at most 50 entries.
    assert reader.page.evaluate("history.length") == min(before + 1, 50)


def test_an_empty_sentence_sends_no_request(open_page: Open) -> None:
    reader = open_page()
    requested: list[str] = []
    reader.page.on("request", lambda request: requested.append(request.url))
    for text, count in [("", 1), ("  \n ", 2)]:
        requested.clear()
        sentence(reader).fill(text)
        reader.page.keyboard.press("Enter")
        expect(reader.problem).to_have_text(
            "Type a sentence to see the attention between its words."
        )
        assert not grid(reader).is_visible()
        assert [url for url in requested if "/v1/" in url] == []
        sentence(reader).fill("river " * count)
        expect(words(reader)).to_have_count(count)
        assert not reader.problem.is_visible()


def test_a_sentence_over_the_limit_shows_the_services_error(
    open_page: Open, client: httpx.Client
) -> None:
    long = "river " * 20_000
    reader = open_page()
    sentence(reader).fill(long)
    expect(reader.problem).to_be_visible()
    error = client.post("/v1/encode", json={"input": long}).json()
    assert error["status"] == 413
    assert error["detail"] in reader.problem.text_content()
    assert not words(reader).first.is_visible()


def test_an_unknown_model_shows_the_services_error(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(model="absent"))
    error = client.post("/v1/encode", json={"input": "a", "model": "absent"}).json()
    assert error["detail"] in reader.problem.text_content()
    reader.choose("Model", "")
    assert word_texts(reader) == APPLE_WORDS


def test_unknown_words_can_be_rejected(visit: Open) -> None:
    reader = visit(attention_address(text="river qqzx"))
    reader.choose("Unknown words", "error")
    assert "vocabulary" in reader.problem.text_content()
    reader.choose("Unknown words", "zero")
    assert word_texts(reader) == ["river", "qqzx"]
    assert "oov=zero" in reader.address


def test_case_changes_the_key_of_a_word(visit: Open) -> None:
    reader = visit(attention_address(text="Apple"))
    reader.choose("Case", "lower")
    assert words(reader).first.locator("small").text_content() == "other case: apple"
    assert reader.address == "#attention?text=Apple&case=lower"


def test_an_address_opened_in_a_new_window_gives_the_same_view(open_page: Open) -> None:
    address = attention_address(
        text=APPLES, case="lower", layer=0, head=2, picture="heatmap", word=4, row=3, column=1
    )
    reader = open_page(address)
    assert words(reader).nth(4).get_attribute("aria-pressed") == "true"
    assert readout(reader).startswith("new attends to launched: ")
    assert reader.page.get_by_label("Head", exact=True).input_value() == "2"
    assert reader.page.get_by_label("Case", exact=True).input_value() == "lower"


def test_an_invalid_address_shows_the_defaults(visit: Open) -> None:
    reader = visit(attention_address(word=99))
    for state in ({"word": 99}, {"layer": 7, "head": "x"}, {"row": -1, "word": "e"}):
        reader.go(attention_address(**state))
        assert words(reader).nth(0).get_attribute("aria-pressed") == "true", state
        assert reader.page.get_by_role("heading", name="Layer 0, mean of heads").is_visible(), state
        reader.go(attention_address(word=4, head=2))
        assert words(reader).nth(0).get_attribute("aria-pressed") == "false"
        assert reader.page.get_by_role("heading", name="Layer 0, head 2").is_visible()


def test_the_sentence_is_never_part_of_a_requested_url(open_page: Open) -> None:
    reader = open_page()
    requested: list[str] = []
    reader.page.on("request", lambda request: requested.append(request.url))
    sentence(reader).fill("a secret sentence")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(3)
    reader.page.reload()
    reader.settle()
    assert word_texts(reader) == ["a", "secret", "sentence"]
    assert len(requested) > 2
    assert [url for url in requested if "secret" in url.split("#")[0]] == []


def test_markup_stays_text(open_page: Open) -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    reader = open_page()
    reader.page.on("dialog", lambda dialog: reader.wrong.append(f"dialog: {dialog.message}"))
    sentence(reader).fill(text)
    reader.page.keyboard.press("Enter")
    expect(words(reader).nth(1)).to_contain_text("img")
    words(reader).nth(1).click()
    reader.page.get_by_text("The weights as a table").click()
    assert reader.page.locator("main img, main script").count() == 0
    assert reader.page.get_by_role("heading", name="img attends most to").is_visible()


def test_letters_beyond_the_bmp_and_emoji_are_words(visit: Open, client: httpx.Client) -> None:
    text = "👩‍🚀 𝔘𝔫𝔦 river 😀"
    reader = visit(attention_address(text=text))
    assert word_texts(reader) == [token["text"] for token in encoded(client, text)["tokens"]]


def test_a_very_long_word_fits(visit: Open) -> None:
    reader = visit(attention_address(text="river " + "long" * 500), width=320)
    assert len(word_texts(reader)) == 2
    assert not reader.scrolls_sideways()
    reader.go(attention_address(text="river " + "long" * 500, picture="lines"))
    assert not reader.scrolls_sideways()


def test_the_response_and_its_command_agree(visit: Open, tmp_path: Path) -> None:
    reader = visit(attention_address(text="It's the bank's \"river\" — $HOME `x`"))
    assert reader.saved_json(tmp_path) == reader.run_command()
    assert '{"input":' in reader.command()
    assert "model" not in reader.command()


def test_the_arrow_keys_move_between_words(visit: Open) -> None:
    reader = visit("#attention")
    words(reader).nth(0).focus()
    for key in ["ArrowRight", "ArrowRight", "Home", "End", "ArrowLeft", "Enter"]:
        reader.page.keyboard.press(key)
    reader.settle()
    assert reader.address == "#attention?word=10"
    assert reader.page.get_by_role("heading", name="apple attends most to").is_visible()
    assert [word.get_attribute("tabindex") for word in words(reader).all()].count("0") == 1


RECORD_ANNOUNCEMENTS = """(line) => {
  const announced = [];
  new MutationObserver(() => {
    if (line.getAttribute("aria-live") !== "off") announced.push(line.textContent);
  }).observe(line, { childList: true, characterData: true, subtree: true });
  line.announced = announced;
}"""


def status(reader: Reader, figure: str) -> Locator:
    """The live region of a figure."""
    return reader.page.get_by_role("figure", name=figure).get_by_role("status")


def compare_query(reader: Reader) -> dict[str, str]:
    """The parameters of the link to the view Compare."""
    link = reader.page.get_by_role("link", name="Compare this occurrence")
    query = parse_qs(link.get_attribute("href").partition("?")[2], keep_blank_values=True)
    return {name: values[0] for name, values in query.items()}


def test_a_word_that_occurs_once_opens_compare_with_an_empty_second_row(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(
        attention_address(text="apple bank", word=1, model="four", case="exact"),
        service=tiny_models,
    )
    query = compare_query(reader)
    rows = json.loads(query.pop("occurrences"))
    assert rows == [["apple bank", "bank", 0], ["", "", 0]]
    assert query == {"model": "four", "case": "exact"}
    reader.choose("Case", "auto")
    assert "case" not in compare_query(reader)


def test_input_is_kept_after_the_view_is_left(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).evaluate(
        """(box) => {
            box.value = "The river bank";
            box.dispatchEvent(new Event("input"));
            document.querySelector("[data-view=models]").click();
        }"""
    )
    expect(reader.page.get_by_role("heading", name="Models", level=2)).to_be_visible()
    # Longer than the 250 ms after which the view shows a typed sentence.
    reader.page.wait_for_timeout(400)
    reader.page.get_by_role("navigation").get_by_role("link", name="Attention").click()
    expect(words(reader)).to_have_count(3)
    assert sentence(reader).input_value() == "The river bank"
    assert reader.address == "#attention?text=The+river+bank"


def test_the_address_has_the_cell_after_the_view_is_left(open_page: Open) -> None:
    reader = open_page(attention_address(row=2, column=2))
    grid(reader).evaluate(
        """(grid) => {
            grid.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
            document.querySelector("[data-view=models]").click();
        }"""
    )
    expect(reader.page.get_by_role("heading", name="Models", level=2)).to_be_visible()
    # Longer than the 150 ms after which the address follows the cell.
    reader.page.wait_for_timeout(300)
    reader.page.get_by_role("navigation").get_by_role("link", name="Attention").click()
    reader.page.wait_for_url("**#attention?row=3&column=2")


def test_a_cell_is_kept_while_the_next_view_loads(open_page: Open) -> None:
    reader = open_page(attention_address(row=2, column=2))
    held: list[Route] = []
    reader.page.route("**/page/models/view.js", hold(held))
    grid(reader).press("ArrowDown")
    reader.page.get_by_role("link", name="Models").click()
    expect(reader.page.locator("main[aria-busy]")).to_have_count(1)
    # Longer than the 150 ms after which the address follows the cell.
    reader.page.wait_for_timeout(300)
    assert reader.address == "#models"
    back = reader.page.get_by_role("navigation").get_by_role("link", name="Attention")
    assert back.get_attribute("href") == "#attention?row=3&column=2"
    held[0].continue_()
    reader.settle()
    assert reader.address == "#models"
    back.click()
    reader.settle()
    assert reader.address == "#attention?row=3&column=2"


def test_back_restores_the_previous_sentence(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("A river")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(2)
    before = reader.page.evaluate("history.length")
    for text, count in [("one two three", 3), ("one two three four", 4)]:
        sentence(reader).fill(text)
        expect(words(reader)).to_have_count(count)
    # The history of Chromium has at most 50 entries.
    assert reader.page.evaluate("history.length") == min(before + 1, 50)
    for text in ("A river", APPLES):
        reader.page.go_back()
        expect(sentence(reader)).to_have_value(text)


def test_a_typed_sentence_is_before_an_example_in_the_history(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("The river bank")
    expect(words(reader)).to_have_count(3)
    reader.page.get_by_role("button", name="A pronoun").click()
    expect(words(reader).nth(1)).to_contain_text("animal")
    for text in ("The river bank", APPLES):
        reader.page.go_back()
        expect(sentence(reader)).to_have_value(text)


def test_very_long_words_are_never_wider_than_the_page(visit: Open) -> None:
    reader = visit("#attention", width=320)
    for length in (25, 60, 100_000):
        long = "m" * length
        for picture in ("heatmap", "lines"):
            reader.go(attention_address(text=f"river {long}", word=1, picture=picture))
            assert not reader.scrolls_sideways(), (length, picture)
        heading = reader.page.get_by_role("heading", name="attends most to").text_content()
        name = heading.removesuffix(" attends most to")
        assert name == (long if length == 25 else f"{long[:39]}…")
        labels = reader.page.locator(".attention [aria-label]").evaluate_all(
            "(all) => all.map((one) => one.getAttribute('aria-label').length)"
        )
        assert max(labels) < 1000


def test_shortened_words_keep_grapheme_clusters(visit: Open) -> None:
    family = "👩‍👩‍👧‍👦"
    reader = visit("#attention")
    label = reader.page.evaluate(
        """async (family) => {
            const { bars } = await import("/page/bars.js");
            const figure = bars([{ word: family.repeat(9), value: 1 }], { width: 150, name: "" });
            return figure.querySelector("text").textContent;
        }""",
        family,
    )
    module = "async ([family, most]) => (await import('/page/text.js'))"
    fitted = reader.page.evaluate(
        f"{module}.fitTexts([family.repeat(9)], 12, most)[0]", [family, 60]
    )
    for shortened in (label, fitted):
        assert shortened.endswith("…")
        assert shortened.rstrip("…").replace(family, "") == ""
        assert len(shortened) > len(family)
    for count, shown in [(3, family * 3), (4, f"{family * 2}…")]:
        text = family * count
        assert reader.page.evaluate(f"{module}.shorten(family, most)", [text, 3]) == shown


def test_a_copied_table_can_be_pasted_into_a_spreadsheet(
    open_page: Open, client: httpx.Client
) -> None:
    text = 'He said "no" " to it.'
    reader = open_page(attention_address(text=text))
    reader.page.get_by_text("The weights as a table").click()
    reader.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.page.get_by_role("button", name="tab-separated").click()
    expect(reader.page.get_by_text("Copied.")).to_be_visible()
    copied = reader.page.evaluate("navigator.clipboard.readText()")
    table = list(csv.reader(io.StringIO(copied), "excel-tab"))
    expected = [token["text"] for token in encoded(client, text)["tokens"]]
    assert '"' in expected
    assert table[0] == ["", *expected]
    assert [row[0] for row in table[1:]] == expected
    assert {len(row) for row in table} == {len(expected) + 1}
    cells = reader.page.evaluate(
        """async (cells) => (await import("/page/attention/weights.js")).tabSeparated([cells])""",
        ['a\t"b"', "c\nd", "e"],
    )
    assert list(csv.reader(io.StringIO(cells, newline=""), "excel-tab")) == [
        ['a\t"b"', "c\nd", "e"]
    ]


def announcements(line: Locator) -> list[str]:
    """The announcements of a live region since the last call."""
    return line.evaluate("(line) => line.announced.splice(0)")


def test_each_cell_is_announced_once(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(attention_address(row=0, column=0))
    line = status(reader, "Attention:")
    line.evaluate(RECORD_ANNOUNCEMENTS)
    grid(reader).focus()
    cells = set()
    for column in (1, 2):
        reader.page.keyboard.press("ArrowRight")
        reader.page.wait_for_url(f"**column={column}")
        reader.settle()
        cell = reader.page.get_by_role("gridcell")
        assert cell.get_attribute("aria-label") == line.text_content()
        active = grid(reader).get_attribute("aria-activedescendant")
        assert active == cell.get_attribute("id")
        cells.add(active)
    # Each cell is another element, so a screen reader reads its name as that of a new cell.
    assert len(cells) == 2
    assert announcements(line) == []
    reader.page.evaluate("document.activeElement.blur()")
    box = grid(reader).bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 3)
    reader.settle()
    expected = weights(client, APPLES, heads="mean")[0, 0, 11]
    assert announcements(line) == [f"Apple attends to .: {expected:.4f}"]


def test_each_dimension_is_announced_once(open_page: Open) -> None:
    reader = open_page()
    line = status(reader, "static and contextual vector")
    line.evaluate(RECORD_ANNOUNCEMENTS)
    slider = reader.page.get_by_role("slider")
    slider.focus()
    reader.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == line.text_content()
    assert announcements(line) == []
    reader.page.evaluate("document.activeElement.blur()")
    box = slider.bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    reader.settle()
    assert announcements(line) == [slider.get_attribute("aria-valuetext")]
    reader.page.mouse.move(0, 0)
    for text in ("A river", "The river bank"):
        sentence(reader).fill(text)
        reader.page.keyboard.press("Enter")
        expect(words(reader)).to_have_count(len(text.split()))
    expect(line).to_have_text("Point at a dimension, or use the arrow keys.")
    assert announcements(line) == []
    reader.page.get_by_role("button", name="Lines").click()
    line = status(reader, "Attention:")
    expect(line).to_contain_text("Point at a word")
    line.evaluate(RECORD_ANNOUNCEMENTS)
    sentence(reader).fill("A river bank")
    expect(words(reader).first).to_contain_text("A")
    assert announcements(line) == []


def test_the_note_on_unknown_words_agrees_with_the_weights(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit("#attention")
    zero = "their static vectors are zero and"
    for text, expected in [
        ("qqzx", "1 word, unknown: its static vector is zero and it attends to itself."),
        ("qqzx vvwk", f"2 words, all unknown: {zero} each attends to itself."),
        (
            "river qqzx",
            "2 words, 1 of them unknown: its static vector is zero and no word attends to it.",
        ),
        ("river qqzx vvwk", f"3 words, 2 of them unknown: {zero} no word attends to them."),
    ]:
        attended = weights(client, text)[0]
        unknown = [token["resolution"] == "oov" for token in encoded(client, text)["tokens"]]
        assert (attended[:, :, unknown].max() == 0) == (not all(unknown))
        reader.go(attention_address(text=text))
        expect(reader.page.locator(".usage")).to_have_text(expected)


def test_a_missing_layer_or_head_is_reported(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit("#attention", service=tiny_models)
    layers = "This model has layers 0 to 1: layer 0 is shown."
    heads = "This model has heads 0 to 2: the mean of heads is shown."
    for state, message in [
        ({"layer": 5, "head": 9}, f"{layers} {heads}"),
        ({"layer": "x"}, layers),
        ({"head": 3}, heads),
        ({"head": 3, "picture": "lines"}, heads),
        ({"layer": 1, "model": "four", "head": 3}, "This model has one layer: layer 0 is shown."),
        ({"model": "four", "head": 3}, None),
        ({"layer": 1, "head": 2}, None),
        ({"head": "each"}, None),
        ({"head": "each", "picture": "lines"}, None),
    ]:
        reader.go(attention_address(text="apple bank", **{"model": "deep", **state}))
        note = reader.page.locator(".chooser .missing")
        if message is None:
            expect(note).to_be_hidden()
        else:
            expect(note).to_have_text(message)


def test_the_list_of_heads_is_rebuilt_only_if_it_differs(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(attention_address(text="apple bank", model="four"), service=tiny_models)
    offered = attention(reader).get_by_label("Head", exact=True).locator("option")
    assert offered.all_text_contents() == ["mean of heads", "0", "1", "2", "3"]
    offered.first.evaluate("(option) => { option.dataset.kept = 'true'; }")
    reader.choose("Head", "2")
    words(reader).nth(1).click()
    reader.settle()
    expect(offered.first).to_have_attribute("data-kept", "true")
    reader.go(attention_address(text="apple bank", model="deep", picture="lines"))
    assert offered.all_text_contents() == ["mean of heads", "0", "1", "2", "each in its color"]


TEXT = "apple bank river money did high end"
WORDS = TEXT.split()


def test_each_head_of_each_layer_is_shown(visit: Open, tiny_models: httpx.Client) -> None:
    attention_weights = weights(tiny_models, TEXT, model="deep")
    reader = visit(attention_address(text=TEXT, model="deep"), service=tiny_models)
    for layer, head in [(0, 0), (0, 2), (1, 0), (1, 1)]:
        reader.page.get_by_role("button", name=f"Layer {layer}, head {head}", exact=True).click()
        reader.settle()
        expected = attention_weights[layer, head]
        for row, column in [(0, 3), (5, 2)]:
            point(reader, row, column, len(WORDS))
            assert readout(reader) == (
                f"{WORDS[row]} attends to {WORDS[column]}: {expected[row, column]:.4f}"
            ), (layer, head)


def test_the_most_attended_words_use_the_mean_of_the_last_layer(
    visit: Open, tiny_models: httpx.Client
) -> None:
    row = weights(tiny_models, TEXT, model="deep", heads="mean")[-1, 2]
    reader = visit(attention_address(text=TEXT, model="deep", word=2), service=tiny_models)
    reader.choose("Layer", "1")
    assert "layer=1" in reader.address
    name = reader.page.get_by_role("img", name="river attends most to").get_attribute("aria-label")
    best = np.argmax(row)
    assert name.startswith(f"river attends most to {WORDS[best]}: {row[best]:.2f}")


def test_twelve_layers_of_twelve_heads_fit(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit(
        attention_address(text=TEXT, model="many", layer=11, head=11),
        service=tiny_models,
        width=360,
    )
    thumbnails = reader.page.get_by_role("group", name="Layers and heads").get_by_role("button")
    assert thumbnails.count() == 12 * 13
    assert not reader.scrolls_sideways()
    thumbnails.first.focus()
    for key in ["ArrowDown", "ArrowDown", "ArrowRight", "Enter"]:
        reader.page.keyboard.press(key)
    reader.settle()
    assert "layer=2&head=0" in reader.address


def test_a_layer_that_another_model_lacks_falls_back(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(attention_address(text=TEXT, model="many", layer=9, head=9), service=tiny_models)
    reader.choose("Model", "deep")
    assert reader.page.get_by_role("heading", name="Layer 0, mean of heads").is_visible()
    assert readout(reader).startswith("apple attends to ")


NAMES = {
    "exact": "exact",
    "lower": "other case",
    "capitalised": "other case",
    "upper": "other case",
    "subword": "subword",
    "oov": "unknown",
}
"""The names of resolutions in the legend."""


def test_the_resolution_of_each_word_is_shown(visit: Open, tiny_models: httpx.Client) -> None:
    reader = visit(attention_address(text="river", model="deep"), service=tiny_models)
    for model, text in [
        ("small", "Apple bank x"),
        ("parts", "gnu apple"),
        ("deep", "aPPLE Bank BANK x MONEY"),
    ]:
        reader.go(attention_address(text=text, model=model))
        tokens = encoded(tiny_models, text, model=model)["tokens"]
        found = reader.page.locator("button.word small").all_text_contents()
        names = [NAMES[token["resolution"]] for token in tokens]
        assert found == [
            f"{name}: {token['key']}" if token["key"] not in {None, token["text"]} else name
            for name, token in zip(names, tokens, strict=True)
        ], model


def test_fallbacks_to_lower_case_and_subwords_are_shown(
    visit: Open, tiny_models: httpx.Client
) -> None:
    reader = visit(attention_address(text="Apple gnu", model="small"), service=tiny_models)
    found = reader.page.locator("button.word small")
    assert found.all_text_contents() == ["other case: apple", "unknown"]
    reader.choose("Model", "parts")
    assert found.all_text_contents() == ["exact", "subword"]
    assert reader.page.get_by_text("1 composed of subwords").is_visible()


def test_right_to_left_words_keep_their_direction(visit: Open, tiny_models: httpx.Client) -> None:
    text = " ".join(HEBREW)
    reader = visit(attention_address(text=text, model="hebrew"), service=tiny_models)
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
    reader = visit(attention_address(text="apple", model="deep"), service=tiny_models)
    assert readout(reader) == "apple attends to apple: 1.0000"
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    assert readout(reader) == "apple attends to apple: 1.0000"


def test_cached_responses_are_not_requested_again(
    open_page: Open, tiny_models: httpx.Client
) -> None:
    """Selecting a head, a word or a picture sends no request."""
    reader = open_page(attention_address(text=TEXT, model="deep"), service=tiny_models)
    requested: list[str] = []
    reader.page.on("request", lambda request: requested.append(request.url))
    reader.page.get_by_role("button", name="Layer 1, head 0", exact=True).click()
    reader.page.get_by_role("button", name="Lines").click()
    reader.page.locator("button.word").nth(3).click()
    reader.settle()
    assert [url for url in requested if "/v1/" in url] == []
    assert "word=3" in reader.address
