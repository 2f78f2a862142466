"""The view Compare: its numbers, map and cards, and invalid addresses."""

import json
from itertools import combinations
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Route, expect

from tests.page.conftest import Open
from tests.page.driver import (
    APPLE_ROWS,
    APPLES,
    BANKS,
    EIGHT,
    Reader,
    Row,
    card,
    compare_address,
    compared,
    cosines,
    kept,
    places,
    pressed,
    words_of,
)

pytestmark = pytest.mark.slow


def captions(reader: Reader) -> list[str]:
    """The headline of the cosines, and the notes."""
    return reader.texts(".models-beside > figure h3, .notes li")


def test_it_opens_with_bank_and_a_headline_in_figures(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page("#compare")
    given = compared(client, BANKS)
    texts = [reader.field(f"Sentence {i}").input_value() for i in (1, 2)]
    assert texts == [text for text, _ in BANKS]
    assert captions(reader)[0] == "bank: 1.00 static, 0.16 in context"
    both = np.ravel([given["static_similarity"], given["contextual_similarity"]])
    np.testing.assert_allclose(cosines(reader), both, atol=0.00501)
    reader.text("The cosines as tables").first.click()
    expect(reader.page.locator(".models-beside td.number").first).to_be_visible()
    tables = reader.numbers(".models-beside td.number")
    np.testing.assert_allclose(tables, both, atol=0.0000501)


def test_the_example_of_apple_is_one_word_in_two_contexts(open_page: Open) -> None:
    reader = open_page("#compare")
    reader.press("Apple")
    assert reader.query["case"] == "lower"
    assert kept(reader) == [[APPLES, "Apple", 0], [APPLES, "apple", 0]]
    assert captions(reader) == [
        "Apple: 1.00 static, 0.50 in context",
        "A and B are one word, “apple”, with one static vector: only context tells them apart.",
    ]
    assert "one word, with one static vector" in reader.texts(".example-note")[0]


def test_two_models_are_side_by_side_and_a_model_stays_chosen(
    open_page: Open, several: httpx.Client
) -> None:
    reader = open_page(compare_address(BANKS), service=several)
    assert reader.page.locator(".models-beside figure:visible").count() == 1
    reader.choose("Second model, beside it", "second")
    figures = reader.page.locator(".models-beside figure")
    headings = figures.locator("h3").all_text_contents()
    assert headings == [
        f"{model}: bank: 1.00 static, 0.16 in context" for model in ("wiki-en", "second")
    ]
    first, second = (figures.nth(i).bounding_box() for i in (0, 1))
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]
    reader.choose("Model", "second")
    for title in ("Neighbors", "Attention", "Senses"):
        reader.open_view(title)
        reader.settle()
        assert reader.query["model"] == "second"
    reader.choose("Model", "")
    reader.open_view("Compare")
    reader.settle()
    assert "model" not in reader.query


def test_each_example_is_compared_and_adds_a_history_entry(open_page: Open) -> None:
    reader = open_page("#compare")
    examples = reader.examples()
    for button in examples.all():
        button.click()
        reader.settle()
        assert not reader.problem.is_visible()
        assert button.get_attribute("aria-pressed") == "true"
        # The address of the first example has no occurrences.
        count = len(kept(reader)) if reader.query else 2
        assert [len(pressed(reader, i + 1)) for i in range(count)] == [1] * count
        assert reader.page.get_by_role("article").count() == count
    reader.back()
    assert examples.nth(examples.count() - 2).get_attribute("aria-pressed") == "true"


def test_the_caption_and_the_notes_say_how_context_changes_the_pairs(
    visit: Open, client: httpx.Client
) -> None:
    one = "are one word, “bank”, with one static vector:"
    cosine = compared(client, BANKS)["contextual_similarity"][0][1]
    river = "The river and the stream and the lake"
    nearer: list[Row] = [(river, "river"), (river, "stream"), (river, "lake")]
    given = compared(client, nearer)
    before, after = given["static_similarity"], given["contextual_similarity"]
    gains = {(i, j): after[i][j] - before[i][j] for i, j in combinations(range(3), 2)}
    assert min(gains.values()) > 0.01
    i, j = max(gains, key=gains.__getitem__)
    names = [word for _, word in nearer]
    nearest = (
        f"{names[i]} and {names[j]}: {before[i][j]:.2f} static, {after[i][j]:.2f} in context"
        f" (the pair {'ABC'[i]} and {'ABC'[j]}, which context changes most)"
    )
    reader = visit("#compare")
    for rows, *expected in [
        (nearer, nearest),
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
        (
            [BANKS[0]] * 2,
            "bank: 1.00 static, 1.00 in context",
            f"A and B {one} here, context does not tell them apart either.",
        ),
    ]:
        reader.go(compare_address(rows))
        assert captions(reader) == expected, rows
    reader.go(compare_address([("The Bank lent money.", "Bank", 0), *BANKS]))
    different = captions(reader)[-1]
    assert different.startswith("A (“Bank”) and B and C (“bank”) are different words")
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


