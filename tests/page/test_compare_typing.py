"""Sentences to compare: typed, added and removed."""

import re

import pytest
from playwright.sync_api import expect

from tests.page.comparing import (
    BANKS,
    address,
    cosines,
    example,
    kept,
    pressed,
    sentence,
    typed,
)
from tests.page.conftest import Open


def test_a_sentence_that_is_typed_keeps_its_word(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    typed(reader, 1, "The green bank of a river")
    assert kept(reader)[0] == ["The green bank of a river", "bank", 0]
    assert pressed(reader, 1) == [2]
    assert sentence(reader, 1).input_value() == "The green bank of a river"


def test_a_sentence_that_is_typed_keeps_the_second_of_two_equal_words(open_page: Open) -> None:
    reader = open_page(address([("A bank on a bank", "bank", 1), BANKS[1]]))
    typed(reader, 1, "A bank on the bank")
    assert kept(reader)[0] == ["A bank on the bank", "bank", 1]
    typed(reader, 1, "A bank")
    assert kept(reader)[0] == ["A bank", "bank", 0]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("My Bank is open", "Bank"),
        ("River banks flows", "banks"),
        ("A longer sentence without", "sentence"),
    ],
)
def test_a_word_that_is_gone_gives_way_to_a_sensible_one(
    open_page: Open, text: str, word: str
) -> None:
    reader = open_page(address(BANKS))
    typed(reader, 1, text)
    assert kept(reader)[0] == [text, word, 0]


def test_a_word_that_another_sentence_has_is_taken_first(open_page: Open) -> None:
    reader = open_page(address([("Extraordinary weather", "weather"), BANKS[1]]))
    typed(reader, 1, "Extraordinary banking at my bank")
    assert kept(reader)[0][1] == "bank"


def test_a_chosen_word_comes_back_when_it_is_typed_again(open_page: Open) -> None:
    reader = open_page(address([("River bank flows", "flows"), BANKS[1]]))
    typed(reader, 1, "River bank")
    assert kept(reader)[0][1] == "bank"
    typed(reader, 1, "River bank flows")
    assert kept(reader)[0][1] == "flows"


@pytest.mark.parametrize("other", ["Look", "Models"])
def test_a_sentence_that_is_typed_is_there_though_the_view_is_left(
    open_page: Open, other: str
) -> None:
    reader = open_page(address(BANKS))
    sentence(reader, 1).fill("The green bank of a river")
    reader.page.get_by_role("link", name=other, exact=True).click()
    reader.settle()
    reader.page.wait_for_timeout(500)
    assert reader.address == f"#{other.lower()}"
    reader.page.get_by_role("link", name="Compare", exact=True).click()
    reader.settle()
    assert sentence(reader, 1).input_value() == "The green bank of a river"
    assert kept(reader)[0] == ["The green bank of a river", "bank", 0]
    assert pressed(reader, 1) == [2]


def test_typing_makes_no_step_to_go_back_to(open_page: Open) -> None:
    reader = open_page("#compare")
    example(reader, "bank / bank")
    typed(reader, 1, "River bank flow")
    typed(reader, 1, "River bank flow on")
    reader.page.go_back()
    reader.settle()
    expect(sentence(reader, 1)).to_have_value("Apple launched a new phone")


def test_what_is_typed_while_the_service_answers_is_not_lost(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    sentence(reader, 1).focus()
    reader.page.keyboard.press("End")
    reader.page.keyboard.type(" down to the wide sea", delay=45)
    expect(sentence(reader, 1)).to_have_value("River bank flows down to the wide sea")
    expect(reader.page).to_have_url(re.compile(r"wide\+sea"))
    reader.settle()
    assert kept(reader)[0] == ["River bank flows down to the wide sea", "bank", 0]


def test_sentences_are_added_up_to_eight_and_removed_down_to_two(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    add = reader.page.get_by_role("button", name="Add a sentence")
    for number in range(3, 9):
        add.click()
        expect(sentence(reader, number)).to_be_focused()
        expect(reader.problem).to_contain_text(f"Sentence {number} ({'ABCDEFGH'[number - 1]})")
        typed(reader, number, f"The bank has {number} doors")
        assert kept(reader)[number - 1] == [f"The bank has {number} doors", "bank", 0]
    assert add.is_disabled()
    assert reader.page.get_by_text("Eight sentences are the most").is_visible()
    assert len(cosines(reader)) == 2 * 64
    for number in range(8, 2, -1):
        reader.page.get_by_role("button", name="Remove sentence 1").click()
        reader.settle()
        expect(reader.page.locator(".occurrence")).to_have_count(number - 1)
    assert [row[0] for row in kept(reader)] == ["The bank has 7 doors", "The bank has 8 doors"]
    removers = reader.page.get_by_role("button", name="Remove sentence")
    assert [button.is_disabled() for button in removers.all()] == [True, True]
    assert reader.page.get_by_text("Two sentences are the least").is_visible()
    reader.page.go_back()
    reader.settle()
    expect(reader.page.locator(".occurrence")).to_have_count(3)


def test_a_sentence_that_was_added_is_gone_after_a_step_back(open_page: Open) -> None:
    reader = open_page("#compare")
    reader.page.get_by_role("button", name="Add a sentence").click()
    expect(reader.page.locator(".occurrence")).to_have_count(3)
    reader.page.go_back()
    expect(reader.page.locator(".occurrence")).to_have_count(2)
    expect(reader.problem).to_be_hidden()


def test_an_empty_sentence_is_named_and_nothing_is_asked(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    questions: list[str] = []
    reader.page.on("request", lambda request: questions.append(request.url))
    sentence(reader, 2).fill("  ")
    expect(reader.problem).to_have_text("Sentence 2 (B) is empty: type one.")
    assert not [url for url in questions if url.endswith("/v1/compare")]
    assert not reader.page.get_by_role("figure").first.is_visible()
    typed(reader, 2, "My bank")
    assert not reader.problem.is_visible()
    assert kept(reader)[1] == ["My bank", "bank", 0]
