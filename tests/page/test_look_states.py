"""The view Look in states that are easily forgotten: left in the middle, wrong, or very long."""

import csv
import io
import json
from collections.abc import Iterator
from urllib.parse import parse_qs

import httpx
import numpy as np
import pytest
from playwright.sync_api import Locator, Route, expect

from polyseme.engine.attention import Scoring
from tests.conftest import Serve
from tests.page.conftest import Open
from tests.page.look_reader import APPLES, attention, choose, encoded, grid, look, weights
from tests.page.reader import Reader, hold
from tests.tiny import full_layer, normal, write_tiny

HEARD = """(line) => {
  const told = [];
  new MutationObserver(() => {
    if (line.getAttribute("aria-live") !== "off") told.push(line.textContent);
  }).observe(line, { childList: true, characterData: true, subtree: true });
  line.told = told;
}"""


def four():
    """A layer of four heads."""
    scoring = Scoring(True, "other-words", normal(np.random.default_rng(3), 4, 13))
    return full_layer(3, heads=4, scoring=scoring)


@pytest.fixture(scope="module")
def models(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    place = tmp_path_factory.mktemp("models")
    bias = normal(np.random.default_rng(3), 11)
    write_tiny(place / "deep", layers=[full_layer(1), full_layer(2)], word_bias=bias)
    write_tiny(place / "four", layers=[four()])
    return serve(models_dir=place)


def sentence(reader: Reader) -> Locator:
    return reader.page.get_by_label("Sentence", exact=True)


def words(reader: Reader) -> Locator:
    return reader.page.locator(".look button.word")


def status(reader: Reader, figure: str) -> Locator:
    return reader.page.get_by_role("figure", name=figure).get_by_role("status")


def compared(reader: Reader) -> dict[str, str]:
    link = reader.page.get_by_role("link", name="Compare this occurrence")
    asked = parse_qs(link.get_attribute("href").partition("?")[2], keep_blank_values=True)
    return {name: values[0] for name, values in asked.items()}


def test_an_occurrence_alone_goes_to_compare_with_an_empty_one(
    open_page: Open, models: httpx.Client
) -> None:
    reader = open_page(look(text="apple bank", word=1, model="four", case="exact"), service=models)
    asked = compared(reader)
    rows = json.loads(asked.pop("occurrences"))
    assert rows == [["apple bank", "bank", 0], ["", "", 0]]
    assert asked == {"model": "four", "case": "exact"}
    choose(reader, "Case", "auto")
    assert "case" not in compared(reader)


def test_what_is_typed_is_sent_though_the_view_is_left(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).evaluate(
        """(box) => {
            box.value = "The river bank";
            box.dispatchEvent(new Event("input"));
            document.querySelector("[data-view=models]").click();
        }"""
    )
    expect(reader.page.get_by_role("heading", name="Models", level=2)).to_be_visible()
    reader.page.wait_for_timeout(400)
    reader.page.get_by_role("link", name="Look", exact=True).click()
    expect(words(reader)).to_have_count(3)
    assert sentence(reader).input_value() == "The river bank"
    assert reader.address == "#look?text=The+river+bank"


def test_the_address_has_the_cell_though_the_view_was_left(open_page: Open) -> None:
    reader = open_page(look(row=2, column=2))
    grid(reader).evaluate(
        """(grid) => {
            grid.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
            document.querySelector("[data-view=models]").click();
        }"""
    )
    expect(reader.page.get_by_role("heading", name="Models", level=2)).to_be_visible()
    reader.page.wait_for_timeout(300)
    reader.page.get_by_role("link", name="Look", exact=True).click()
    reader.page.wait_for_url("**#look?row=3&column=2")


def test_a_cell_is_kept_where_the_next_view_is_slow_to_come(open_page: Open) -> None:
    reader = open_page(look(row=2, column=2))
    held: list[Route] = []
    reader.page.route("**/page/models/view.js", hold(held))
    grid(reader).press("ArrowDown")
    reader.page.get_by_role("link", name="Models").click()
    expect(reader.page.locator("main[aria-busy]")).to_have_count(1)
    reader.page.wait_for_timeout(300)
    assert reader.address == "#models"
    back = reader.page.get_by_role("link", name="Look", exact=True)
    assert back.get_attribute("href") == "#look?row=3&column=2"
    held[0].continue_()
    reader.settle()
    assert reader.address == "#models"
    back.click()
    reader.settle()
    assert reader.address == "#look?row=3&column=2"


def test_back_leads_to_a_sentence_that_was_typed_over(open_page: Open) -> None:
    reader = open_page()
    sentence(reader).fill("A river")
    reader.page.keyboard.press("Enter")
    expect(words(reader)).to_have_count(2)
    before = reader.page.evaluate("history.length")
    for text, count in [("one two three", 3), ("one two three four", 4)]:
        sentence(reader).fill(text)
        expect(words(reader)).to_have_count(count)
    assert reader.page.evaluate("history.length") == before + 1
    for text in ("A river", APPLES):
        reader.page.go_back()
        expect(sentence(reader)).to_have_value(text)


def test_very_long_words_are_never_wider_than_the_page(open_page: Open) -> None:
    reader = open_page(width=320)
    for length in (25, 60, 100_000):
        long = "m" * length
        for picture in ("heatmap", "lines"):
            reader.go(look(text=f"river {long}", word=1, picture=picture))
            assert not reader.scrolls_sideways(), (length, picture)
        heading = reader.page.get_by_role("heading", name="looks most at").text_content()
        name = heading.removesuffix(" looks most at")
        assert name == (long if length == 25 else f"{long[:39]}…")
        labels = reader.page.locator(".look [aria-label]").evaluate_all(
            "(all) => all.map((one) => one.getAttribute('aria-label').length)"
        )
        assert max(labels) < 1000


def test_letters_of_several_signs_stay_whole_in_shortened_words(open_page: Open) -> None:
    family = "👩‍👩‍👧‍👦"
    reader = open_page()
    inside = "async (family) => [await import('/page/figures/bars.js')].map(({ bars }) =>"
    inside += " bars([{ word: family.repeat(9), value: 1 }], { width: 150, name: '' }))"
    label = reader.page.evaluate(f"{inside}[0].querySelector('text').textContent", family)
    lettering = "async ([family, most]) => (await import('/page/figures/lettering.js'))"
    fitted = reader.page.evaluate(
        f"{lettering}.fitted([family.repeat(9)], 12, most)[0]", [family, 60]
    )
    for cut in (label, fitted):
        assert cut.endswith("…")
        assert cut.rstrip("…").replace(family, "") == ""
        assert len(cut) > len(family)
    for count, shown in [(3, family * 3), (4, f"{family * 2}…")]:
        text = family * count
        assert reader.page.evaluate(f"{lettering}.shortened(family, most)", [text, 3]) == shown


def test_a_copied_table_reads_as_it_was_in_a_spreadsheet(
    open_page: Open, client: httpx.Client
) -> None:
    text = 'He said "no" " to it.'
    reader = open_page(look(text=text))
    reader.page.get_by_text("The numbers").click()
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
        """async (cells) => (await import("/page/look/numbers.js")).separated([cells])""",
        ['a\t"b"', "c\nd", "e"],
    )
    assert list(csv.reader(io.StringIO(cells, newline=""), "excel-tab")) == [
        ['a\t"b"', "c\nd", "e"]
    ]


