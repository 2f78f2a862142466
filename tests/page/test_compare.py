"""The view Compare: its numbers, map, cards and form, and invalid addresses."""

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.page.driver import APPLE_ROWS, BANKS, EIGHT, Reader, Row, compare_address, paste

pytestmark = pytest.mark.slow


def captions(reader: Reader) -> list[str]:
    """The headline of the cosines, and the notes."""
    return reader.texts(".models-beside > figure h3, .notes li")


def test_it_opens_with_bank_and_a_headline_in_figures(visit: Visit) -> None:
    reader = visit("#compare")
    given = reader.compared(BANKS)
    assert captions(reader)[0] == "bank: 1.00 static, 0.16 in context"
    both = np.ravel([given["static_similarity"], given["contextual_similarity"]])
    np.testing.assert_allclose(reader.cosines(), both, atol=0.00501)
    reader.open_tables("The cosines as tables")
    tables = reader.numbers(".models-beside td.number")
    np.testing.assert_allclose(tables, both, atol=0.0000501)


def test_the_caption_and_the_notes_say_how_context_changes_the_pairs(visit: Visit) -> None:
    one = "are one word, “bank”, with one static vector:"
    reader = visit("#compare")
    cosine = reader.compared(BANKS)["contextual_similarity"][0][1]
    for rows, *expected in [
        (
            BANKS,
            f"bank: 1.00 static, {cosine:.2f} in context",
            f"A and B {one} only context tells them apart.",
        ),
        (
            [BANKS[0]] * 3,
            "bank: 1.00 static, 1.00 in context; no pair changes",
            f"A, B and C {one} here, context does not tell them apart either.",
        ),
    ]:
        reader.go(compare_address(rows))
        assert captions(reader) == expected, rows
    reader.go(compare_address(EIGHT))
    notes = captions(reader)[1:]
    assert [note.split(" are")[0] for note in notes[:2]] == ["C and D", "E and F"]
    assert notes[2:] == [
        (
            "A (“Apple”) and B (“apple”) are different words of the vocabulary: with the case"
            " “lower”, they are one."
        ),
        "H is not in the vocabulary: its static vector is zero.",
    ]


def test_the_map_has_the_services_positions_on_one_scale(visit: Visit) -> None:
    reader = visit(compare_address(EIGHT))
    answer = reader.compared(EIGHT)["map"]
    given = {one["word"]: one["position"] for one in answer["neighbors"]}
    given |= {f"#{'ABCDEFGH'[i]}": place for i, place in enumerate(answer["contextual"])}
    drawn = {}
    for name, place in reader.places().items():
        if ": near" in name:
            drawn[name.split(": near")[0]] = place
        elif name.startswith("Contextual"):
            drawn[f"#{name.split(' of ')[1][0]}"] = place
    assert drawn.keys() == given.keys()
    # The y axis of SVG points down.
    expected = np.array([given[name] for name in drawn]) * [1, -1]
    found = np.array([*drawn.values()])
    expected, found = expected - expected[0], found - found[0]
    scale = np.abs(found).sum() / np.abs(expected).sum()
    np.testing.assert_allclose(found, expected * scale, atol=0.02)


def test_equal_vectors_are_one_mark_with_both_letters(visit: Visit) -> None:
    reader = visit(compare_address(BANKS))
    names = sorted(name for name in reader.places() if " vector of " in name.split(":")[0])
    static = "Static vector of A and B (bank)"
    assert names == ["Contextual vector of A (bank)", "Contextual vector of B (bank)", static]
    assert reader.texts(".flat-map .static.point text") == ["A and B: bank"]
    assert reader.page.locator(".flat-map .arrow").count() == 2
    reader.go(compare_address([BANKS[0]] * 2))
    names = sorted(name for name in reader.places() if " vector of " in name.split(":")[0])
    assert names == ["Contextual vector of A and B (bank)", static]
    assert reader.cosines() == [1] * 8


BOXES = "(all) => all.map((one) => one.getBoundingClientRect().toJSON())"


def test_labels_of_the_map_overlap_neither_each_other_nor_the_edge(visit: Visit) -> None:
    reader = visit(compare_address(EIGHT), width=320)
    labels = reader.page.locator(".flat-map .point > text:not(.unplaced):not(.letter)")
    boxes = [box for box in labels.evaluate_all(BOXES) if box["width"]]
    frame = reader.page.locator("svg.flat-map").bounding_box()
    assert len(boxes) > len(EIGHT)
    for box in boxes:
        assert frame["x"] - 1 <= box["x"]
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
    for a, b in combinations(boxes, 2):
        beside = a["x"] + a["width"] <= b["x"] + 1 or b["x"] + b["width"] <= a["x"] + 1
        # A line box is taller than its letters.
        above = abs(a["y"] - b["y"]) >= 13
        assert beside or above, (a, b)
    # The map is drawn for another width, not scaled.
    before = reader.page.locator("svg.flat-map").get_attribute("viewBox")
    reader.resize(700)
    assert reader.page.locator("svg.flat-map").get_attribute("viewBox") != before


