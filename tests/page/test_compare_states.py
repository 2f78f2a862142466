"""What Compare says in states that are not the usual ones, and to those who only hear it."""

import json
import re

import httpx
from playwright.sync_api import Route, expect

from tests.page.comparing import (
    APPLES,
    BANKS,
    Row,
    address,
    asked,
    card,
    cosines,
    example,
    kept,
    pressed,
    sentence,
    typed,
    words,
)
from tests.page.conftest import Open
from tests.page.reader import Reader, hold

SHORT: list[tuple[list[list], str]] = [
    ([list(BANKS[0])], "Sentence 2 (B) is empty: type one."),
    ([list(BANKS[0]), ["", "", 0]], "Sentence 2 (B) is empty: type one."),
    ([["", "", 0], list(BANKS[0])], "Sentence 1 (A) is empty: type one."),
    ([["", ""]], "Sentence 1 (A) is empty: type one."),
]


def test_an_address_with_one_sentence_waits_for_the_other(open_page: Open) -> None:
    reader = open_page("#models")
    questions: list[str] = []
    reader.page.on("request", lambda request: questions.append(request.post_data or request.url))
    for rows, said in SHORT:
        questions.clear()
        reader.go(address(rows))
        expect(reader.problem).to_have_text(said)
        assert reader.page.locator(".occurrence").count() == 2, rows
        assert not reader.page.get_by_text("The address names no").is_visible(), rows
        assert not [one for one in questions if "occurrences" in one], rows
        assert not [one for one in questions if '""' in one], rows
    reader.go(address(SHORT[0][0]))
    assert pressed(reader, 1) == [1]
    typed(reader, 2, "The Bank was shut")
    assert kept(reader) == [["River bank flows", "bank", 0], ["The Bank was shut", "Bank", 0]]
    assert not reader.problem.is_visible()


