"""The view Compare: sentences that are typed, added and removed, and announcements."""

import re

import pytest
from playwright.sync_api import Route, expect

from polyseme.errors import InvalidError
from polyseme.operations.compare import Occurrence, TokenFinder
from polyseme.tokenizer import ResolvedToken
from tests.page.conftest import Open
from tests.page.driver import (
    BANKS,
    EIGHT,
    compare_address,
    cosines,
    hold,
    kept,
    pressed,
    typed,
)

pytestmark = pytest.mark.slow


def test_an_edited_sentence_keeps_its_word(open_page: Open) -> None:
    reader = open_page(compare_address([("River bank flows", "flows"), BANKS[1]]))
    typed(reader, 1, "The river flows by")
    assert kept(reader)[0] == ["The river flows by", "flows", 0]
    assert pressed(reader, 1) == [2]
    assert reader.field("Sentence 1").input_value() == "The river flows by"
    typed(reader, 1, "River bank")
    assert kept(reader)[0][1] == "bank"
    # A chosen word is restored when it is typed again.
    typed(reader, 1, "River bank flows")
    assert kept(reader)[0][1] == "flows"


EDITS = [
    ("bank", 1, "A bank on the bank", "A bank on a bank", ["bank", 1]),
    ("bank", 1, "A bank", "A bank on the bank", ["bank", 0]),
    ("bank", 0, "My Bank is open", "River bank flows", ["Bank", 0]),
    ("bank", 0, "River banks flows", "River bank flows", ["banks", 0]),
    ("bank", 0, "A longer sentence without", "River bank flows", ["sentence", 0]),
    ("bank", 0, "This should never be about", "River bank flows", ["This", 0]),
    ("weather", 0, "Extraordinary banking at my bank", "Extraordinary weather", ["bank", 0]),
]
KEEP_WORDS = """async (edits) => {
  const { keepWord } = await import("/page/compare/occurrences.js");
  const tokens = (text) => text.split(" ").map((word) => ({ text: word }));
  return edits.map(([word, nth, text, before]) => {
    const around = { before: tokens(before), proposals: ["bank"] };
    const kept = keepWord({ word, nth }, tokens(text), around);
    return [kept.word, kept.nth];
  });
}"""


def test_an_edited_sentence_keeps_its_word_or_gets_a_similar_one(visit: Open) -> None:
    found = visit("#models").page.evaluate(KEEP_WORDS, [edit[:-1] for edit in EDITS])
    assert found == [edit[-1] for edit in EDITS]


SHARED = """async (cases) => {
  const { sharedWord } = await import("/page/compare/occurrences.js");
  const tokens = (text) => text.split(" ").map((word) => ({ text: word }));
  return cases.map(([first, ...others]) => sharedWord(tokens(first), others.map(tokens)));
}"""


def test_a_content_word_that_all_sentences_share_is_proposed(open_page: Open) -> None:
    reader = open_page("#compare")
    shared = [
        ["The bass guitar is loud", "We caught a bass in the lake"],
        ["The Bass is loud", "We caught a bass", "Play the bass"],
        ["The dog is here", "The cat is there"],
    ]
    assert reader.page.evaluate(SHARED, shared) == ["bass", "Bass", ""]
    # A proposed word is replaced by a shared one; a warning says that chosen words differ.
    typed(reader, 1, "The bass guitar was loud")
    assert kept(reader)[0][1] == "guitar"
    assert reader.text("The chosen words differ: guitar and bank.").is_visible()
    typed(reader, 2, "We caught a bass in the lake")
    assert [word for _, word, _ in kept(reader)] == ["bass", "bass"]
    assert not reader.text("The chosen words differ").is_visible()


PASTE = """(field, text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true }));
}"""


def test_pasted_lines_are_sentences(open_page: Open) -> None:
    reader = open_page("#compare")
    lines = [f"The bat {verb}" for verb in ("flies", "sleeps", "hits a ball", "broke", "bites")]
    with reader.page.expect_response("**/v1/compare"):
        reader.field("Sentence 1").evaluate(PASTE, "\r\n".join(lines))
    reader.settle()
    assert kept(reader) == [[line, "bat", 0] for line in lines]
    assert len(cosines(reader)) == 2 * 25
    reader.back()
    assert len(kept(reader) if reader.query else BANKS) == 2


def test_typing_adds_no_history_entry(open_page: Open) -> None:
    reader = open_page("#compare")
    reader.press("plant")
    typed(reader, 1, "The plant")
    typed(reader, 1, "The plant grows")
    reader.back()
    expect(reader.field("Sentence 1")).to_have_value("River bank flows")


def test_input_during_a_request_is_kept(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))
    reader.field("Sentence 1").focus()
    reader.page.keyboard.press("End")
    reader.page.keyboard.type(" down to the wide sea", delay=45)
    expect(reader.field("Sentence 1")).to_have_value("River bank flows down to the wide sea")
    expect(reader.page).to_have_url(re.compile(r"wide\+sea"))
    reader.settle()
    assert kept(reader)[0] == ["River bank flows down to the wide sea", "bank", 0]