def test_a_point_has_a_name_for_pointer_and_keyboard_and_opens_neighbors(visit: Visit) -> None:
    reader = visit(compare_address(BANKS))
    name = reader.page.locator("output.pointed")
    reader.page.locator(".flat-map .static.point").hover()
    expect(name).to_have_text("Static vector of A and B (bank)")
    by_x = [key for key, _ in sorted(reader.places().items(), key=lambda item: item[1][0])]
    reader.page.locator(".flat-map [tabindex='0']").focus()
    expect(name).to_have_text(by_x[0])
    reader.page.keyboard.press("ArrowRight")
    expect(name).to_have_text(by_x[1])
    reader.keys("End")
    expect(name).to_have_text(by_x[-1])
    reader.page.locator(".flat-map .point[aria-label^='tributaries:']").press("Enter")
    reader.heading("Nearest to tributaries").wait_for()
    assert reader.address == "#neighbors?word=tributaries"


def test_a_card_has_the_services_neighbors_shift_and_attention(visit: Visit) -> None:
    reader = visit(compare_address(BANKS, k="5"))
    given = reader.compared(BANKS, neighbors=5)["occurrences"][1]
    shown = reader.card("B: bank")
    lists = shown.get_by_role("list")
    for at, near in enumerate([given["static_neighbors"], given["contextual_neighbors"]]):
        links = lists.nth(at).get_by_role("link")
        assert links.all_text_contents() == [one["word"] for one in near]
        shares = lists.nth(at).locator(".number").all_text_contents()
        assert [float(share) for share in shares] == [round(one["similarity"], 2) for one in near]
    first, second = ({n["word"] for n in given[f"{s}_neighbors"]} for s in ("static", "contextual"))
    assert first & second
    assert shown.get_by_text("in both").count() == 2 * len(first & second)
    assert shown.locator("strong").text_content() == f"{given['shift']:.2f}"
    attended = lists.nth(2).locator(".near-word").all_text_contents()
    assert attended == [one["text"] for one in given["attends_to"]]
    reader.go(compare_address(BANKS, k="0"))
    assert reader.card("A: bank").get_by_text("None requested.").count() == 2
    assert reader.sent()["neighbors"] == 0


def test_an_occurrence_opens_its_attention(visit: Visit) -> None:
    text = "😀 don't bank on the bank"
    reader = visit(compare_address([(text, "bank", 1), ("Money bank", "bank")]))
    before = reader.card("A: bank").locator("mark")
    assert before.evaluate("(mark) => mark.previousSibling.textContent") == "😀 don't bank on the "
    reader.card("A: bank").get_by_role("link", name="Open in Attention").click()
    # The tokens are 😀 do n't bank on the bank.
    expect(reader.page.locator(".attention .word").nth(6)).to_have_attribute("aria-pressed", "true")
    rows: list[Row] = [("bank river money", "bank"), ("apple bank", "bank")]
    other = visit(compare_address(rows, model="deep"), service="tiny_models")
    first = other.card("A: bank").locator("ol.wide-words li").first
    word, weight = (first.locator(each).text_content() for each in (".near-word", ".number"))
    other.card("A: bank").get_by_role("link", name="Open in Attention").click()
    other.settle()
    assert other.heading("Layer 1, mean of heads").is_visible()
    assert other.readout().startswith(f"bank attends to {word}: {weight}"[:-1])


def test_another_word_is_chosen_by_mouse_and_by_keyboard(visit: Visit) -> None:
    text = "The bank stands on the bank of the river"
    reader = visit(compare_address([(text, "bank"), (text, "bank")]))
    assert reader.cosines()[5] == 1
    reader.words_of(2).filter(has_text="bank").nth(1).click()
    reader.settle()
    assert reader.kept()[1] == [text, "bank", 1]
    given = reader.compared([(text, "bank", 0), (text, "bank", 1)])
    assert reader.cosines()[5] == pytest.approx(given["contextual_similarity"][0][1], abs=0.00501)
    reader.words_of(1).filter(has_text="stands").focus()
    reader.keys("Enter")
    assert (reader.pressed(1), reader.pressed(2)) == ([2], [5])
    expect(reader.words_of(1).nth(2)).to_be_focused()


def test_a_setting_is_sent_and_kept_in_the_address(visit: Visit, tmp_path: Path) -> None:
    settings = {"Number of neighbors": "3", "Case": "lower", "Factor of the static vector": "4"}
    reader = visit(compare_address(APPLE_ROWS))
    for label, value in settings.items():
        reader.choose(label, value)
    given = reader.compared(APPLE_ROWS, neighbors=3, case="lower", share=4)
    reader.reload()
    assert {label: reader.field(label).input_value() for label in settings} == settings
    assert reader.saved_json(tmp_path) == given


