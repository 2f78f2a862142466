"""The view Compare: sentences that are typed, added and removed, and announcements."""

import re

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.driver import (
    BANKS,
    EIGHT,
    compare_address,
    cosines,
    kept,
    pressed,
    typed,
    words_of,
)

pytestmark = pytest.mark.slow


def test_an_edited_sentence_keeps_its_word(open_page: Open) -> None:
    reader = open_page(compare_address([("River bank flows", "flows"), BANKS[1]]))
    for text, index in [
        ("The river flows by", 2),
        ("River bank", 1),
        # A chosen word is compared again when it is typed again.
        ("River bank flows", 2),
    ]:
        typed(reader, 1, text)
        assert kept(reader)[0] == [text, "flows", 0]
        assert pressed(reader, 1) == [index]
        assert reader.field("Sentence 1").input_value() == text


COMPARED = [
    (("A bank on the bank", "bank", 1), ["bank", 1]),
    (("A bank", "bank", 1), ["bank", 0]),
    (("My Bank is open", "bank", 0), ["Bank", 0]),
    (("River banks flows", "bank", 0), ["banks", 0]),
    (("A longer sentence without", "bank", 0), ["sentence", 0]),
    (("This should never be about", "bank", 0), ["This", 0]),
    (("Extraordinary banking at my branch", "weather", 0), ["Extraordinary", 0]),
    (("Extraordinary prices at my bank", "weather", 0), ["bank", 0]),
]
"""Occurrences beside *Money bank*, and the words that are compared."""
SHARED = [
    (["The bass guitar is loud", "We caught a bass in the lake"], ["bass", "bass"]),
    (["The Bass is loud", "We caught a bass", "Play the bass"], ["Bass", "bass", "bass"]),
    (["The dog is here", "The cat is there"], ["dog", "cat"]),
]
"""Sentences without chosen words, and the words that are compared."""
WITH_WORDS = """async (all) => {
  const { withWords } = await import("/page/compare/occurrences.js");
  const tokens = ({ text }) => text.split(" ").map((word) => ({ text: word }));
  return all.map((rows) => {
    const occurrences = rows.map(([text, word, nth]) => ({ text, word, nth }));
    return withWords(occurrences, occurrences.map(tokens)).map(({ word, nth }) => [word, nth]);
  });
}"""


def test_a_sentence_has_its_chosen_word_or_one_that_others_have(visit: Open) -> None:
    page = visit("#models").page
    rows = [[row, ("Money bank", "bank", 0)] for row, _ in COMPARED]
    found = page.evaluate(WITH_WORDS, rows)
    assert [first for first, _ in found] == [word for _, word in COMPARED]
    rows = [[(text, "", 0) for text in texts] for texts, _ in SHARED]
    found = page.evaluate(WITH_WORDS, rows)
    assert [[word for word, _ in words] for words in found] == [words for _, words in SHARED]


def test_a_content_word_that_all_sentences_share_is_proposed(open_page: Open) -> None:
    reader = open_page("#compare")
    # A warning says that compared words differ.
    typed(reader, 1, "The bass guitar was loud")
    assert pressed(reader, 1) == [2]
    assert reader.text("The chosen words differ: guitar and bank.").is_visible()
    typed(reader, 2, "We caught a bass in the lake")
    assert (pressed(reader, 1), pressed(reader, 2)) == ([1], [3])
    assert not reader.text("The chosen words differ").is_visible()


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
        assert kept(reader)[number - 1][0] == f"The bank has {number} doors"
        assert pressed(reader, number) == [1]
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


def test_an_empty_sentence_can_be_typed(open_page: Open) -> None:
    reader = open_page(compare_address([BANKS[0]]))
    expect(reader.problem).to_have_text("Sentence 2 (B) is empty. Type a sentence.")
    assert reader.page.locator(".occurrence").count() == 2
    assert not reader.text("The address does not").is_visible()
    assert pressed(reader, 1) == [1]
    typed(reader, 2, "The Bank was shut")
    assert kept(reader)[1][0] == "The Bank was shut"
    assert pressed(reader, 2) == [1]
    assert not reader.problem.is_visible()
    reader.field("Sentence 2").fill("  ")
    expect(reader.problem).to_be_visible()
    assert not reader.page.locator("figure").first.is_visible()


def test_a_setting_or_a_word_that_is_chosen_while_typing_keeps_the_sentence(
    open_page: Open,
) -> None:
    reader = open_page(compare_address(BANKS))
    reader.page.locator("details.options summary").click()
    reader.field("Sentence 1").fill("My bank is open")
    reader.field("Case").select_option("lower")
    reader.field("Sentence 2").fill("Your bank is shut")
    words_of(reader, 1).first.click()
    expect(reader.page).to_have_url(re.compile(r"My\+bank\+is\+open.*Your.*case=lower"))
    reader.settle()
    assert [text for text, _, _ in kept(reader)] == ["My bank is open", "Your bank is shut"]


def test_a_result_is_announced_once_and_a_redraw_is_not(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))
    details = reader.page.locator("details", has_text="The cosines as tables").first
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