def test_sentences_are_added_up_to_eight_and_removed_down_to_two(open_page: Open) -> None:
    reader = open_page(compare_address(EIGHT[:6]))
    add = reader.button("Add a sentence")
    for number in (7, 8):
        add.click()
        expect(reader.field(f"Sentence {number}")).to_be_focused()
        expect(reader.problem).to_contain_text(f"Sentence {number} ({'ABCDEFGH'[number - 1]})")
        typed(reader, number, f"The bank has {number} doors")
        assert kept(reader)[number - 1] == [f"The bank has {number} doors", "bank", 0]
    assert add.is_disabled()
    assert reader.text("Compare shows at most eight sentences").is_visible()
    assert len(cosines(reader)) == 2 * 64
    reader.go(compare_address(EIGHT[:4]))
    for number in (4, 3):
        reader.press("Remove sentence 1")
        expect(reader.page.locator(".occurrence")).to_have_count(number - 1)
    assert [row[0] for row in kept(reader)] == [row[0] for row in EIGHT[2:4]]
    expect(reader.button("Remove sentence")).to_have_count(0)
    reader.back()
    expect(reader.page.locator(".occurrence")).to_have_count(3)


def test_back_removes_an_added_sentence(open_page: Open) -> None:
    reader = open_page("#compare")
    reader.press("Add a sentence")
    expect(reader.page.locator(".occurrence")).to_have_count(3)
    reader.back()
    expect(reader.page.locator(".occurrence")).to_have_count(2)
    expect(reader.problem).to_be_hidden()


def test_an_empty_sentence_can_be_typed(open_page: Open) -> None:
    reader = open_page(compare_address([BANKS[0]]))
    expect(reader.problem).to_have_text("Sentence 2 (B) is empty. Type a sentence.")
    assert reader.page.locator(".occurrence").count() == 2
    assert not reader.text("The address does not").is_visible()
    assert pressed(reader, 1) == [1]
    typed(reader, 2, "The Bank was shut")
    assert kept(reader) == [["River bank flows", "bank", 0], ["The Bank was shut", "Bank", 0]]
    assert not reader.problem.is_visible()
    reader.field("Sentence 2").fill("  ")
    expect(reader.problem).to_be_visible()
    assert not reader.page.locator("figure").first.is_visible()


def test_a_sentence_is_kept_when_a_setting_changes_while_it_is_tokenized(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))
    held: list[Route] = []
    reader.page.route("**/v1/encode", hold(held))
    with reader.page.expect_request("**/v1/encode"):
        reader.field("Sentence 1").fill("My bank is open")
    with reader.page.expect_request("**/v1/encode"):
        reader.page.locator("details.options summary").click()
        reader.field("Case").select_option("lower")
    for route in reversed(held):
        route.continue_()
    reader.page.unroute("**/v1/encode")
    expect(reader.page).to_have_url(re.compile(r"My\+bank\+is\+open.*case=lower"))
    reader.settle()
    assert kept(reader)[0] == ["My bank is open", "bank", 0]
    assert pressed(reader, 1) == [1]


def test_a_result_is_announced_once_and_a_redraw_is_not(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))
    details = reader.page.locator("details", has_text="The cosines as tables")
    details.locator("summary").click()
    reader.record_announcements()
    reader.theme("dark")
    reader.resize(900)
    assert reader.announced() == []
    # A redraw keeps the tables open.
    assert details.locator("table").first.is_visible()
    reader.press("plant")
    results = [one for one in reader.announced() if "static," in one or "Point" in one]
    caption = reader.figure("plant").first.get_by_role("heading").text_content()
    assert results == [f"Compared: {caption}"]
    hint = reader.text("Point at a mark")
    assert hint.is_visible()
    reader.page.locator(".flat-map .static.point").first.hover()
    assert not hint.is_visible()


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
    ("bank", 1, ["ba\u00adnk", "Bank\ufe0f", "bank\x00"]),
    ("new york", 0, ["York", "new\u200byork"]),
]
FIND = """async (cases) => {
  const { tokenIndex } = await import("/page/compare/occurrences.js");
  const tokens = (texts) => texts.map((text) => ({ text }));
  return cases.map(([word, nth, texts]) => tokenIndex({ word, nth }, tokens(texts)));
}"""


def found_by_the_service(word: str, nth: int, texts: list[str]) -> int:
    tokens = [ResolvedToken(text, None, None, None, "oov", None) for text in texts]
    try:
        return TokenFinder(tokens).find(Occurrence(" ".join(texts), word, nth), 0)
    except InvalidError:
        return -1


def test_the_word_of_an_address_is_found_as_the_service_finds_it(visit: Open) -> None:
    found = visit("#models").page.evaluate(FIND, FOUND)
    assert found == [found_by_the_service(*case) for case in FOUND]
    assert found == [1, 0, 1, -1, 1, 1, 2, 1, 1, 1, 0, 2, 1]
