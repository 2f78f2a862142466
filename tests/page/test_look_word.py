"""One word of the sentence, and the numbers behind the pictures."""

import json
from urllib.parse import parse_qs

import httpx
import numpy as np
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.look_reader import APPLE_WORDS, APPLES, choose, encoded, look


def test_a_chosen_word_has_its_shift_and_what_it_looks_at_most(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(look(word=10))
    result = encoded(client, APPLES, heads="mean")
    static, contextual = np.array(result["static"][10]), np.array(result["contextual"][10])
    cosine = static @ contextual / np.linalg.norm(static) / np.linalg.norm(contextual)
    assert reader.page.get_by_text(f"Shift {1 - cosine:.2f}").is_visible()
    row = np.array(result["attention"][-1][10])
    name = (
        reader.page.get_by_role("figure", name="looks most at")
        .get_by_role("img")
        .get_attribute("aria-label")
    )
    best = np.argsort(-row, kind="stable")[:8]
    expected = ", ".join(f"{APPLE_WORDS[i]}: {row[i]:.2f}" for i in best)
    assert name == f"apple looks most at {expected}"


def test_the_strips_say_the_numbers_of_each_dimension(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(look(word=10))
    result = encoded(client, APPLES)
    static, contextual = (
        np.array(vector) / np.linalg.norm(vector)
        for vector in (result["static"][10], result["contextual"][10])
    )

    def said(at: int) -> str:
        numbers = f"static {static[at]:.4f}, contextual {contextual[at]:.4f}".replace("-", "−")
        return f"Dimension {at}: {numbers}"

    figure = reader.page.get_by_role("figure", name="static beside contextual")
    slider = figure.get_by_role("slider")
    slider.focus()
    for key in ["PageDown", "End", "ArrowLeft"]:
        reader.page.keyboard.press(key)
    assert figure.get_by_role("status").text_content() == said(298)
    assert slider.get_attribute("aria-valuetext") == said(298)
    box = slider.bounding_box()
    reader.page.mouse.move(box["x"] + 120.5 / 300 * box["width"], box["y"] + 20)
    assert figure.get_by_role("status").text_content() == said(120)


def test_a_word_without_a_static_vector_says_so(open_page: Open) -> None:
    reader = open_page(look(text="qqzx river bank"))
    assert reader.page.get_by_text("This word has no static vector").is_visible()


def test_an_occurrence_goes_on_to_compare_with_its_other_spelling(open_page: Open) -> None:
    reader = open_page(look(word=10))
    link = reader.page.get_by_role("link", name="Compare this occurrence")
    said = parse_qs(link.get_attribute("href").split("?")[1])
    assert json.loads(said["occurrences"][0]) == [[APPLES, "apple", 0], [APPLES, "Apple", 0]]
    reader.go(look(text="bank river bank", word=2))
    said = parse_qs(link.get_attribute("href").split("?")[1])
    text = "bank river bank"
    assert json.loads(said["occurrences"][0]) == [[text, "bank", 1], [text, "bank", 0]]


def test_the_numbers_are_a_table_to_read_and_to_copy(open_page: Open, client: httpx.Client) -> None:
    reader = open_page(look(head=1))
    assert reader.page.get_by_role("table").count() == 0
    reader.page.get_by_text("The numbers").click()
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
    choose(reader, "Head", "2")
    assert "Layer 0, head 2" in reader.page.get_by_role("table").locator("caption").text_content()
