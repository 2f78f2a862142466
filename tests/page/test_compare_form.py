"""The view Compare: sentences that are typed, added and removed, and announcements."""

import re

import httpx
import pytest
from playwright.sync_api import Route, expect

from polyseme.errors import InvalidError
from polyseme.operations.compare import Occurrence, find_token
from polyseme.tokenizer import ResolvedToken
from tests.page.compare import (
    APPLES,
    BANKS,
    EIGHT,
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

pytestmark = pytest.mark.slow


def test_an_edited_sentence_keeps_its_word(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    typed(reader, 1, "The green bank of a river")
    assert kept(reader)[0] == ["The green bank of a river", "bank", 0]
    assert pressed(reader, 1) == [2]
    assert sentence(reader, 1).input_value() == "The green bank of a river"


EDITS = [
    ("bank", 1, "A bank on the bank", "A bank on a bank", ["bank", 1]),
    ("bank", 1, "A bank", "A bank on the bank", ["bank", 0]),
    ("bank", 0, "My Bank is open", "River bank flows", ["Bank", 0]),
    ("bank", 0, "River banks flows", "River bank flows", ["banks", 0]),
    ("bank", 0, "A longer sentence without", "River bank flows", ["sentence", 0]),
    ("weather", 0, "Extraordinary banking at my bank", "Extraordinary weather", ["bank", 0]),
]
KEEP_WORDS = """async (edits) => {
  const { keepWord } = await import("/page/compare/occurrences.js");
  const tokens = (text) => text.split(" ").map((word) => ({ text: word }));
  return edits.map(([word, nth, text, before]) => {
    const around = { before: tokens(before), others: ["bank"] };
    const kept = keepWord({ word, nth }, tokens(text), around);
    return [kept.word, kept.nth];
  });
}"""


def test_an_edited_sentence_keeps_its_word_or_gets_a_similar_one(visit: Open) -> None:
    found = visit("#models").page.evaluate(KEEP_WORDS, [edit[:-1] for edit in EDITS])
    assert found == [edit[-1] for edit in EDITS]


def test_a_chosen_word_is_restored_when_it_is_typed_again(open_page: Open) -> None:
    reader = open_page(address([("River bank flows", "flows"), BANKS[1]]))
    typed(reader, 1, "River bank")
    assert kept(reader)[0][1] == "bank"
    typed(reader, 1, "River bank flows")
    assert kept(reader)[0][1] == "flows"


def test_a_typed_sentence_survives_leaving_the_view(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    sentence(reader, 1).fill("The green bank of a river")
    reader.page.get_by_role("link", name="Models", exact=True).click()
    reader.settle()
    # The view reads typed text 300 ms after the last key.
    reader.page.wait_for_timeout(500)
    assert reader.address == "#models"
    reader.page.get_by_role("navigation").get_by_role("link", name="Compare").click()
    reader.settle()
    assert sentence(reader, 1).input_value() == "The green bank of a river"
    assert kept(reader)[0] == ["The green bank of a river", "bank", 0]
    assert pressed(reader, 1) == [2]


def test_typing_adds_no_history_entry(open_page: Open) -> None:
    reader = open_page("#compare")
    example(reader, "bank / bank")
    typed(reader, 1, "River bank flow")
    typed(reader, 1, "River bank flow on")
    reader.page.go_back()
    reader.settle()
    expect(sentence(reader, 1)).to_have_value("Apple launched a new phone")


def test_input_during_a_request_is_kept(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    sentence(reader, 1).focus()
    reader.page.keyboard.press("End")
    reader.page.keyboard.type(" down to the wide sea", delay=45)
    expect(sentence(reader, 1)).to_have_value("River bank flows down to the wide sea")
    expect(reader.page).to_have_url(re.compile(r"wide\+sea"))
    reader.settle()
    assert kept(reader)[0] == ["River bank flows down to the wide sea", "bank", 0]


def test_sentences_are_added_up_to_eight_and_removed_down_to_two(open_page: Open) -> None:
    reader = open_page(address(EIGHT[:6]))
    add = reader.page.get_by_role("button", name="Add a sentence")
    for number in (7, 8):
        add.click()
        expect(sentence(reader, number)).to_be_focused()
        expect(reader.problem).to_contain_text(f"Sentence {number} ({'ABCDEFGH'[number - 1]})")
        typed(reader, number, f"The bank has {number} doors")
        assert kept(reader)[number - 1] == [f"The bank has {number} doors", "bank", 0]
    assert add.is_disabled()
    assert reader.page.get_by_text("Compare shows at most eight sentences").is_visible()
    assert len(cosines(reader)) == 2 * 64
    reader.go(address(EIGHT[:4]))
    for number in (4, 3):
        reader.page.get_by_role("button", name="Remove sentence 1").click()
        reader.settle()
        expect(reader.page.locator(".occurrence")).to_have_count(number - 1)
    assert [row[0] for row in kept(reader)] == [row[0] for row in EIGHT[2:4]]
    removers = reader.page.get_by_role("button", name="Remove sentence")
    assert [button.is_disabled() for button in removers.all()] == [True, True]
    assert reader.page.get_by_text("Compare needs at least two sentences").is_visible()
    reader.page.go_back()
    reader.settle()
    expect(reader.page.locator(".occurrence")).to_have_count(3)


def test_back_removes_an_added_sentence(open_page: Open) -> None:
    reader = open_page("#compare")
    reader.page.get_by_role("button", name="Add a sentence").click()
    expect(reader.page.locator(".occurrence")).to_have_count(3)
    reader.page.go_back()
    expect(reader.page.locator(".occurrence")).to_have_count(2)
    expect(reader.problem).to_be_hidden()


def test_an_empty_sentence_is_named_and_sends_no_request(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    requests: list[str] = []
    reader.page.on("request", lambda request: requests.append(request.url))
    sentence(reader, 2).fill("  ")
    expect(reader.problem).to_have_text("Sentence 2 (B) is empty. Type a sentence.")
    assert not [url for url in requests if url.endswith("/v1/compare")]
    assert not reader.page.get_by_role("figure").first.is_visible()
    typed(reader, 2, "My bank")
    assert not reader.problem.is_visible()
    assert kept(reader)[1] == ["My bank", "bank", 0]


INCOMPLETE: list[tuple[list[list], str]] = [
    ([list(BANKS[0])], "Sentence 2 (B) is empty. Type a sentence."),
    ([list(BANKS[0]), ["", "", 0]], "Sentence 2 (B) is empty. Type a sentence."),
    ([["", "", 0], list(BANKS[0])], "Sentence 1 (A) is empty. Type a sentence."),
    ([["", ""]], "Sentence 1 (A) is empty. Type a sentence."),
]


def test_an_address_with_too_few_sentences_shows_an_empty_one(open_page: Open) -> None:
    reader = open_page("#models")
    requests: list[str] = []
    reader.page.on("request", lambda request: requests.append(request.post_data or request.url))
    for rows, message in INCOMPLETE:
        requests.clear()
        reader.go(address(rows))
        expect(reader.problem).to_have_text(message)
        assert reader.page.locator(".occurrence").count() == 2, rows
        assert not reader.page.get_by_text("The address does not").is_visible(), rows
        assert not [one for one in requests if one.startswith("{") and "occurrences" in one], rows
        assert not [one for one in requests if '""' in one], rows
    reader.go(address(INCOMPLETE[0][0]))
    assert pressed(reader, 1) == [1]
    typed(reader, 2, "The Bank was shut")
    assert kept(reader) == [["River bank flows", "bank", 0], ["The Bank was shut", "Bank", 0]]
    assert not reader.problem.is_visible()


def test_a_sentence_is_kept_when_a_setting_changes_while_it_is_tokenized(open_page: Open) -> None:
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
    figure = reader.page.get_by_role("figure", name="Similarity")
    return figure.locator("figcaption").text_content() or ""


def test_the_caption_says_how_context_changes_the_pairs(visit: Open, client: httpx.Client) -> None:
    reader = visit(address([BANKS[0]] * 3))
    assert caption(reader) == "Cosines of every pair. Context does not change any pair."
    expect(reader.page.locator(".notes li")).to_have_text(
        "A, B and C share one vocabulary key, so their static vectors are equal and context"
        " does not tell them apart either."
    )
    reader.go(address([BANKS[0]] * 2))
    assert caption(reader) == (
        "Cosine of A and B: 1.00 static, 1.00 in context. Context changes nothing."
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
        f"Cosines of every pair. Context brings all pairs closer, {'ABC'[i]} and {'ABC'[j]} most:"
        f" {before[i][j]:.2f} static, {after[i][j]:.2f} in context."
    )


def test_an_unknown_word_has_no_shift(visit: Open) -> None:
    rows: list[Row] = [("River qqzzxx", "qqzzxx"), BANKS[0], BANKS[1]]
    reader = visit(address(rows))
    unknown = card(reader, "A: qqzzxx")
    assert "Shift " not in unknown.text_content()
    assert unknown.get_by_text("This word has no static vector. Its contextual vector").is_visible()
    assert "Shift " in card(reader, "B: bank").text_content()
    # Without a vector, its static cosines are zero, so the caption ignores its pairs.
    assert "Context separates B and C most: 1.00 static" in caption(reader)
    reader.go(address([*rows[:2], rows[1]]))
    assert caption(reader) == (
        "Cosines of every pair. Context does not change the only pair with static vectors, B and C."
    )


RECORD_ANNOUNCEMENTS = """() => {
  globalThis.announced = [];
  const live = "output, [role=status], [role=alert]";
  new MutationObserver((changes) => {
    const announced = changes.filter(({ target, addedNodes }) => addedNodes.length
      && (target.closest?.(live) || [...addedNodes].some((node) => node.matches?.(live))));
    globalThis.announced.push(
      ...new Set(announced.map(({ target }) => target.textContent.trim())));
  }).observe(document.body, { childList: true, subtree: true });
}"""


def test_a_result_is_announced_once_and_a_redraw_is_not(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    reader.page.evaluate(RECORD_ANNOUNCEMENTS)
    reader.page.get_by_label("Theme").select_option("dark")
    reader.resize(900)
    announced = "globalThis.announced.filter(Boolean)"
    assert reader.page.evaluate(announced) == []
    example(reader, "Apple / apple")
    results = [one for one in reader.page.evaluate(announced) if "osine" in one or "Point" in one]
    assert len(results) == 1
    assert results[0].startswith("Compared: ")
    assert results[0].endswith(caption(reader))
    hint = reader.page.get_by_text("Point at a mark")
    assert hint.is_visible()
    reader.page.locator(".flat-map .static.point").first.hover()
    assert not hint.is_visible()


def test_cards_have_names_and_links_large_enough_to_touch(visit: Open) -> None:
    reader = visit(address(APPLES), width=390)
    heading = card(reader, "A: Apple").get_by_role("heading", level=3)
    assert heading.text_content() == "A: Apple"
    boxes = [one.bounding_box() for one in reader.page.locator(".near a").all()]
    assert len(boxes) == 32
    assert min(min(box["height"], box["width"]) for box in boxes) >= 24


def test_the_number_of_neighbors_comes_from_the_address(open_page: Open) -> None:
    reader = open_page(address(BANKS, k="7"))
    number = reader.page.get_by_label("Number of neighbors")
    assert number.locator("option").all_text_contents() == ["3", "5", "7", "8", "12", "20"]
    assert len(card(reader, "A: bank").get_by_role("list").first.locator("li").all()) == 7
    reader.go(address(BANKS, k="0"))
    assert number.input_value() == "0"
    assert card(reader, "A: bank").get_by_text("None requested.").count() == 2
    assert reader.sent()["neighbors"] == 0
    for invalid in ("5000", "many", "1e999"):
        reader.go(address(BANKS, k=invalid))
        expect(reader.problem).to_contain_text("/neighbors")
        assert number.input_value() == invalid
    words(reader, 1).first.wait_for()
    number.select_option("8")
    reader.settle()
    assert not reader.problem.is_visible()
    assert len(cosines(reader)) == 8


def test_tables_that_were_opened_stay_open(open_page: Open) -> None:
    reader = open_page("#compare")
    details = reader.page.locator("details", has_text="The cosines as tables")
    details.locator("summary").click()
    reader.page.get_by_label("Theme").select_option("dark")
    reader.settle()
    assert details.get_attribute("open") is not None
    assert details.locator("table").first.is_visible()


FOUND = [
    ("STRASSE", 0, ["Die", "Straße"]),
    ("straße", 0, ["STRASSE", "strasse"]),
    ("straße", 1, ["STRASSE", "Straße", "straẞe"]),
    ("bank", 1, ["Bank", "bank", "BANK"]),
    (" bank ", 0, ["Bank", "bank"]),
    ("new\u00a0 york", 0, ["York", "New York"]),
    ("New  York", 1, ["New York", "new york", "New\nYork"]),
    ("ΟΔΟΣ", 0, ["οδός", "οδος"]),
    ("KIRMIZI", 0, ["kırmızı", "kirmizi"]),
    ("İstanbul", 0, ["istanbul", "i̇stanbul"]),
    ("\ufeffbank", 0, ["bank"]),
]
FIND = """async (cases) => {
  const { tokenIndex } = await import("/page/compare/occurrences.js");
  const tokens = (texts) => texts.map((text) => ({ text }));
  return cases.map(([word, nth, texts]) => tokenIndex({ word, nth }, tokens(texts)));
}"""


def found_by_the_service(word: str, nth: int, texts: list[str]) -> int:
    tokens = [ResolvedToken(text, None, None, None, "oov", None) for text in texts]
    try:
        return find_token(tokens, Occurrence(" ".join(texts), word, nth), 0)
    except InvalidError:
        return -1


def test_the_word_of_an_address_is_found_as_the_service_finds_it(visit: Open) -> None:
    found = visit("#models").page.evaluate(FIND, FOUND)
    assert found == [found_by_the_service(*case) for case in FOUND]
    assert found == [1, 0, 1, -1, 1, 1, 2, 1, 1, 1, -1]