def test_a_setting_that_changes_while_a_sentence_is_read_does_not_lose_it(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    held: list[Route] = []
    reader.page.route("**/v1/encode", hold(held))
    with reader.page.expect_request("**/v1/encode"):
        sentence(reader, 1).fill("My bank is open")
    with reader.page.expect_request("**/v1/encode"):
        reader.page.get_by_label("Case").select_option("lower")
    for route in reversed(held):
        route.continue_()
    reader.page.unroute("**/v1/encode")
    expect(reader.page).to_have_url(re.compile(r"My\+bank\+is\+open.*case=lower"))
    reader.settle()
    assert kept(reader)[0] == ["My bank is open", "bank", 0]
    assert pressed(reader, 1) == [1]


def caption(reader: Reader) -> str:
    figure = reader.page.get_by_role("figure", name="How alike they are")
    return figure.locator("figcaption").text_content() or ""


def test_what_context_does_to_the_pairs_is_said_as_it_is(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(address([BANKS[0]] * 3))
    assert caption(reader) == "Cosines of every pair. Context leaves every pair as it was."
    expect(reader.page.locator(".notes li")).to_have_text(
        "A, B and C share one vocabulary key, so their static vectors are equal and here"
        " context does not tell them apart either."
    )
    reader.go(address([BANKS[0]] * 2))
    assert caption(reader) == (
        "Cosine of A and B: 1.00 static, 1.00 in context. Context leaves them as they were."
    )
    river = "The river and the stream and the lake"
    nearer: list[Row] = [(river, "river"), (river, "stream"), (river, "lake")]
    answer = asked(client, nearer)
    before, after = answer["static_similarity"], answer["contextual_similarity"]
    gains = {(i, j): after[i][j] - before[i][j] for i in range(3) for j in range(i + 1, 3)}
    assert min(gains.values()) > 0.01
    i, j = max(gains, key=gains.__getitem__)
    reader.go(address(nearer))
    assert caption(reader) == (
        f"Cosines of every pair. Context brings all pairs nearer, {'ABC'[i]} and {'ABC'[j]} most:"
        f" {before[i][j]:.2f} static, {after[i][j]:.2f} in context."
    )


def test_an_unknown_word_is_not_said_to_have_moved(open_page: Open) -> None:
    rows: list[Row] = [("River qqzzxx", "qqzzxx"), BANKS[0], BANKS[1]]
    reader = open_page(address(rows))
    unknown = card(reader, "A: qqzzxx")
    assert "moved it by" not in unknown.text_content()
    assert unknown.get_by_text("It had no static vector: all that it is here").is_visible()
    assert "moved it by" in card(reader, "B: bank").text_content()
    # Its static cosines are zero for want of a vector: no pair with it comes nearer.
    assert "Context parts B and C most: 1.00 static" in caption(reader)
    reader.go(address([*rows[:2], rows[1]]))
    assert caption(reader) == (
        "Cosines of every pair. Context leaves the pair B and C, which have static vectors,"
        " as it was."
    )


HEARD = """() => {
  globalThis.heard = [];
  const live = "output, [role=status], [role=alert]";
  new MutationObserver((changes) => {
    const said = changes.filter(({ target, addedNodes }) => addedNodes.length
      && (target.closest?.(live) || [...addedNodes].some((node) => node.matches?.(live))));
    globalThis.heard.push(...new Set(said.map(({ target }) => target.textContent.trim())));
  }).observe(document.body, { childList: true, subtree: true });
}"""


def test_a_result_is_heard_once_and_a_redraw_not_at_all(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    reader.page.evaluate(HEARD)
    reader.page.get_by_label("Colours").select_option("dark")
    reader.resize(900)
    heard = "globalThis.heard.filter(Boolean)"
    assert reader.page.evaluate(heard) == []
    reader.page.evaluate("globalThis.heard.length = 0")
    example(reader, "Apple / apple")
    said = [one for one in reader.page.evaluate(heard) if "osine" in one or "Point" in one]
    assert len(said) == 1
    assert said[0].startswith("Compared: ")
    assert said[0].endswith(caption(reader))
    hint = reader.page.get_by_text("Point at a mark")
    assert hint.is_visible()
    reader.page.locator(".flat-map .static.point").first.hover()
    assert not hint.is_visible()


def test_cards_are_named_and_their_links_are_large_enough_to_touch(open_page: Open) -> None:
    reader = open_page(address(APPLES), width=390)
    heading = card(reader, "A: Apple").get_by_role("heading", level=3)
    assert heading.text_content() == "A: Apple"
    boxes = [one.bounding_box() for one in reader.page.locator(".near a").all()]
    assert len(boxes) == 32
    assert min(min(box["height"], box["width"]) for box in boxes) >= 24


def test_how_many_neighbours_an_address_asks_for_is_what_is_asked(open_page: Open) -> None:
    reader = open_page(address(BANKS, k="7"))
    many = reader.page.get_by_label("Neighbours of each")
    assert many.locator("option").all_text_contents() == ["3", "5", "7", "8", "12", "20"]
    assert len(card(reader, "A: bank").get_by_role("list").first.locator("li").all()) == 7
    reader.go(address(BANKS, k="0"))
    assert many.input_value() == "0"
    assert card(reader, "A: bank").get_by_text("None were asked for.").count() == 2
    assert json.loads(sent(reader))["neighbors"] == 0
    for odd in ("5000", "many", "1e999"):
        reader.go(address(BANKS, k=odd))
        expect(reader.problem).to_contain_text("/neighbors")
        assert many.input_value() == odd
    words(reader, 1).first.wait_for()
    many.select_option("8")
    reader.settle()
    assert not reader.problem.is_visible()
    assert len(cosines(reader)) == 8


def sent(reader: Reader) -> str:
    return reader.command().partition("-d '")[2].removesuffix("'")


def test_tables_that_were_opened_stay_open(open_page: Open) -> None:
    reader = open_page("#compare")
    tables = reader.page.locator("details", has_text="The numbers as tables")
    tables.locator("summary").click()
    reader.page.get_by_label("Colours").select_option("dark")
    reader.settle()
    assert tables.get_attribute("open") is not None
    assert tables.locator("table").first.is_visible()