INVALID: list[object] = [
    "", "null", "{}", "[]", '[["a", "a"], ["b"]]',
    '[["a", "a"], [["b"], "b"]]',
    '[["a", "a"], null]',
    '[["a", "a"], ["b", "b", -1]]',
    '[["a", "a"], ["b", "b", 0.5]]',
    '[["a", "a"], ["b", "b", 1e999]]',
    '[["a", "a"], ["b", "b", 0, 0]]',
    [BANKS[0]] * 9,
]  # fmt: skip


def test_an_address_with_invalid_occurrences_shows_the_first_example(visit: Visit) -> None:
    reader = visit(compare_address("["))
    assert reader.field("Sentence 1").input_value() == "River bank flows"
    assert reader.text("The address does not contain valid occurrences").is_visible()
    texts = [one if isinstance(one, str) else json.dumps(one) for one in INVALID]
    parse = "(await import('/page/compare/occurrences.js')).parseOccurrences"
    assert reader.page.evaluate(f"async (all) => all.map({parse})", texts) == [None] * len(texts)
    # Another word is compared instead of an absent one.
    for row, word in [("rivers", 0), 0], [("bank", 2**53 - 1), 1], [("", 0), 1]:
        reader.go(compare_address([("River bank", *row), BANKS[1]]))
        assert reader.pressed(1) == [word], row
        assert len(reader.cosines()) == 8, row


def test_an_unknown_word_has_no_static_mark_and_no_shift(visit: Visit) -> None:
    rows: list[Row] = [("River qqzzxx", "qqzzxx"), BANKS[0], BANKS[1]]
    reader = visit(compare_address(rows))
    assert reader.words_of(1).nth(1).text_content() == "qqzzxxunknown"
    static = [name for name in reader.places() if name.startswith("Static")]
    assert static == ["Static vector of B and C (bank)"]
    unknown = reader.card("A: qqzzxx")
    assert "Shift " not in unknown.text_content()
    assert "Shift " in reader.card("B: bank").text_content()
    assert unknown.get_by_text("No static vector.", exact=True).is_visible()
    # Without a vector, its static cosines are zero, so the caption ignores its pairs.
    assert reader.cosines()[0] == 0
    caption, _, note = captions(reader)
    assert caption.startswith("bank: 1.00 static")
    assert note == "A is not in the vocabulary: its static vector is zero."
    # Zero vectors have no map.
    reader.go(compare_address([("qqzzxx", "qqzzxx"), ("qqzzyy", "qqzzyy")]))
    assert not reader.figure("Map").is_visible()
    assert reader.cosines() == [0] * 8


def test_a_card_of_a_very_long_sentence_shows_the_context_of_the_word(visit: Visit) -> None:
    text = "left " * 300 + "bank" + " right" * 300
    reader = visit(compare_address([(text, "bank"), BANKS[1]]))
    quote = reader.card("A: bank").locator("blockquote").text_content()
    assert quote == f"… {'left ' * 32}bank{(' right' * 27)[:160]} …"
    assert reader.pressed(1) == [300]


def test_pasted_lines_are_sentences_and_a_second_model_is_beside_the_first(visit: Visit) -> None:
    lines = [f"The bat {verb}" for verb in ("flies", "sleeps", "hits a ball", "broke", "bites")]
    reader = visit("#compare", service="several")
    paste(reader.field("Sentence 1"), "\r\n".join(lines))
    reader.pause()
    reader.choose("Second model, beside it", "second")
    assert [text for text, _, _ in reader.kept()] == lines
    assert [reader.pressed(i) for i in range(1, 6)] == [[1]] * 5
    first, second = reader.page.locator(".models-beside figure:visible").all()
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    assert second.locator("h3").text_content().startswith("second: bat: 1.00 static, ")
    assert len(reader.cosines()) == 2 * 2 * 25
    reader.back()
    assert reader.query == {}


def test_an_edited_sentence_keeps_its_word(visit: Visit) -> None:
    reader = visit("#compare")
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


def test_a_sentence_has_its_chosen_word_or_one_that_others_have(visit: Visit) -> None:
    words = visit("#models").page.evaluate(WITH_WORDS, [rows for rows, _ in PROPOSED])
    assert words == [expected for _, expected in PROPOSED]


def test_sentences_are_added_up_to_eight_and_removed_down_to_two(visit: Visit) -> None:
    reader = visit(compare_address(EIGHT[:7]))
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


def test_a_setting_or_word_chosen_while_typing_keeps_the_sentence(visit: Visit) -> None:
    reader = visit(compare_address(BANKS))
    reader.page.locator("details.options summary").click()
    reader.field("Sentence 1").fill("My bank is open")
    reader.field("Case").select_option("lower")
    reader.field("Sentence 2").fill("Your bank is shut")
    reader.words_of(1).first.click()
    expect(reader.page).to_have_url(re.compile(r"My\+bank\+is\+open.*Your.*case=lower"))
    reader.settle()
    assert [text for text, _, _ in reader.kept()] == ["My bank is open", "Your bank is shut"]
