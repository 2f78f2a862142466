"""The view Attention: heatmap, lines, vectors, table, and figures of long sentences."""

import csv
import io
import re

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from tests.page.conftest import Visit
from tests.page.driver import APPLE_VIEW, APPLE_WORDS, APPLES, LONG_TEXT, Reader, address

pytestmark = pytest.mark.slow

COUNT = len(APPLE_WORDS)


def read_out(row: int, column: int, expected: np.ndarray, verb: str = "attends to") -> str:
    weight = f"{expected[row, column]:.4f}".replace("-", "−")
    columns = [*APPLE_WORDS, "the word itself", "its position"]
    return f"{APPLE_WORDS[row]} {verb} {columns[column]}: {weight}"


def test_the_cell_under_the_pointer_is_read_out_and_chosen_by_a_click(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&head=mean")
    reader.point(7, 11, COUNT)
    mean = reader.weights(APPLES, heads="mean")[0]
    # The page computes the mean of the heads itself, so the last digits may differ.
    assert reader.readout().startswith(read_out(7, 11, mean)[:-2])
    reader.go(f"{APPLE_VIEW}&head=3")
    expected = reader.weights(APPLES)[0, 3]
    reader.point(4, 3, COUNT)
    assert reader.readout() == read_out(4, 3, expected)
    reader.page.mouse.down()
    reader.page.mouse.up()
    reader.settle()
    assert reader.address == f"{APPLE_VIEW}&head=3&word=4&row=4&column=3"
    assert reader.heading("phone is made of").is_visible()
    reader.page.mouse.move(0, 0)
    assert reader.readout() == read_out(4, 3, expected)


LIGHTNESS = """async (element) => {
  const image = new Image();
  image.src = element.getAttribute("href");
  await image.decode();
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  return Array.from({ length: width * height },
    (_, i) => d3.lab(d3.rgb(...data.slice(4 * i, 4 * i + 3))).l);
}"""


def lightness_of_cells(reader: Reader) -> np.ndarray:
    """The lightness of each cell, row by row: an image has one pixel for each."""
    return np.array(reader.page.locator("svg.heatmap image").evaluate(LIGHTNESS))


def test_a_darker_cell_is_a_larger_weight(visit: Visit) -> None:
    reader = visit(APPLE_VIEW)
    for text, head in ((LONG_TEXT, 0), (APPLES, 1)):
        reader.go(address("attention", text=text, head=head))
        expected = reader.weights(text)[0, head].ravel()
        lightness = lightness_of_cells(reader)
        assert len(lightness) == len(expected)
        assert (np.diff(lightness[np.argsort(expected)]) <= 1e-9).all()
    # Numbers are shown in cells where they fit.
    np.testing.assert_allclose(reader.numbers("figure text.in-cell"), expected, atol=0.0051)
    reader.resize(360)
    assert reader.numbers("figure text.in-cell") == []
    reader.theme("dark")
    assert np.median(lightness_of_cells(reader)) < 50 < np.median(lightness)


def test_contributions_have_all_parts_of_the_sum(visit: Visit) -> None:
    reader = visit(APPLE_VIEW)
    rows = reader.contributions(APPLES)[0]
    np.testing.assert_allclose(reader.numbers("figure text.in-cell"), rows.ravel(), atol=0.0051)
    labels = reader.texts("svg.heatmap text.label")
    assert labels[COUNT:] == [*APPLE_WORDS, "the word itself", "its position"]


def test_negative_contributions_are_drawn(visit: Visit) -> None:
    text = "apple bank river money did high end"
    state = {"text": text, "model": "deep", "layer": 1}
    reader = visit(address("attention", **state), service="tiny_models")
    rows = reader.contributions(text, model="deep")[1]
    np.testing.assert_allclose(reader.numbers("figure text.in-cell"), rows.ravel(), atol=0.0051)
    word = rows[0].argmin()
    reader.go(address("attention", **state, picture="lines", word=word))
    dashed = reader.page.locator("svg.lines line[stroke-dasharray]")
    assert dashed.count() == (rows[word] <= -0.01).sum() > 0


def test_the_keyboard_reaches_a_cell_from_the_top_of_the_page(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&row=0&column=0")
    expected = reader.contributions(APPLES)[0]
    for _ in range(60):
        reader.page.keyboard.press("Tab")
        if reader.page.evaluate("document.activeElement.className") == "cells":
            break
    expect(reader.grid()).to_be_focused()
    for key, row, column in [
        ("ArrowDown", 1, 0), ("End", 1, 13), ("ArrowUp", 0, 13), ("PageDown", 10, 13),
        ("Home", 10, 0), ("PageUp", 0, 0), ("ArrowLeft", 0, 0), ("Control+End", 11, 13),
        ("ArrowRight", 11, 13), ("Control+Home", 0, 0),
    ]:  # fmt: skip
        reader.page.keyboard.press(key)
        assert reader.readout() == read_out(row, column, expected, "gets from")
    before = reader.page.evaluate("history.length")
    reader.keys("ArrowDown")
    reader.page.wait_for_url(re.compile(r"&row=1&column=0$"))
    assert reader.page.evaluate("history.length") == before
    reader.keys("Enter")
    assert reader.address == f"{APPLE_VIEW}&word=1&row=1&column=0"
    expect(reader.grid()).to_be_focused()


def test_a_chosen_thumbnail_is_shown_in_the_figure(visit: Visit) -> None:
    reader = visit(APPLE_VIEW)
    thumbnails = reader.page.get_by_role("group", name="Layers and heads").get_by_role("button")
    names = [one.get_attribute("aria-label") for one in thumbnails.all()]
    heads = ["wide context", "wide context", "previous word", "next word"]
    kinds = ["contributions", "mean of heads"]
    kinds += [f"head {head} ({name})" for head, name in enumerate(heads)]
    assert names == [f"Layer 0, {kind}" for kind in kinds]
    thumbnails.nth(4).click()
    reader.settle()
    assert reader.address == f"{APPLE_VIEW}&head=2"
    assert [one.get_attribute("aria-pressed") for one in thumbnails.all()].index("true") == 4
    assert reader.heading("Layer 0, head 2").is_visible()
    reader.keys("ArrowLeft", "Enter")
    assert reader.address == f"{APPLE_VIEW}&head=1"


LINES = """() => [...document.querySelectorAll("svg.lines line")]
  .filter((line) => line.getClientRects().length && !line.closest("[display=none]"))
  .map((line) => ({
    row: Number(line.dataset.row), column: Number(line.dataset.column),
    opacity: Number(line.getAttribute("stroke-opacity")),
    width: Number(line.getAttribute("stroke-width")),
  }))"""


def lines(reader: Reader) -> list[dict]:
    return reader.page.evaluate(LINES)


def query(reader: Reader, word: str) -> Locator:
    return reader.page.locator(".lines").get_by_role("button", name=word, exact=True)


def rows_of_lines(reader: Reader) -> set[int]:
    return {line["row"] for line in lines(reader)}


def test_a_stronger_line_is_a_larger_weight(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&picture=lines&head=1")
    expected = reader.weights(APPLES)[0, 1]
    drawn = lines(reader)
    places = {(one["row"], one["column"]) for one in drawn}
    assert places == {tuple(map(int, place)) for place in np.argwhere(expected >= 0.01)}
    drawn.sort(key=lambda one: expected[one["row"], one["column"]])
    for measure in ("opacity", "width"):
        assert (np.diff([one[measure] for one in drawn]) >= 0).all()
        assert drawn[0][measure] < 0.5 * drawn[-1][measure]


def test_a_pointed_or_focused_word_shows_its_lines(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&picture=lines")
    assert rows_of_lines(reader) == set(range(COUNT))
    query(reader, "phone").hover()
    assert rows_of_lines(reader) == {4}
    row = reader.contributions(APPLES)[0, 4]
    key_tokens = ", ".join(f"{APPLE_WORDS[i]}: {row[i]:.4f}" for i in np.argsort(-row)[:3])
    assert reader.readout() == f"phone gets from {key_tokens}"
    reader.page.mouse.move(0, 0)
    assert rows_of_lines(reader) == set(range(COUNT))
    query(reader, "Apple").focus()
    reader.keys("ArrowDown", "End", "ArrowUp")
    assert rows_of_lines(reader) == {10}
    reader.keys("Enter")
    assert reader.address == f"{APPLE_VIEW}&picture=lines&word=10"
    expect(query(reader, "apple")).to_be_focused()


def test_a_word_has_its_cosines_parts_and_vectors(visit: Visit) -> None:
    reader = visit(f"{APPLE_VIEW}&word=10")
    result = reader.encoded(APPLES)
    row = reader.contributions(APPLES)[-1, 10]
    best = np.argsort(-np.abs(row), kind="stable")[:8]
    parts = [*APPLE_WORDS, "the word itself", "its position"]
    expected = ", ".join(f"{parts[i]}: {row[i]:.2f}" for i in best).replace("-", "−")
    figure = reader.figure("is made of").get_by_role("img")
    assert figure.get_attribute("aria-label") == f"apple is made of {expected}"
    reader.text("All numbers of both vectors").click()
    lines = reader.texts("pre[aria-label=Vectors]")[0].split("\n")
    cosines = []
    for name, line in zip(("static", "contextual"), (lines[1], lines[4]), strict=True):
        shown = [float(number.replace("−", "-")) for number in line.split()]
        np.testing.assert_allclose(shown, result[name][10], atol=5.1e-5)
        one, other = np.array(result[name][10]), np.array(result[name][0])
        cosines.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    headline = f"apple and Apple: {cosines[0]:.2f} static, {cosines[1]:.2f} in context"
    assert reader.text(headline).is_visible()


SEPARATED = r"""async (cells) => {
  const { separatedText } = await import("/page/table.js");
  return separatedText([cells], "\t", "\n");
}"""


def read_table(text: str) -> list[list[str]]:
    """The rows of tab-separated text, as a spreadsheet reads them."""
    return list(csv.reader(io.StringIO(text, newline=""), "excel-tab"))


def test_the_weights_are_a_table_that_can_be_pasted_into_a_spreadsheet(visit: Visit) -> None:
    text = 'He said "no" " to it.'
    reader = visit(address("attention", text=text, head=1))
    assert reader.page.get_by_role("table").count() == 0
    reader.open_tables("These numbers as a table")
    result = reader.encoded(text)
    words = [token["text"] for token in result["tokens"]]
    assert '"' in words
    expected = np.array(result["attention"][0][1])
    shown = np.reshape(reader.numbers(".numbers tbody td"), expected.shape)
    np.testing.assert_allclose(shown, expected, atol=0.00051)
    reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.button("tab-separated").click()
    expect(reader.text("Copied.")).to_be_visible()
    table = read_table(reader.page.evaluate("navigator.clipboard.readText()"))
    assert table[0] == ["", *words]
    assert [row[0] for row in table[1:]] == words
    copied = [[float(cell) for cell in row[1:]] for row in table[1:]]
    np.testing.assert_array_equal(copied, expected)
    cells = ['a\t"b"', "c\nd", "e"]
    assert read_table(reader.page.evaluate(SEPARATED, cells)) == [cells]


def test_above_150_words_only_the_lines_of_one_word_are_drawn_and_no_table(visit: Visit) -> None:
    reader = visit(address("attention", text=LONG_TEXT, picture="lines", head=1))
    expected = reader.weights(LONG_TEXT)[0, 1]
    line = reader.attention().locator("line")
    assert line.count() == 0
    reader.page.locator(".lines .query").nth(150).hover()
    assert line.count() == (expected[150] >= 0.01).sum()
    reader.open_tables("These numbers as a table")
    expect(reader.text("Save the JSON instead")).to_be_visible()
    assert reader.page.get_by_role("table").count() == 0


@pytest.mark.parametrize("picture", ["heatmap", "lines"])
def test_readouts_do_not_move_the_figure_and_a_redraw_keeps_the_focus(
    visit: Visit, picture: str
) -> None:
    text = f"river {'long' * 30} bank of {'longer' * 30} money"
    reader = visit(address("attention", text=text, picture=picture), width=320)
    target = reader.grid() if picture == "heatmap" else query(reader, "bank")
    target.focus()
    tops = set()
    for key in ["Home", *["ArrowDown", "ArrowRight"] * 6]:
        reader.page.keyboard.press(key)
        tops.add(target.evaluate("(one) => one.getBoundingClientRect().top + window.scrollY"))
    assert len(tops) == 1
    target.focus()
    target.evaluate("(element) => { element.dataset.before = true; }")
    reader.resize(400)
    expect(target).not_to_have_attribute("data-before", "true")
    expect(target).to_be_focused()
