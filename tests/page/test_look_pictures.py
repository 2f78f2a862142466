"""Who looks at whom, as a heatmap and as lines."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.look_reader import (
    APPLE_WORDS,
    APPLES,
    attention,
    choose,
    grid,
    look,
    number,
    point,
    readout,
    weights,
)

COUNT = len(APPLE_WORDS)
SVG = "{http://www.w3.org/2000/svg}"


def said(row: int, column: int, expected: np.ndarray) -> str:
    return f"{APPLE_WORDS[row]} looks at {APPLE_WORDS[column]}: {expected[row, column]:.4f}"


def test_the_cell_under_the_pointer_is_read_out(open_page: Open, client: httpx.Client) -> None:
    reader = open_page()
    given = weights(client, APPLES)[0]
    for head in (0, 3):
        reader.go(look(head=head))
        for row, column in [(0, 1), (11, 0), (4, 4), (7, 11)]:
            point(reader, row, column, COUNT)
            assert readout(reader) == said(row, column, given[head]), head
        assert reader.address == look(head=head)


def test_the_mean_of_heads_is_the_services(open_page: Open, client: httpx.Client) -> None:
    reader = open_page()
    expected = weights(client, APPLES, heads="mean")[0]
    for row, column in [(0, 1), (10, 8)]:
        point(reader, row, column, COUNT)
        assert number(readout(reader)) == pytest.approx(expected[row, column], abs=0.00006)


def test_numbers_stand_in_the_cells_where_they_fit(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(head=1))
    expected = weights(client, APPLES)[0, 1].ravel()
    shown = attention(reader).locator("text.in-cell").all_text_contents()
    np.testing.assert_allclose([float(text) for text in shown], expected, atol=0.0051)
    reader.page.set_viewport_size({"width": 360, "height": 800})
    expect(attention(reader).locator("text.in-cell")).to_have_count(0)


def test_a_darker_cell_is_a_greater_weight(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(head=1))
    expected = weights(client, APPLES)[0, 1].ravel()
    cells = reader.page.evaluate(
        """() => [...document.querySelectorAll(".heatmap path")].flatMap((path) => {
            const { l } = d3.lab(path.getAttribute("fill"));
            return [...path.getAttribute("d").matchAll(/M([\\d.]+) ([\\d.]+)/g)]
              .map(([, x, y]) => [Number(y), Number(x), l]);
        })"""
    )
    lightness = np.array([cell[2] for cell in sorted(cells)])
    assert len(lightness) == COUNT * COUNT
    assert (np.diff(lightness[np.argsort(expected)]) <= 1e-9).all()


def test_a_click_chooses_the_cell_and_the_word_of_its_row(open_page: Open) -> None:
    reader = open_page()
    point(reader, 4, 3, COUNT)
    reader.page.mouse.down()
    reader.page.mouse.up()
    reader.settle()
    assert reader.address == "#look?word=4&row=4&column=3"
    assert reader.page.get_by_role("heading", name="phone looks most at").is_visible()
    reader.page.mouse.move(0, 0)
    assert readout(reader).startswith("phone looks at new: ")


def test_the_keyboard_gets_from_the_top_of_the_page_to_a_cell(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(look(row=0, column=0))
    expected = weights(client, APPLES, heads="mean")[0]
    for _ in range(60):
        reader.page.keyboard.press("Tab")
        if reader.page.evaluate("document.activeElement.getAttribute('role')") == "grid":
            break
    expect(grid(reader)).to_be_focused()
    steps = {
        "ArrowDown": (1, 0), "ArrowRight": (1, 1), "End": (1, 11), "ArrowUp": (0, 11),
        "PageDown": (10, 11), "ArrowLeft": (10, 10), "Home": (10, 0), "PageUp": (0, 0),
        "ArrowLeft ": (0, 0), "Control+End": (11, 11), "ArrowRight ": (11, 11),
        "Control+Home": (0, 0),
    }  # fmt: skip
    for key, (row, column) in steps.items():
        reader.page.keyboard.press(key.strip())
        assert readout(reader).startswith(said(row, column, expected)[:-3])
        cell = reader.page.get_by_role("gridcell")
        assert cell.get_attribute("aria-label") == readout(reader)
        assert cell.get_attribute("aria-colindex") == str(column + 1)
        assert grid(reader).get_attribute("aria-activedescendant") == cell.get_attribute("id")
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#look?word=1&row=1&column=0"
    expect(grid(reader)).to_be_focused()


def test_the_address_follows_the_keyboard(open_page: Open) -> None:
    reader = open_page(look(row=2, column=2))
    before = reader.page.evaluate("history.length")
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("ArrowDown")
    reader.page.wait_for_url(re.compile(r"#look\?row=4&column=2$"))
    assert reader.page.evaluate("history.length") == before


def test_moving_does_not_draw_anew(open_page: Open) -> None:
    reader = open_page()
    reader.page.evaluate("document.querySelector('svg.heatmap').mark = true")
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    point(reader, 3, 3, COUNT)
    reader.settle()
    assert reader.page.evaluate("document.querySelector('svg.heatmap').mark") is True


def test_a_small_picture_is_chosen_and_shown_in_large(open_page: Open) -> None:
    reader = open_page()
    small = reader.page.get_by_role("group", name="Layers and heads").get_by_role("button")
    assert [one.get_attribute("aria-label") for one in small.all()] == [
        "Layer 0, mean of heads",
        *(f"Layer 0, head {head}" for head in range(4)),
    ]
    small.nth(3).click()
    reader.settle()
    assert reader.address == "#look?head=2"
    assert [one.get_attribute("aria-pressed") for one in small.all()].index("true") == 3
    assert reader.page.get_by_role("heading", name="Attention: Layer 0, head 2").is_visible()
    reader.page.keyboard.press("ArrowLeft")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#look?head=1"


def lines(reader) -> list[dict]:
    return reader.page.evaluate(
        """() => [...document.querySelectorAll("svg.lines line")]
          .filter((line) => line.getClientRects().length && !line.closest("[display=none]"))
          .map((line) => ({
            ...line.dataset, opacity: Number(line.getAttribute("stroke-opacity")),
            width: Number(line.getAttribute("stroke-width")), colour: line.getAttribute("stroke"),
          }))"""
    )


def test_a_stronger_line_is_a_greater_weight(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(picture="lines", head=1))
    expected = weights(client, APPLES)[0, 1]
    drawn = lines(reader)
    assert {(int(one["row"]), int(one["column"])) for one in drawn} == {
        (int(i), int(j)) for i, j in np.argwhere(expected >= 0.01)
    }
    drawn.sort(key=lambda one: expected[int(one["row"]), int(one["column"])])
    for measure in ("opacity", "width"):
        assert (np.diff([one[measure] for one in drawn]) >= 0).all()
        assert drawn[0][measure] < 0.5 * drawn[-1][measure]


def test_a_word_under_the_pointer_shows_its_own_lines(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(look(picture="lines"))
    assert len({one["row"] for one in lines(reader)}) == COUNT
    reader.page.get_by_role("option", name="phone").hover()
    assert {one["row"] for one in lines(reader)} == {"4"}
    row = weights(client, APPLES, heads="mean")[0, 4]
    best = np.argsort(-row)[:3]
    told = ", ".join(f"{APPLE_WORDS[i]}: {row[i]:.4f}" for i in best)
    assert readout(reader) == f"phone looks at {told}"
    reader.page.mouse.move(0, 0)
    assert len({one["row"] for one in lines(reader)}) == COUNT


def test_the_arrows_go_through_the_words_that_look(open_page: Open) -> None:
    reader = open_page(look(picture="lines"))
    looking = reader.page.get_by_role("listbox", name="Words that look")
    looking.focus()
    assert {one["row"] for one in lines(reader)} == {"0"}
    for key in ["ArrowDown", "ArrowDown", "End", "ArrowUp"]:
        reader.page.keyboard.press(key)
    assert {one["row"] for one in lines(reader)} == {"10"}
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#look?picture=lines&word=10"
    assert reader.page.get_by_role("option", name="apple", exact=True).get_attribute(
        "aria-selected"
    ) == "true"  # fmt: skip
    expect(looking).to_be_focused()
    reader.page.keyboard.press("Tab")
    assert {one["row"] for one in lines(reader)} == {"10"}


def test_each_head_has_its_colour_and_its_squares(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(picture="lines", word=4))
    choose(reader, "Head", "each")
    expected = weights(client, APPLES)[0]
    colours = {one["head"]: one["colour"] for one in lines(reader)}
    assert len(set(colours.values())) == len(colours) == 4
    squares = reader.page.evaluate(
        """() => [...document.querySelectorAll("svg.lines rect")].map((square) => (
            [Number(square.dataset.head), Number(square.dataset.column),
             Number(square.getAttribute("fill-opacity"))]))"""
    )
    assert len(squares) == 4 * COUNT
    for head, column, opacity in squares:
        share = expected[head, 4, column] / expected.max()
        assert opacity == pytest.approx(share, abs=0.0002)


def test_heads_are_switched_on_and_off(open_page: Open) -> None:
    reader = open_page(look(picture="lines", head="each"))
    reader.page.get_by_role("checkbox", name="Head 1").uncheck()
    reader.page.get_by_role("checkbox", name="Head 3").uncheck()
    reader.settle()
    assert {one["head"] for one in lines(reader)} == {"0", "2"}
    assert "heads=0%2C2" in reader.address
    for head in (0, 2):
        reader.page.get_by_role("checkbox", name=f"Head {head}").uncheck()
    reader.settle()
    assert lines(reader) == []
    for head in range(4):
        reader.page.get_by_role("checkbox", name=f"Head {head}").check()
    reader.settle()
    assert len({one["head"] for one in lines(reader)}) == 4
    assert "heads" not in reader.address


def test_each_head_is_the_mean_in_the_heatmap(open_page: Open) -> None:
    reader = open_page(look(picture="lines", head="each"))
    reader.page.get_by_role("button", name="Heatmap").click()
    reader.settle()
    assert reader.page.get_by_role("heading", name="Layer 0, mean of heads").is_visible()
    assert reader.page.get_by_label("Head", exact=True).input_value() == "mean"
    reader.page.get_by_role("button", name="Lines").click()
    reader.settle()
    assert reader.page.get_by_label("Head", exact=True).input_value() == "each"


@pytest.mark.parametrize("picture", ["heatmap", "lines"])
def test_a_picture_is_saved_with_its_words(open_page: Open, tmp_path: Path, picture: str) -> None:
    reader = open_page(look(picture=picture))
    figure = attention(reader)
    saved = reader.saved(figure.get_by_role("button", name="Save SVG"), tmp_path)
    texts = [text.text for text in ET.parse(saved).iter(f"{SVG}text")]
    for word in APPLE_WORDS:
        assert texts.count(word) == 2 * APPLE_WORDS.count(word)
    png = reader.saved(figure.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")


def test_only_the_lines_that_are_seen_are_saved_as_seen(open_page: Open, tmp_path: Path) -> None:
    reader = open_page(look(picture="lines", word=4))
    button = attention(reader).get_by_role("button", name="Save SVG")
    tree = ET.parse(reader.saved(button, tmp_path))
    groups = [group for group in tree.iter(f"{SVG}g") if group.find(f"{SVG}line") is not None]
    assert len(groups) == COUNT
    assert [i for i, group in enumerate(groups) if group.get("display") != "none"] == [4]
