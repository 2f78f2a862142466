"""The view Compare: sentences that are typed, added and removed, and announcements."""

import re

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.driver import BANKS, EIGHT, compare_address

pytestmark = pytest.mark.slow


def test_an_edited_sentence_keeps_its_word(open_page: Open) -> None:
    reader = open_page("#compare")
    reader.press("plant")
    reader.go(compare_address([("River bank flows", "flows"), BANKS[1]]))
    for text, index in [
        ("The river flows by", 2),
        ("River bank", 1),
        # A chosen word is compared again when it is typed again.
        ("River bank flows", 2),
    ]:
        reader.typed(1, text)
        assert reader.kept()[0] == [text, "flows", 0]
        assert reader.pressed(1) == [index]
    # Typing adds no entry to the history.
    reader.back()
    assert reader.kept()[0][1] == "plant"
    # A warning says that compared words differ; a word that all sentences share is proposed.
    reader.typed(1, "The bass guitar was loud")
    reader.typed(2, "The bank")
    assert reader.text("The chosen words differ: guitar and bank.").is_visible()
    reader.typed(2, "We caught a bass in the lake")
    assert (reader.pressed(1), reader.pressed(2)) == ([1], [3])
    assert not reader.text("The chosen words differ").is_visible()


PROPOSED = [
    ([("A bank on the bank", "bank", 1), ("Money bank", "bank", 0)], ["bank 1", "bank 0"]),
    ([("A bank", "bank", 1), ("Money bank", "bank", 0)], ["bank 0", "bank 0"]),
    ([("River banks flows", "bank", 0), ("Money bank", "bank", 0)], ["banks 0", "bank 0"]),
    ([("A longer sentence without", "bank", 0)], ["sentence 0"]),
    ([("This should never be about", "bank", 0)], ["This 0"]),
    ([("High prices at my bank", "weather", 0), ("Money bank", "bank", 0)], ["bank 0", "bank 0"]),
    ([("The bass guitar is loud", "", 0), ("We caught a bass", "", 0)], ["bass 0", "bass 0"]),
    ([("The Bass is loud", "", 0), ("We caught a bass", "", 0)], ["Bass 0", "bass 0"]),
    ([("The dog is here", "", 0), ("The cat is there", "", 0)], ["dog 0", "cat 0"]),
]
"""Occurrences, and the words that are compared: chosen ones, or those that sentences share."""
WITH_WORDS = """async (all) => {
  const { withWords } = await import("/page/compare/occurrences.js");
  const tokens = ({ text }) => text.split(" ").map((word) => ({ text: word }));
  return all.map((rows) => {
    const occurrences = rows.map(([text, word, nth]) => ({ text, word, nth }));
    return withWords(occurrences, occurrences.map(tokens)).map(({ word, nth }) => `${word} ${nth}`);
  });
}"""


def test_a_sentence_has_its_chosen_word_or_one_that_others_have(visit: Open) -> None:
    words = visit("#models").page.evaluate(WITH_WORDS, [rows for rows, _ in PROPOSED])
    assert words == [expected for _, expected in PROPOSED]


def test_sentences_are_added_up_to_eight_and_removed_down_to_two(open_page: Open) -> None:
    reader = open_page(compare_address(EIGHT[:7]))
    add = reader.button("Add a sentence")
    add.click()
    expect(reader.field("Sentence 8")).to_be_focused()
    expect(reader.problem).to_contain_text("Sentence 8 (H)")
    reader.typed(8, "The bank has 8 doors")
    assert reader.pressed(8) == [1]
    assert add.is_disabled()
    assert reader.text("Compare shows at most eight sentences").is_visible()
    assert len(reader.cosines()) == 2 * 64
    reader.go(compare_address(EIGHT[:4]))
    for number in (4, 3):
        reader.press("Remove sentence 1")
        expect(reader.page.locator(".occurrence")).to_have_count(number - 1)
    assert [row[0] for row in reader.kept()] == [row[0] for row in EIGHT[2:4]]
    expect(reader.button("Remove sentence")).to_have_count(0)


def test_a_setting_or_word_that_is_chosen_while_typing_keeps_the_sentence(
    open_page: Open,
) -> None:
    reader = open_page(compare_address(BANKS))
    reader.page.locator("details.options summary").click()
    reader.field("Sentence 1").fill("My bank is open")
    reader.field("Case").select_option("lower")
    reader.field("Sentence 2").fill("Your bank is shut")
    reader.words_of(1).first.click()
    expect(reader.page).to_have_url(re.compile(r"My\+bank\+is\+open.*Your.*case=lower"))
    reader.settle()
    assert [text for text, _, _ in reader.kept()] == ["My bank is open", "Your bank is shut"]
