"""The view Attention: heatmap, lines, vectors, table, long sentences and accessibility."""

import json
import random
import re
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from matplotlib.image import imread
from playwright.sync_api import expect

from tests.page.attention import (
    APPLE_WORDS,
    APPLES,
    attention,
    attention_address,
    encoded,
    grid,
    number,
    point,
    readout,
    weights,
)
from tests.page.conftest import Open
from tests.page.reader import Reader

pytestmark = pytest.mark.slow

COUNT = len(APPLE_WORDS)
SVG = "{http://www.w3.org/2000/svg}"


def expected_readout(row: int, column: int, expected: np.ndarray) -> str:
    return f"{APPLE_WORDS[row]} attends to {APPLE_WORDS[column]}: {expected[row, column]:.4f}"


def test_the_cell_under_the_pointer_is_read_out(visit: Open, client: httpx.Client) -> None:
    reader = visit("#attention")
    by_head = weights(client, APPLES)[0]
    for head in (0, 3):
        reader.go(attention_address(head=head))
        for row, column in [(0, 1), (11, 0), (4, 4), (7, 11)]:
            point(reader, row, column, COUNT)
            assert readout(reader) == expected_readout(row, column, by_head[head]), head
        assert reader.address == attention_address(head=head)


def test_the_mean_of_heads_is_the_services(visit: Open, client: httpx.Client) -> None:
    reader = visit("#attention")
    expected = weights(client, APPLES, heads="mean")[0]
    for row, column in [(0, 1), (10, 8)]:
        point(reader, row, column, COUNT)
        assert number(readout(reader)) == pytest.approx(expected[row, column], abs=0.00006)


def test_numbers_are_shown_in_cells_where_they_fit(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(head=1))
    expected = weights(client, APPLES)[0, 1].ravel()
    shown = attention(reader).locator("text.in-cell").all_text_contents()
    np.testing.assert_allclose([float(text) for text in shown], expected, atol=0.0051)
    reader.page.set_viewport_size({"width": 360, "height": 800})
    expect(attention(reader).locator("text.in-cell")).to_have_count(0)


def test_a_darker_cell_is_a_larger_weight(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(head=1))
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
    assert reader.address == "#attention?word=4&row=4&column=3"
    assert reader.page.get_by_role("heading", name="phone attends most to").is_visible()
    reader.page.mouse.move(0, 0)
    assert readout(reader).startswith("phone attends to new: ")


