"""Compare, where somebody's address, text or network is odd, and what they take away from it."""

import json
import re
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Route, expect

from tests.page.comparing import (
    APPLES,
    BANKS,
    EIGHT,
    Row,
    address,
    asked,
    card,
    cosines,
    kept,
    places,
    pressed,
    sentence,
    words,
)
from tests.page.conftest import Open

ODD: list[object] = [
    "",
    "[",
    "null",
    "7",
    '"text"',
    "{}",
    "[]",
    "[[], []]",
    '[["a", "a"], ["b"]]',
    '[["a", "a"], [1, 2]]',
    '[["a", "a"], [["b"], "b"]]',
    '[["a", "a"], null]',
    '[["a", "a"], ["b", "b", -1]]',
    '[["a", "a"], ["b", "b", 0.5]]',
    '[["a", "a"], ["b", "b", "0"]]',
    '[["a", "a"], ["b", "b", 1e999]]',
    '[["a", "a"], ["b", "b", 10000000000000000000000]]',
    '[["a", "a"], ["b", "b", 0, 0]]',
    [BANKS[0]] * 9,
    [BANKS[0]] * 100,
    "[" * 2000,
    '{"__proto__": [1, 2], "length": 2}',
]


def test_an_address_that_names_no_occurrences_shows_the_first_example(open_page: Open) -> None:
    reader = open_page(address(ODD[0]))
    for rows in ODD:
        case = str(rows)[:40]
        reader.go(address(rows))
        assert sentence(reader, 1).input_value() == "Apple launched a new phone", case
        assert reader.page.get_by_text("The address names no occurrences").is_visible(), case
        assert len(cosines(reader)) == 8, case
        # Also so that the next address has something to change.
        reader.page.get_by_role("button", name="bank / bank").click()
        reader.settle()
        assert kept(reader) == [["River bank flows", "bank", 0], ["Money bank grows", "bank", 0]]
        assert sentence(reader, 1).input_value() == "River bank flows"
        assert not reader.page.get_by_text("The address names no occurrences").is_visible(), case


MISSING: list[tuple[Row, str]] = [
    (("River bank", "mountain"), "the text has this word as a token 0 times"),
    (("River bank", "bank", 1), "the text has this word as a token 1 times"),
    (("River bank", "bank", 2**53 - 1), "the text has this word as a token 1 times"),
    (("River bank", ""), "at least 1 character"),
]