def heard(line: Locator) -> list[str]:
    """What a live region said since it was last asked."""
    return line.evaluate("(line) => line.told.splice(0)")


def test_each_cell_is_said_once(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(row=0, column=0))
    line = status(reader, "Attention:")
    line.evaluate(HEARD)
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
    # A cell that is not the one before: its name is read as that of any new place.
    assert len(cells) == 2
    assert heard(line) == []
    reader.page.evaluate("document.activeElement.blur()")
    box = grid(reader).bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 3)
    reader.settle()
    expected = weights(client, APPLES, heads="mean")[0, 0, 11]
    assert heard(line) == [f"Apple looks at .: {expected:.4f}"]


def test_each_dimension_is_said_once_and_how_to_point_never(open_page: Open) -> None:
    reader = open_page()
    line = status(reader, "static beside contextual")
    line.evaluate(HEARD)
    slider = reader.page.get_by_role("slider")
    slider.focus()
    reader.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == line.text_content()
    assert heard(line) == []
    reader.page.evaluate("document.activeElement.blur()")
    box = slider.bounding_box()
    reader.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    reader.settle()
    assert heard(line) == [slider.get_attribute("aria-valuetext")]
    reader.page.mouse.move(0, 0)
    for text in ("A river", "The river bank"):
        sentence(reader).fill(text)
        reader.page.keyboard.press("Enter")
        expect(words(reader)).to_have_count(len(text.split()))
    expect(line).to_have_text("Point at a dimension, or go through them with the arrows.")
    assert heard(line) == []
    reader.page.get_by_role("button", name="Lines").click()
    line = status(reader, "Attention:")
    expect(line).to_contain_text("Point at a word")
    line.evaluate(HEARD)
    sentence(reader).fill("A river bank")
    expect(words(reader).first).to_contain_text("A")
    assert heard(line) == []


def test_who_looks_at_unknown_words_is_what_the_weights_say(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page()
    zero = "their static vectors are zero and"
    for text, said in [
        ("qqzx", "1 word, unknown: its static vector is zero and it looks at itself."),
        ("qqzx vvwk", f"2 words, all unknown: {zero} each looks at itself."),
        (
            "river qqzx",
            "2 words, 1 of them unknown: its static vector is zero and no word looks at it.",
        ),
        ("river qqzx vvwk", f"3 words, 2 of them unknown: {zero} no word looks at them."),
    ]:
        given = weights(client, text)[0]
        unknown = [token["resolution"] == "oov" for token in encoded(client, text)["tokens"]]
        assert (given[:, :, unknown].max() == 0) == (not all(unknown))
        reader.go(look(text=text))
        expect(reader.page.locator(".usage")).to_have_text(said)


def test_a_layer_or_a_head_that_is_not_there_is_said(open_page: Open, models: httpx.Client) -> None:
    reader = open_page(service=models)
    layers = "This model has layers 0 to 1: layer 0 is shown."
    heads = "This model has heads 0 to 2: the mean of heads is shown."
    for state, said in [
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
        reader.go(look(text="apple bank", **{"model": "deep", **state}))
        told = reader.page.locator(".chooser .lacking")
        if said is None:
            expect(told).to_be_hidden()
        else:
            expect(told).to_have_text(said)


def test_the_list_of_heads_is_made_anew_where_they_differ_alone(
    open_page: Open, models: httpx.Client
) -> None:
    reader = open_page(look(text="apple bank", model="four"), service=models)
    offered = attention(reader).get_by_label("Head", exact=True).locator("option")
    assert offered.all_text_contents() == ["mean of heads", "0", "1", "2", "3"]
    offered.first.evaluate("(option) => { option.dataset.kept = 'true'; }")
    choose(reader, "Head", "2")
    words(reader).nth(1).click()
    reader.settle()
    expect(offered.first).to_have_attribute("data-kept", "true")
    reader.go(look(text="apple bank", model="deep", picture="lines"))
    assert offered.all_text_contents() == ["mean of heads", "0", "1", "2", "each in its colour"]