def test_the_map_has_the_services_positions_on_one_scale(visit: Open, client: httpx.Client) -> None:
    reader = visit(compare_address(EIGHT))
    answer = compared(client, EIGHT)["map"]
    given = {one["word"]: one["position"] for one in answer["neighbors"]}
    given |= {f"#{'ABCDEFGH'[i]}": place for i, place in enumerate(answer["contextual"])}
    drawn = {}
    for name, place in places(reader).items():
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


def test_equal_vectors_are_one_mark_with_both_letters(visit: Open) -> None:
    reader = visit(compare_address(BANKS))
    names = sorted(name for name in places(reader) if " vector of " in name.split(":")[0])
    static = "Static vector of A and B (bank)"
    assert names == ["Contextual vector of A (bank)", "Contextual vector of B (bank)", static]
    assert reader.texts(".flat-map .static.point text") == ["A and B: bank"]
    assert reader.page.locator(".flat-map .arrow").count() == 2
    reader.go(compare_address([BANKS[0]] * 2))
    names = sorted(name for name in places(reader) if " vector of " in name.split(":")[0])
    assert names == ["Contextual vector of A and B (bank)", static]
    assert cosines(reader) == [1] * 8


BOXES = "(all) => all.map((one) => one.getBoundingClientRect().toJSON())"


@pytest.mark.parametrize("width", [320, 1200])
def test_labels_of_the_map_overlap_neither_each_other_nor_the_edge(visit: Open, width: int) -> None:
    reader = visit("#compare", width=width)
    for rows in (BANKS, EIGHT):
        reader.go(compare_address(rows))
        labels = reader.page.locator(".flat-map .point > text:not(.unplaced):not(.letter)")
        boxes = [box for box in labels.evaluate_all(BOXES) if box["width"]]
        frame = reader.page.locator("svg.flat-map").bounding_box()
        assert len(boxes) > len(rows)
        for box in boxes:
            assert frame["x"] - 1 <= box["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
        for a, b in combinations(boxes, 2):
            beside = a["x"] + a["width"] <= b["x"] + 1 or b["x"] + b["width"] <= a["x"] + 1
            # A line box is taller than its letters.
            above = abs(a["y"] - b["y"]) >= 13
            assert beside or above, (rows, a, b)
    # The map is drawn for another width, not scaled.
    before = reader.page.locator("svg.flat-map").get_attribute("viewBox")
    reader.resize(700)
    assert reader.page.locator("svg.flat-map").get_attribute("viewBox") != before


def test_contextual_vectors_are_drawn_on_top(visit: Open) -> None:
    reader = visit(compare_address(EIGHT))
    kinds = reader.page.locator(".flat-map .point").evaluate_all(
        "(all) => all.map((one) => one.classList[1])"
    )
    # Of the eight occurrences, two pairs share a static vector and one has none.
    assert kinds[-13:] == ["static"] * 5 + ["contextual"] * 8
    assert not {"static", "contextual"} & set(kinds[:-13])


CROWDED = """async () => {
  const { mapDrawing } = await import("/page/compare/map.js");
  const point = (kind, label, position) => ({ kind, label, position, name: label, owners: [0] });
  const beside = [[0.27, 0], [-0.27, 0], [0, 0.27], [0, -0.27], [1, 1], [-1, -1]];
  const words = beside.map((position) => point("after", "word", position));
  const points = [point("contextual", "bank", [0, 0]), ...words];
  const map = mapDrawing(points, { width: 200, words: ["bank"], onpoint() {}, onpick() {} });
  return map.querySelector(".contextual > text:not(.letter)").classList.contains("unplaced");
}"""


def test_a_label_has_a_diagonal_place_or_appears_at_its_point(visit: Open) -> None:
    reader = visit(compare_address(EIGHT))
    assert reader.page.evaluate(CROWDED) is False
    unplaced = reader.page.locator(".flat-map .unplaced").first
    assert not unplaced.is_visible()
    reader.page.locator(".flat-map .point:has(.unplaced)").first.focus()
    assert unplaced.is_visible()


def test_a_point_has_a_name_for_pointer_and_keyboard_and_opens_neighbors(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))
    name = reader.page.locator("output.pointed")
    reader.page.locator(".flat-map .static.point").hover()
    expect(name).to_have_text("Static vector of A and B (bank)")
    by_x = [key for key, _ in sorted(places(reader).items(), key=lambda item: item[1][0])]
    reader.page.locator(".flat-map [tabindex='0']").focus()
    expect(name).to_have_text(by_x[0])
    reader.page.keyboard.press("ArrowRight")
    expect(name).to_have_text(by_x[1])
    reader.keys("End")
    expect(name).to_have_text(by_x[-1])
    reader.page.locator(".flat-map .point[aria-label^='tributaries:']").press("Enter")
    reader.heading("Nearest to tributaries").wait_for()
    assert reader.address == "#neighbors?word=tributaries"