def test_the_keyboard_reaches_a_cell_from_the_top_of_the_page(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(attention_address(row=0, column=0))
    expected = weights(client, APPLES, heads="mean")[0]
    for _ in range(60):
        reader.page.keyboard.press("Tab")
        if reader.page.evaluate("document.activeElement.getAttribute('role')") == "grid":
            break
    expect(grid(reader)).to_be_focused()
    for key, row, column in [
        ("ArrowDown", 1, 0),
        ("ArrowRight", 1, 1),
        ("End", 1, 11),
        ("ArrowUp", 0, 11),
        ("PageDown", 10, 11),
        ("ArrowLeft", 10, 10),
        ("Home", 10, 0),
        ("PageUp", 0, 0),
        ("ArrowLeft", 0, 0),
        ("Control+End", 11, 11),
        ("ArrowRight", 11, 11),
        ("Control+Home", 0, 0),
    ]:
        reader.page.keyboard.press(key)
        # The page computes the mean of the heads itself, so the last digits may differ.
        assert readout(reader).startswith(expected_readout(row, column, expected)[:-3])
        cell = reader.page.get_by_role("gridcell")
        assert cell.get_attribute("aria-label") == readout(reader)
        assert cell.get_attribute("aria-colindex") == str(column + 1)
        assert grid(reader).get_attribute("aria-activedescendant") == cell.get_attribute("id")
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#attention?word=1&row=1&column=0"
    expect(grid(reader)).to_be_focused()


def test_the_address_follows_the_keyboard(open_page: Open) -> None:
    reader = open_page(attention_address(row=2, column=2))
    before = reader.page.evaluate("history.length")
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("ArrowDown")
    reader.page.wait_for_url(re.compile(r"#attention\?row=4&column=2$"))
    assert reader.page.evaluate("history.length") == before


def test_moving_through_the_cells_does_not_redraw_the_heatmap(open_page: Open) -> None:
    reader = open_page()
    reader.page.evaluate("document.querySelector('svg.heatmap').mark = true")
    grid(reader).focus()
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    point(reader, 3, 3, COUNT)
    reader.settle()
    assert reader.page.evaluate("document.querySelector('svg.heatmap').mark") is True


def test_a_chosen_thumbnail_is_shown_in_the_figure(visit: Open) -> None:
    reader = visit("#attention")
    thumbnails = reader.page.get_by_role("group", name="Layers and heads").get_by_role("button")
    assert [one.get_attribute("aria-label") for one in thumbnails.all()] == [
        "Layer 0, mean of heads",
        *(f"Layer 0, head {head}" for head in range(4)),
    ]
    thumbnails.nth(3).click()
    reader.settle()
    assert reader.address == "#attention?head=2"
    assert [one.get_attribute("aria-pressed") for one in thumbnails.all()].index("true") == 3
    assert reader.page.get_by_role("heading", name="Attention: Layer 0, head 2").is_visible()
    reader.page.keyboard.press("ArrowLeft")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#attention?head=1"


def lines(reader: Reader) -> list[dict]:
    """The visible lines with their attributes."""
    return reader.page.evaluate(
        """() => [...document.querySelectorAll("svg.lines line")]
          .filter((line) => line.getClientRects().length && !line.closest("[display=none]"))
          .map((line) => ({
            ...line.dataset, opacity: Number(line.getAttribute("stroke-opacity")),
            width: Number(line.getAttribute("stroke-width")), color: line.getAttribute("stroke"),
          }))"""
    )


def test_a_stronger_line_is_a_larger_weight(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(picture="lines", head=1))
    expected = weights(client, APPLES)[0, 1]
    drawn = lines(reader)
    assert {(int(one["row"]), int(one["column"])) for one in drawn} == {
        (int(i), int(j)) for i, j in np.argwhere(expected >= 0.01)
    }
    drawn.sort(key=lambda one: expected[int(one["row"]), int(one["column"])])
    for measure in ("opacity", "width"):
        assert (np.diff([one[measure] for one in drawn]) >= 0).all()
        assert drawn[0][measure] < 0.5 * drawn[-1][measure]


def test_pointing_at_a_word_shows_its_lines(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(picture="lines"))
    assert len({one["row"] for one in lines(reader)}) == COUNT
    reader.page.get_by_role("option", name="phone").hover()
    assert {one["row"] for one in lines(reader)} == {"4"}
    row = weights(client, APPLES, heads="mean")[0, 4]
    best = np.argsort(-row)[:3]
    key_tokens = ", ".join(f"{APPLE_WORDS[i]}: {row[i]:.4f}" for i in best)
    assert readout(reader) == f"phone attends to {key_tokens}"
    reader.page.mouse.move(0, 0)
    assert len({one["row"] for one in lines(reader)}) == COUNT


def test_the_arrow_keys_move_through_the_query_tokens(visit: Open) -> None:
    reader = visit(attention_address(picture="lines"))
    queries = reader.page.get_by_role("listbox", name="Query tokens")
    queries.focus()
    assert {one["row"] for one in lines(reader)} == {"0"}
    for key in ["ArrowDown", "ArrowDown", "End", "ArrowUp"]:
        reader.page.keyboard.press(key)
    assert {one["row"] for one in lines(reader)} == {"10"}
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#attention?picture=lines&word=10"
    assert reader.page.get_by_role("option", name="apple", exact=True).get_attribute(
        "aria-selected"
    ) == "true"  # fmt: skip
    expect(queries).to_be_focused()
    reader.page.keyboard.press("Tab")
    assert {one["row"] for one in lines(reader)} == {"10"}


def test_each_head_has_its_color_and_its_squares(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(picture="lines", word=4))
    reader.choose("Head", "each")
    expected = weights(client, APPLES)[0]
    colors = {one["head"]: one["color"] for one in lines(reader)}
    assert len(set(colors.values())) == len(colors) == 4
    squares = reader.page.evaluate(
        """() => [...document.querySelectorAll("svg.lines rect")].map((square) => (
            [Number(square.dataset.head), Number(square.dataset.column),
             Number(square.getAttribute("fill-opacity"))]))"""
    )
    assert len(squares) == 4 * COUNT
    for head, column, opacity in squares:
        relative = expected[head, 4, column] / expected.max()
        assert opacity == pytest.approx(relative, abs=0.0002)


def test_heads_are_switched_on_and_off(visit: Open) -> None:
    reader = visit(attention_address(picture="lines", head="each"))
    reader.page.get_by_role("checkbox", name="Head 1").uncheck()
    reader.page.get_by_role("checkbox", name="Head 3").uncheck()
    reader.settle()
    assert {one["head"] for one in lines(reader)} == {"0", "2"}
    assert "heads=0%2C2" in reader.address
    for head in (0, 2):
        reader.page.get_by_role("checkbox", name=f"Head {head}").uncheck()
    reader.settle()
    assert lines(reader) == []
    reader.page.get_by_role("option", name="phone").hover()
    assert readout(reader).startswith("phone attends to ")
    for head in range(4):
        reader.page.get_by_role("checkbox", name=f"Head {head}").check()
    reader.settle()
    assert len({one["head"] for one in lines(reader)}) == 4
    assert "heads" not in reader.address
    reader.go(attention_address(picture="lines", head="each", heads="none", word=0))
    assert readout(reader).startswith("Apple attends to ")
    assert lines(reader) == []
    assert not reader.problem.is_visible()


def test_the_table_below_the_lines_of_each_head_has_the_mean(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(attention_address(picture="lines", head="each"))
    reader.page.get_by_text("The weights as a table").click()
    caption = reader.page.locator(".numbers caption")
    expect(caption).to_have_text(
        "Layer 0, mean of heads: query tokens in rows, key tokens in columns"
    )
    first = float(reader.page.locator(".numbers td.number").first.text_content())
    assert first == pytest.approx(weights(client, APPLES, heads="mean")[0, 0, 0], abs=0.00051)


def test_the_heatmap_shows_the_mean_if_the_lines_show_each_head(visit: Open) -> None:
    reader = visit(attention_address(picture="lines", head="each"))
    reader.page.get_by_role("button", name="Heatmap").click()
    reader.settle()
    assert reader.page.get_by_role("heading", name="Layer 0, mean of heads").is_visible()
    assert reader.page.get_by_label("Head", exact=True).input_value() == "mean"
    reader.page.get_by_role("button", name="Lines").click()
    reader.settle()
    assert reader.page.get_by_label("Head", exact=True).input_value() == "each"


@pytest.mark.parametrize("picture", ["heatmap", "lines"])
def test_a_saved_picture_contains_its_words(visit: Open, tmp_path: Path, picture: str) -> None:
    reader = visit(attention_address(picture=picture))
    figure = attention(reader)
    saved = reader.saved(figure.get_by_role("button", name="Save SVG"), tmp_path)
    texts = [text.text for text in ET.parse(saved).iter(f"{SVG}text")]
    for word in APPLE_WORDS:
        assert texts.count(word) == 2 * APPLE_WORDS.count(word)
    png = reader.saved(figure.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")


def test_only_visible_lines_are_saved(visit: Open, tmp_path: Path) -> None:
    reader = visit(attention_address(picture="lines", word=4))
    button = attention(reader).get_by_role("button", name="Save SVG")
    tree = ET.parse(reader.saved(button, tmp_path))
    groups = [group for group in tree.iter(f"{SVG}g") if group.find(f"{SVG}line") is not None]
    assert len(groups) == COUNT
    assert [i for i, group in enumerate(groups) if group.get("display") != "none"] == [4]


def test_the_shift_and_the_most_attended_words_of_a_word_are_shown(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit(attention_address(word=10))
    result = encoded(client, APPLES, heads="mean")
    static, contextual = np.array(result["static"][10]), np.array(result["contextual"][10])
    cosine = static @ contextual / np.linalg.norm(static) / np.linalg.norm(contextual)
    assert reader.page.get_by_text(f"Shift {1 - cosine:.2f}").is_visible()
    row = np.array(result["attention"][-1][10])
    name = (
        reader.page.get_by_role("figure", name="attends most to")
        .get_by_role("img")
        .get_attribute("aria-label")
    )
    best = np.argsort(-row, kind="stable")[:8]
    expected = ", ".join(f"{APPLE_WORDS[i]}: {row[i]:.2f}" for i in best)
    assert name == f"apple attends most to {expected}"


def test_the_values_of_a_dimension_are_read_out(visit: Open, client: httpx.Client) -> None:
    reader = visit(attention_address(word=10))
    result = encoded(client, APPLES)
    static, contextual = (
        np.array(vector) / np.linalg.norm(vector)
        for vector in (result["static"][10], result["contextual"][10])
    )

    def expected(dimension: int) -> str:
        values = f"static {static[dimension]:.4f}, contextual {contextual[dimension]:.4f}"
        return f"Dimension {dimension}: {values}".replace("-", "−")

    figure = reader.page.get_by_role("figure", name="static and contextual vector")
    slider = figure.get_by_role("slider")
    slider.focus()
    for key in ["PageDown", "End", "ArrowLeft"]:
        reader.page.keyboard.press(key)
    assert figure.get_by_role("status").text_content() == expected(298)
    assert slider.get_attribute("aria-valuetext") == expected(298)
    box = slider.bounding_box()
    reader.page.mouse.move(box["x"] + 120.5 / 300 * box["width"], box["y"] + 20)
    assert figure.get_by_role("status").text_content() == expected(120)


def test_a_word_without_a_static_vector_is_marked(visit: Open) -> None:
    reader = visit(attention_address(text="qqzx river bank"))
    assert reader.page.get_by_text("This word has no static vector").is_visible()


def test_an_occurrence_opens_compare_with_another_occurrence_of_the_word(visit: Open) -> None:
    reader = visit(attention_address(word=10))
    link = reader.page.get_by_role("link", name="Compare this occurrence")
    query = parse_qs(link.get_attribute("href").split("?")[1])
    assert json.loads(query["occurrences"][0]) == [[APPLES, "apple", 0], [APPLES, "Apple", 0]]
    reader.go(attention_address(text="bank river bank", word=2))
    query = parse_qs(link.get_attribute("href").split("?")[1])
    text = "bank river bank"
    assert json.loads(query["occurrences"][0]) == [[text, "bank", 1], [text, "bank", 0]]


def test_the_weights_are_a_table_that_can_be_copied(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(attention_address(head=1))
    assert reader.page.get_by_role("table").count() == 0
    reader.page.get_by_text("The weights as a table").click()
    expected = np.array(encoded(client, APPLES)["attention"][0][1])
    expect(reader.page.get_by_role("table")).to_be_visible()
    rows = reader.page.get_by_role("table").locator("tbody tr").all()
    assert [row.locator("th").text_content() for row in rows] == APPLE_WORDS
    shown = [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows]
    np.testing.assert_allclose(shown, expected, atol=0.00051)
    reader.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.page.get_by_role("button", name="tab-separated").click()
    expect(reader.page.get_by_text("Copied.")).to_be_visible()
    lines = reader.page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0].split("\t") == ["", *APPLE_WORDS]
    assert [line.split("\t")[0] for line in lines[1:]] == APPLE_WORDS
    copied = [[float(cell) for cell in line.split("\t")[1:]] for line in lines[1:]]
    np.testing.assert_array_equal(copied, expected)
    reader.choose("Head", "2")
    assert "Layer 0, head 2" in reader.page.get_by_role("table").locator("caption").text_content()


COMMON = ["the", "bank", "of", "river", "and", "money", "was", "closed", "came", "apple", "to"]
LONG = " ".join(random.Random(1).choices(COMMON, k=200))
WORDS = LONG.split()


def expected_long_readout(row: int, column: int, expected: np.ndarray) -> str:
    return f"{WORDS[row]} attends to {WORDS[column]}: {expected[row, column]:.4f}"


def test_above_150_words_the_heatmap_is_a_canvas(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(attention_address(text=LONG, head=2), device_scale_factor=2, height=1200)
    expected = weights(client, LONG)[0, 2]
    canvas = attention(reader).locator("canvas")
    assert canvas.count() == 1
    widths = canvas.evaluate("(canvas) => [canvas.width, canvas.getBoundingClientRect().width]")
    assert widths[0] == pytest.approx(widths[1] * 2, abs=1.5)
    for row, column in [(0, 1), (100, 101), (199, 0), (57, 190)]:
        point(reader, row, column, 200)
        assert readout(reader) == expected_long_readout(row, column, expected)
    grid(reader).focus()
    reader.page.keyboard.press("Control+End")
    assert readout(reader) == expected_long_readout(199, 199, expected)
    assert "200 words" in grid(reader).get_attribute("aria-label")


def test_a_cell_of_the_canvas_has_the_color_of_its_weight(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit(attention_address(text=LONG, head=0))
    expected = weights(client, LONG)[0, 0]
    lightness = attention(reader).locator("canvas").evaluate(
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
    lightness = np.array(lightness).reshape(200, 200)
    strong, weak = expected > 0.5 * expected.max(), expected < 0.02 * expected.max()
    assert strong.any()
    assert lightness[strong].max() < lightness[weak].min()


def test_a_canvas_is_saved_as_png(visit: Open, tmp_path: Path) -> None:
    reader = visit(attention_address(text=LONG))
    figure = attention(reader)
    assert not figure.get_by_role("button", name="Save SVG").is_visible()
    saved = reader.saved(figure.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert saved.startswith(b"\x89PNG\r\n\x1a\n")
    picture = imread(BytesIO(saved))
    assert picture.shape[0] > 200
    assert len(np.unique(picture[..., :3].reshape(-1, 3), axis=0)) > 20


def test_above_150_words_only_the_lines_of_one_word_are_drawn(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit(attention_address(text=LONG, picture="lines", head=1))
    expected = weights(client, LONG)[0, 1]
    line = attention(reader).locator("line")
    assert line.count() == 0
    reader.page.get_by_role("listbox").get_by_role("option").nth(150).hover()
    assert line.count() == (expected[150] >= 0.01).sum()


def test_a_table_of_too_many_words_refers_to_the_json(open_page: Open) -> None:
    reader = open_page(attention_address(text=LONG))
    reader.page.get_by_text("The weights as a table").click()
    expect(reader.page.get_by_text("Save the JSON instead")).to_be_visible()
    assert reader.page.get_by_role("table").count() == 0


def test_150_words_are_svg_and_151_a_canvas(visit: Open) -> None:
    reader = visit("#models")
    for count in (150, 151):
        reader.go(attention_address(text=" ".join(WORDS[:count])))
        assert attention(reader).locator("svg").count() == (count == 150)
        assert attention(reader).locator("canvas").count() == (count == 151)


def test_a_long_sentence_is_accessible_and_fits(visit: Open, axe: Axe) -> None:
    reader = visit(attention_address(text=LONG), width=320, theme="dark")
    assert reader.violations(axe) == []
    assert not reader.scrolls_sideways()
    reader.page.get_by_role("button", name="Lines").click()
    reader.choose("Head", "each")
    assert not reader.scrolls_sideways()


@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (1600, "light")])
def test_the_view_is_accessible_and_fits(open_page: Open, axe: Axe, width: int, theme: str) -> None:
    reader = open_page(width=width, theme=theme)
    reader.page.get_by_text("The weights as a table").click()
    expect(reader.page.get_by_role("table")).to_be_visible()
    for state in ({}, {"picture": "lines"}, {"picture": "lines", "head": "each", "word": 4}):
        reader.go(attention_address(**state))
        expect(reader.page.get_by_role("table")).to_be_visible()
        if theme == "dark" or not state:
            assert reader.violations(axe) == [], state
        assert not reader.scrolls_sideways(), state


def test_an_error_is_accessible(visit: Open, axe: Axe) -> None:
    reader = visit("#attention")
    for text, message in [("", "Type a sentence"), ("river qqzx Zebra", "vocabulary")]:
        reader.go(attention_address(text=text, oov="error"))
        expect(reader.problem).to_contain_text(message)
        assert reader.violations(axe) == [], text


def test_the_figure_is_never_wider_than_its_space(visit: Open) -> None:
    reader = visit(attention_address(text=" ".join(["river bank"] * 20)), width=500)
    for width in (320, 900, 1200):
        reader.resize(width)
        figure = attention(reader).bounding_box()
        drawn = attention(reader).locator("svg").bounding_box()
        cells = grid(reader).bounding_box()
        assert drawn["x"] + drawn["width"] <= figure["x"] + figure["width"], width
        assert drawn["x"] <= cells["x"], width
        assert cells["x"] + cells["width"] <= drawn["x"] + drawn["width"] + 0.5, width
        assert cells["width"] / 40 <= 34, width


def test_colors_follow_the_chosen_theme(open_page: Open) -> None:
    reader = open_page()
    fills = (
        "[...document.querySelectorAll('.heatmap path')].map((path) => path.getAttribute('fill'))"
    )
    light = reader.page.evaluate(fills)
    reader.page.get_by_label("Theme").select_option("dark")
    reader.settle()
    assert set(reader.page.evaluate(fills)).isdisjoint(light)


def test_readouts_do_not_move_the_figure(visit: Open) -> None:
    text = f"river {'long' * 30} bank of {'longer' * 30} money"
    reader = visit("#attention", width=320)
    for picture in ("heatmap", "lines"):
        reader.go(attention_address(text=text, picture=picture))
        target = grid(reader) if picture == "heatmap" else reader.page.get_by_role("listbox")
        target.focus()
        tops = set()
        for key in ["Home", *["ArrowDown", "ArrowRight"] * 6]:
            reader.page.keyboard.press(key)
            tops.add(
                target.evaluate("(element) => element.getBoundingClientRect().top + window.scrollY")
            )
        assert len(tops) == 1, picture


@pytest.mark.parametrize("picture", ["heatmap", "lines"])
def test_the_focus_survives_a_redraw(open_page: Open, picture: str) -> None:
    reader = open_page(attention_address(picture=picture))
    target = grid(reader) if picture == "heatmap" else reader.page.get_by_role("listbox")
    target.focus()
    target.evaluate("(element) => { element.dataset.before = true; }")
    reader.page.set_viewport_size({"width": 400, "height": 800})
    expect(target).not_to_have_attribute("data-before", "true")
    expect(target).to_be_focused()
