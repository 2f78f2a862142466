"""Sentences of many words."""

import random
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from matplotlib.image import imread
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.look_reader import attention, choose, grid, look, point, readout, weights

COMMON = ["the", "bank", "of", "river", "and", "money", "was", "closed", "came", "apple", "to"]
LONG = " ".join(random.Random(1).choices(COMMON, k=200))
WORDS = LONG.split()


def said(row: int, column: int, expected: np.ndarray) -> str:
    return f"{WORDS[row]} looks at {WORDS[column]}: {expected[row, column]:.4f}"


@pytest.mark.parametrize("density", [1, 2])
def test_above_150_words_the_heatmap_is_painted(
    open_page: Open, client: httpx.Client, density: int
) -> None:
    reader = open_page(look(text=LONG, head=2), device_scale_factor=density, height=1200)
    expected = weights(client, LONG)[0, 2]
    canvas = attention(reader).locator("canvas")
    assert canvas.count() == 1
    wide = canvas.evaluate("(canvas) => [canvas.width, canvas.getBoundingClientRect().width]")
    assert wide[0] == pytest.approx(wide[1] * density, abs=1.5)
    for row, column in [(0, 1), (100, 101), (199, 0), (57, 190)]:
        point(reader, row, column, 200)
        assert readout(reader) == said(row, column, expected)
    grid(reader).focus()
    reader.page.keyboard.press("Control+End")
    assert readout(reader) == said(199, 199, expected)
    assert "200 words" in grid(reader).get_attribute("aria-label")


def test_a_painted_cell_has_the_colour_of_its_weight(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(text=LONG, head=0))
    expected = weights(client, LONG)[0, 0]
    colours = attention(reader).locator("canvas").evaluate(
        """(canvas) => {
            const cells = document.querySelector("[role=grid]").getBoundingClientRect();
            const { left, top } = canvas.getBoundingClientRect();
            const side = cells.width / 200;
            const { data, width } = canvas.getContext("2d")
              .getImageData(0, 0, canvas.width, canvas.height);
            const at = (i, from) => Math.floor(from + (i + 0.5) * side);
            return Array.from({ length: 40000 }, (_, k) => {
              const x = at(k % 200, cells.left - left);
              const y = at(Math.floor(k / 200), cells.top - top);
              const from = 4 * (y * width + x);
              return d3.lab(d3.rgb(data[from], data[from + 1], data[from + 2])).l;
            });
        }"""
    )  # fmt: skip
    lightness = np.array(colours).reshape(200, 200)
    strong, weak = expected > 0.5 * expected.max(), expected < 0.02 * expected.max()
    assert strong.any()
    assert lightness[strong].max() < lightness[weak].min()


def test_the_painted_picture_is_saved_as_png(open_page: Open, tmp_path: Path) -> None:
    reader = open_page(look(text=LONG))
    figure = attention(reader)
    assert not figure.get_by_role("button", name="Save SVG").is_visible()
    saved = reader.saved(figure.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert saved.startswith(b"\x89PNG\r\n\x1a\n")
    picture = imread(BytesIO(saved))
    assert picture.shape[0] > 200
    assert len(np.unique(picture[..., :3].reshape(-1, 3), axis=0)) > 20


def test_in_lines_only_one_words_lines_are_drawn(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(text=LONG, picture="lines", head=1))
    expected = weights(client, LONG)[0, 1]
    line = attention(reader).locator("line")
    assert line.count() == 0
    reader.page.get_by_role("listbox").get_by_role("option").nth(150).hover()
    assert line.count() == (expected[150] >= 0.01).sum()


def test_too_many_words_for_a_table_are_left_to_the_json(open_page: Open) -> None:
    reader = open_page(look(text=LONG))
    reader.page.get_by_text("The numbers").click()
    expect(reader.page.get_by_text("save the JSON instead")).to_be_visible()
    assert reader.page.get_by_role("table").count() == 0


@pytest.mark.parametrize("count", [150, 151])
def test_150_words_are_drawn_and_151_painted(open_page: Open, count: int) -> None:
    reader = open_page(look(text=" ".join(WORDS[:count])))
    assert attention(reader).locator("svg").count() == (count == 150)
    assert attention(reader).locator("canvas").count() == (count == 151)


@pytest.mark.parametrize(("width", "colours"), [(320, "dark"), (1200, "light")])
def test_it_is_accessible_and_fits(open_page: Open, axe: Axe, width: int, colours: str) -> None:
    reader = open_page(look(text=LONG), width=width, colours=colours)
    assert reader.violations(axe) == []
    assert not reader.scrolls_sideways()
    reader.page.get_by_role("button", name="Lines").click()
    choose(reader, "Head", "each")
    assert not reader.scrolls_sideways()