def test_a_card_has_the_services_neighbors_shift_and_attention(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit(compare_address(BANKS, k="5"))
    given = compared(client, BANKS, neighbors=5)["occurrences"][1]
    shown = card(reader, "B: bank")
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
    assert shown.locator("mark").text_content() == "bank"
    reader.go(compare_address(BANKS, k="0"))
    assert card(reader, "A: bank").get_by_text("None requested.").count() == 2
    assert reader.sent()["neighbors"] == 0


def test_cards_have_names_and_links_large_enough_to_touch(visit: Open) -> None:
    reader = visit(compare_address(APPLE_ROWS), width=390)
    heading = card(reader, "A: Apple").get_by_role("heading", level=3)
    assert heading.text_content() == "A: Apple"
    boxes = [one.bounding_box() for one in reader.page.locator(".near a").all()]
    assert len(boxes) == 32
    assert min(min(box["height"], box["width"]) for box in boxes) >= 24


def test_an_occurrence_opens_its_attention(open_page: Open) -> None:
    text = "😀 don't bank on the bank"
    reader = open_page(compare_address([(text, "bank", 1), ("Money bank", "bank")]))
    shown = card(reader, "A: bank")
    assert shown.locator("blockquote").text_content() == text
    assert shown.locator("mark").text_content() == "bank"
    before = shown.locator("mark").evaluate("(mark) => mark.previousSibling.textContent")
    assert before == "😀 don't bank on the "
    shown.get_by_role("link", name="Open in Attention").click()
    # The tokens are 😀 do n't bank on the bank.
    expect(reader.page.locator(".attention .word").nth(6)).to_have_attribute("aria-pressed", "true")


def test_another_word_is_chosen_by_mouse_and_by_keyboard(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(compare_address(BANKS))
    words_of(reader, 1).filter(has_text="River").click()
    reader.settle()
    assert kept(reader)[0] == ["River bank flows", "River", 0]
    words_of(reader, 2).filter(has_text="Money").focus()
    reader.keys("Enter")
    assert pressed(reader, 2) == [0]
    expect(words_of(reader, 2).first).to_be_focused()
    given = compared(client, [("River bank flows", "River"), ("Money bank grows", "Money")])
    assert cosines(reader)[5] == pytest.approx(given["contextual_similarity"][0][1], abs=0.00501)


def test_the_second_of_two_equal_words_is_another_occurrence(
    open_page: Open, client: httpx.Client
) -> None:
    text = "The bank stands on the bank of the river"
    reader = open_page(compare_address([(text, "bank"), (text, "bank")]))
    assert cosines(reader)[5] == 1
    words_of(reader, 2).filter(has_text="bank").nth(1).click()
    reader.settle()
    assert kept(reader)[1] == [text, "bank", 1]
    assert (pressed(reader, 1), pressed(reader, 2)) == ([1], [5])
    given = compared(client, [(text, "bank", 0), (text, "bank", 1)])
    assert cosines(reader)[5] == pytest.approx(given["contextual_similarity"][0][1], abs=0.00501)


@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        ({"Number of neighbors": "3", "Case": "lower"}, {"neighbors": 3, "case": "lower"}),
        ({"Factor of the static vector": "4"}, {"share": 4}),
    ],
)
def test_a_setting_is_sent_and_kept_in_the_address(
    open_page: Open, client: httpx.Client, tmp_path: Path, chosen: dict, sent: dict
) -> None:
    reader = open_page(compare_address(APPLE_ROWS))
    assert reader.field("Factor of the static vector").input_value() == ""
    for label, value in chosen.items():
        reader.choose(label, value)
    given = compared(client, APPLE_ROWS, **sent)
    assert given["contextual_similarity"] != compared(client, APPLE_ROWS)["contextual_similarity"]
    assert reader.saved_json(tmp_path) == given
    reader.reload()
    assert {label: reader.field(label).input_value() for label in chosen} == chosen
    assert reader.saved_json(tmp_path) == given