def test_a_word_that_is_not_there_is_refused_and_can_be_mended(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    for row, said in MISSING:
        assert not reader.problem.is_visible()
        reader.go(address([row, BANKS[1]]))
        assert said in reader.problem.text_content(), row
        assert pressed(reader, 1) == [], row
        missing = reader.page.get_by_text("The word to compare is not in this sentence")
        assert [sentence.is_visible() for sentence in missing.all()] == [True, False], row
        words(reader, 1).filter(has_text="bank").click()
        reader.settle()
        assert not reader.problem.is_visible(), row
        assert pressed(reader, 1) == [1], row
        assert len(cosines(reader)) == 8, row


def test_a_model_that_is_not_there_is_said_in_the_services_sentence(open_page: Open) -> None:
    reader = open_page(address(BANKS, model="nobody"))
    expect(reader.problem).to_contain_text("model")
    assert not reader.page.get_by_role("figure").first.is_visible()


def test_a_service_that_goes_away_is_said_and_comes_back(open_page: Open) -> None:
    reader = open_page(address(BANKS))

    def abort(route: Route) -> None:
        route.abort()

    reader.page.route("**/v1/*", abort)
    sentence(reader, 1).fill("River bank rises")
    expect(reader.problem).to_contain_text("The service did not answer.")
    reader.page.unroute("**/v1/*", abort)
    sentence(reader, 1).press("Enter")
    with reader.page.expect_response("**/v1/compare"):
        reader.page.get_by_label("Neighbours of each").select_option("5")
    reader.settle()
    assert not reader.problem.is_visible()
    assert pressed(reader, 1) == [1]


def test_words_the_model_does_not_know_have_no_static_mark(
    open_page: Open, client: httpx.Client
) -> None:
    rows: list[Row] = [("River qqzzxx", "qqzzxx"), ("River bank", "bank")]
    reader = open_page(address(rows))
    assert words(reader, 1).nth(1).text_content() == "qqzzxxnot in the vocabulary"
    assert [name for name in places(reader) if name.startswith("Static")] == [
        "Static vector of B (bank)"
    ]
    assert "Contextual vector of A (qqzzxx)" in places(reader)
    assert card(reader, "A: qqzzxx").get_by_text("It has no static vector.").is_visible()
    assert reader.page.locator(".notes li").all_text_contents() == [
        "A is not in the vocabulary; its static vector is zero."
    ]
    assert cosines(reader)[0] == asked(client, rows)["static_similarity"][0][0] == 0


def test_where_no_vector_has_a_direction_there_is_no_map(open_page: Open) -> None:
    reader = open_page(address([("qqzzxx", "qqzzxx"), ("qqzzyy", "qqzzyy")]))
    assert not reader.page.get_by_role("figure", name="Where context takes them").is_visible()
    assert cosines(reader) == [0] * 8


def test_the_same_occurrence_twice_is_one_point_of_both(open_page: Open) -> None:
    reader = open_page(address([BANKS[0]] * 2))
    assert [name for name in places(reader) if " vector of A and B (bank)" in name]
    assert "Contextual vector of A and B (bank)" in places(reader)
    assert cosines(reader) == [1] * 8


def test_a_sentence_from_right_to_left_keeps_its_direction(open_page: Open) -> None:
    reader = open_page(address([("שלום עולם bank", "bank"), BANKS[1]]))
    assert pressed(reader, 1) == [2]
    boxes = [word.bounding_box()["x"] for word in words(reader, 1).all()]
    assert boxes[0] > boxes[1]
    assert sentence(reader, 1).evaluate("field => getComputedStyle(field).direction") == "rtl"
    quote = card(reader, "A: bank").locator("blockquote")
    assert quote.evaluate("quote => getComputedStyle(quote).direction") == "rtl"


def test_markup_in_a_sentence_stays_text(open_page: Open) -> None:
    text = "<img src=x onerror=alert(1)> <b>bank</b> & 'more' \"quotes\""
    reader = open_page(address([(text, "bank"), BANKS[1]]))
    assert card(reader, "A: bank").locator("blockquote").text_content() == text
    assert reader.page.locator("main img, main b").count() == 0


def test_a_very_long_word_is_shown_within_the_page(open_page: Open) -> None:
    long = "x" * 400
    reader = open_page(address([(f"River {long}", long), BANKS[1]]), width=320)
    assert card(reader, f"A: {long}").is_visible()
    assert not reader.scrolls_sideways()


def test_of_a_very_long_sentence_the_card_shows_what_is_around_the_word(
    open_page: Open, axe: Axe
) -> None:
    text = "left " * 300 + "bank" + " right" * 300
    reader = open_page(address([(text, "bank"), BANKS[1]], k="7"), width=360)
    quote = card(reader, "A: bank").locator("blockquote").text_content()
    assert quote == f"… {'left ' * 32}bank{(' right' * 27)[:160]} …"
    assert pressed(reader, 1) == [300]
    assert reader.page.get_by_label("Neighbours of each").input_value() == "7"
    assert reader.violations(axe) == []


def test_what_is_shown_can_be_taken_away(open_page: Open, tmp_path: Path) -> None:
    rows: list[Row] = [("It's the bank's \"own\" $HOME bank", "bank", 1), BANKS[1]]
    reader = open_page(address(rows, k="3"))
    saved = reader.saved_json(tmp_path)
    assert saved == reader.run_command()
    assert saved["occurrences"][0]["token"]["start"] == len(rows[0][0]) - 4
    sent = json.loads(reader.command().partition("-d '")[2][:-1].replace("'\\''", "'"))
    assert sent["occurrences"][1] == {"text": "Money bank grows", "word": "bank"}
    assert set(sent) == {"occurrences", "neighbors", "map"}


def test_each_picture_can_be_taken_away(open_page: Open, tmp_path: Path) -> None:
    reader = open_page(address(APPLES))
    for figure, said in [
        ("How alike they are", ">In context</text>"),
        ("Where context takes them", ">A: Apple</text>"),
    ]:
        place = reader.page.get_by_role("figure", name=figure)
        saved = reader.saved(place.get_by_role("button", name="Save SVG"), tmp_path)
        svg = saved.read_text("utf-8")
        assert svg.startswith("<?xml")
        assert said in svg
        assert "class=" not in svg
        png = reader.saved(place.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
        assert png.startswith(b"\x89PNG")


def test_a_label_without_room_is_seen_at_its_point_alone_and_not_saved(
    open_page: Open, tmp_path: Path
) -> None:
    reader = open_page(address(EIGHT))
    unplaced = reader.page.locator(".flat-map .unplaced")
    point = reader.page.locator(".flat-map .point:has(.unplaced)").first
    assert not unplaced.first.is_visible()
    point.focus()
    assert unplaced.first.is_visible()
    point.blur()
    place = reader.page.get_by_role("figure", name="Where context takes them")
    svg = reader.saved(place.get_by_role("button", name="Save SVG"), tmp_path).read_text("utf-8")
    saved = re.findall(">([^<]+)</text>", svg)
    shown = reader.page.locator("svg.flat-map text:not(.unplaced)").all_text_contents()
    assert saved == shown


@pytest.mark.parametrize(("width", "colours"), [(320, "dark"), (1200, "light")])
def test_it_is_accessible_and_fits(open_page: Open, axe: Axe, width: int, colours: str) -> None:
    reader = open_page("#compare", width=width, colours=colours)
    reader.page.get_by_text("The numbers as tables").click()
    for rows in (BANKS, EIGHT):
        reader.go(address(rows))
        pressed(reader, len(rows))
        expect(reader.page.locator("table.cosines").first).to_be_visible()
        assert reader.violations(axe) == [], len(rows)
        assert not reader.scrolls_sideways(), len(rows)


def test_it_fits_every_width(open_page: Open) -> None:
    reader = open_page(address(EIGHT), width=500)
    drawn = set()
    for width in (320, 700, 1000, 1600):
        reader.resize(width)
        drawn.add(reader.page.locator("svg.flat-map").get_attribute("viewBox"))
        assert not reader.scrolls_sideways(), width
        svgs = reader.page.locator("figure svg")
        rights = svgs.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().right)")
        assert len(rights) > 1
        assert max(rights) <= width
    # Drawn for each width, and not the first drawing made smaller.
    assert len(drawn) == 4