INVALID: list[object] = [
    "", "[", "null", "7", '"text"', "{}", "[]", "[[], []]",
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
]  # fmt: skip


def test_an_address_with_invalid_occurrences_shows_the_first_example(visit: Open) -> None:
    reader = visit(compare_address("["))
    assert reader.field("Sentence 1").input_value() == "River bank flows"
    assert reader.text("The address does not contain valid occurrences").is_visible()
    reader.press("plant")
    assert kept(reader)[0] == ["The power plant makes electricity", "plant", 0]
    assert not reader.text("The address does not contain").is_visible()
    texts = [one if isinstance(one, str) else json.dumps(one) for one in INVALID]
    parse = "(await import('/page/compare/occurrences.js')).parseOccurrences"
    assert reader.page.evaluate(f"async (all) => all.map({parse})", texts) == [None] * len(texts)


MISSING: list[tuple[Row, int]] = [
    (("River bank", "mountain"), 1),
    (("River bank", "rivers"), 0),
    (("River bank", "bank", 1), 1),
    (("River bank", "bank", 2**53 - 1), 1),
    (("River bank", ""), 1),
]


def test_another_word_is_compared_instead_of_an_absent_one(visit: Open) -> None:
    reader = visit(compare_address(BANKS))
    for row, word in MISSING:
        reader.go(compare_address([row, BANKS[1]]))
        assert pressed(reader, 1) == [word], row
        assert not reader.problem.is_visible(), row
        assert len(cosines(reader)) == 8, row


def test_an_unreachable_service_is_reported_and_recovers(open_page: Open) -> None:
    reader = open_page(compare_address(BANKS))

    def abort(route: Route) -> None:
        route.abort()

    reader.page.route("**/v1/*", abort)
    reader.field("Sentence 1").fill("River bank rises")
    expect(reader.problem).to_contain_text("The service did not respond.")
    reader.page.unroute("**/v1/*", abort)
    reader.field("Sentence 1").press("Enter")
    with reader.page.expect_response("**/v1/compare"):
        reader.choose("Number of neighbors", "5")
    assert not reader.problem.is_visible()
    assert pressed(reader, 1) == [1]


def test_an_unknown_word_has_no_static_mark_and_no_shift(visit: Open) -> None:
    rows: list[Row] = [("River qqzzxx", "qqzzxx"), BANKS[0], BANKS[1]]
    reader = visit(compare_address(rows))
    assert words_of(reader, 1).nth(1).text_content() == "qqzzxxunknown"
    static = [name for name in places(reader) if name.startswith("Static")]
    assert static == ["Static vector of B and C (bank)"]
    assert "Contextual vector of A (qqzzxx)" in places(reader)
    unknown = card(reader, "A: qqzzxx")
    assert "Shift " not in unknown.text_content()
    assert "Shift " in card(reader, "B: bank").text_content()
    assert unknown.get_by_text("This word has no static vector. Its contextual vector").is_visible()
    assert unknown.get_by_text("No static vector.", exact=True).is_visible()
    # Without a vector, its static cosines are zero, so the caption ignores its pairs.
    assert cosines(reader)[0] == 0
    caption, _, note = captions(reader)
    assert caption.startswith("bank: 1.00 static")
    assert note == "A is not in the vocabulary: its static vector is zero."
    reader.go(compare_address([*rows[:2], rows[1]]))
    assert captions(reader)[0].endswith("no pair changes")
    # Zero vectors have no map.
    reader.go(compare_address([("qqzzxx", "qqzzxx"), ("qqzzyy", "qqzzyy")]))
    assert not reader.figure("Map").is_visible()
    assert cosines(reader) == [0] * 8


def test_a_right_to_left_sentence_keeps_its_direction(open_page: Open) -> None:
    reader = open_page(compare_address([("שלום עולם bank", "bank"), BANKS[1]]))
    assert pressed(reader, 1) == [2]
    boxes = [word.bounding_box()["x"] for word in words_of(reader, 1).all()]
    assert boxes[0] > boxes[1]
    quote = card(reader, "A: bank").locator("blockquote")
    for element in (reader.field("Sentence 1"), quote):
        assert element.evaluate("(one) => getComputedStyle(one).direction") == "rtl"


def test_a_card_of_a_very_long_sentence_shows_the_context_of_the_word(visit: Open) -> None:
    text = "left " * 300 + "bank" + " right" * 300
    reader = visit(compare_address([(text, "bank"), BANKS[1]]))
    quote = card(reader, "A: bank").locator("blockquote").text_content()
    assert quote == f"… {'left ' * 32}bank{(' right' * 27)[:160]} …"
    assert pressed(reader, 1) == [300]
