"""The view Compare: its numbers, map and cards, invalid addresses; accessibility."""

import json
import re
from itertools import combinations
from pathlib import Path

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Route, expect

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
    places,
    pressed,
    sentence,
    tables,
    words,
)
from tests.page.conftest import Open

pytestmark = pytest.mark.slow


def test_it_opens_with_an_example_and_the_services_numbers(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit("#compare")
    answer = asked(client, APPLES)
    assert [sentence(reader, i).input_value() for i in (1, 2)] == [text for text, _ in APPLES]
    both = np.concatenate([answer["static_similarity"], answer["contextual_similarity"]])
    assert cosines(reader) == pytest.approx(both.ravel().tolist(), abs=0.00501)
    assert tables(reader) == pytest.approx(both.ravel().tolist(), abs=0.0000501)


def test_each_example_is_compared_and_adds_a_history_entry(open_page: Open) -> None:
    reader = open_page("#compare")
    examples = reader.page.get_by_role("group", name="Examples").get_by_role("button")
    for button in examples.all():
        button.click()
        reader.settle()
        assert not reader.problem.is_visible()
        assert button.get_attribute("aria-pressed") == "true"
        # The address of the first example has no occurrences.
        count = len(kept(reader)) if "?" in reader.address else 2
        assert [len(pressed(reader, i + 1)) for i in range(count)] == [1] * count
        assert reader.page.get_by_role("article").count() == count
    reader.page.go_back()
    reader.settle()
    assert examples.nth(examples.count() - 2).get_attribute("aria-pressed") == "true"


def test_context_separates_occurrences_of_one_static_vector(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit("#compare")
    example(reader, "bank / bank")
    answer = asked(client, BANKS)
    cosine = answer["contextual_similarity"][0][1]
    figure = reader.page.get_by_role("figure", name="Similarity")
    expect(figure.locator("figcaption")).to_have_text(
        f"Cosine of A and B: 1.00 static, {cosine:.2f} in context."
    )
    expect(reader.page.locator(".notes li")).to_have_text(
        "A and B share one vocabulary key, so their static vectors are equal and only context"
        " tells them apart."
    )


def test_notes_name_equal_static_vectors_and_unknown_words(visit: Open) -> None:
    reader = visit(address(EIGHT))
    notes = reader.page.locator(".notes li").all_text_contents()
    assert [note.split(" share")[0] for note in notes[:2]] == ["C and D", "E and F"]
    assert notes[2:] == ["H is not in the vocabulary; its static vector is zero."]


def test_the_map_has_the_services_positions_on_one_scale(visit: Open, client: httpx.Client) -> None:
    reader = visit(address(EIGHT))
    answer = asked(client, EIGHT)["map"]
    drawn = places(reader)
    near = {name.split(": near")[0]: at for name, at in drawn.items() if ": near" in name}
    assert near.keys() == {one["word"] for one in answer["neighbors"]}
    given = {one["word"]: one["position"] for one in answer["neighbors"]}
    contextual = {
        name.split(" of ")[1][0]: at for name, at in drawn.items() if name.startswith("Contextual")
    }
    given |= {f"#{'ABCDEFGH'[i]}": at for i, at in enumerate(answer["contextual"])}
    near |= {f"#{letter}": at for letter, at in contextual.items()}
    names = sorted(near)
    # The y axis of SVG points down.
    expected = np.array([given[name] for name in names]) * [1, -1]
    found = np.array([near[name] for name in names])
    expected, found = expected - expected[0], found - found[0]
    scale = np.abs(found).sum() / np.abs(expected).sum()
    np.testing.assert_allclose(found, expected * scale, atol=0.02)


def test_equal_static_vectors_are_one_mark_with_both_letters(visit: Open) -> None:
    reader = visit(address(BANKS))
    static = [name for name in places(reader) if name.startswith("Static")]
    assert static == ["Static vector of A and B (bank)"]
    label = reader.page.locator(".flat-map .static.point text").text_content()
    assert label == "A and B: bank"
    assert reader.page.locator(".flat-map .arrow").count() == 2
    contextual = sorted(name for name in places(reader) if name.startswith("Contextual"))
    assert contextual == ["Contextual vector of A (bank)", "Contextual vector of B (bank)"]


@pytest.mark.parametrize("width", [320, 1200])
def test_labels_of_the_map_overlap_neither_each_other_nor_the_edge(visit: Open, width: int) -> None:
    reader = visit("#compare", width=width)
    for rows in (BANKS, EIGHT):
        reader.go(address(rows))
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


BOXES = "(all) => all.map((one) => one.getBoundingClientRect().toJSON())"


def test_contextual_vectors_are_drawn_on_top(visit: Open) -> None:
    reader = visit(address(EIGHT))
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


def test_a_mark_between_others_has_a_diagonal_label(visit: Open) -> None:
    assert visit("#compare").page.evaluate(CROWDED) is False


def test_a_point_has_a_name_for_pointer_and_keyboard(visit: Open) -> None:
    reader = visit(address(BANKS))
    name = reader.page.locator("output.pointed")
    reader.page.locator(".flat-map .static.point").hover()
    expect(name).to_have_text("Static vector of A and B (bank)")
    by_x = [key for key, _ in sorted(places(reader).items(), key=lambda item: item[1][0])]
    reader.page.locator(".flat-map [tabindex='0']").focus()
    expect(name).to_have_text(by_x[0])
    reader.page.keyboard.press("ArrowRight")
    expect(name).to_have_text(by_x[1])
    reader.page.keyboard.press("ArrowLeft")
    reader.page.keyboard.press("ArrowLeft")
    expect(name).to_have_text(by_x[-1])


def test_a_word_of_the_map_opens_its_neighbors(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    reader.page.locator(".flat-map .point[aria-label^='tributaries:']").focus()
    reader.page.keyboard.press("Enter")
    reader.page.get_by_role("heading", name="Nearest to tributaries").wait_for()
    assert reader.address == "#neighbors?word=tributaries"


def test_a_card_has_the_services_neighbors_shift_and_attention(
    visit: Open, client: httpx.Client
) -> None:
    reader = visit(address(BANKS, k="5"))
    one = asked(client, BANKS, neighbors=5)["occurrences"][1]
    shown = card(reader, "B: bank")
    lists = shown.get_by_role("list")
    for at, near in enumerate([one["static_neighbors"], one["contextual_neighbors"]]):
        links = lists.nth(at).get_by_role("link")
        assert links.all_text_contents() == [each["word"] for each in near]
        numbers = lists.nth(at).locator(".number").all_text_contents()
        assert [float(n) for n in numbers] == [round(each["similarity"], 2) for each in near]
    first, second = ({n["word"] for n in one[f"{s}_neighbors"]} for s in ("static", "contextual"))
    assert first & second
    assert shown.get_by_text("in both").count() == 2 * len(first & second)
    assert shown.locator("strong").text_content() == f"{one['shift']:.2f}"
    attended = lists.nth(2).locator(".near-word").all_text_contents()
    assert attended == [each["text"] for each in one["attends_to"]]
    assert shown.locator("mark").text_content() == "bank"


def test_an_occurrence_opens_its_attention(open_page: Open) -> None:
    reader = open_page(address([("😀 don't bank on the bank", "bank", 1), ("Money bank", "bank")]))
    shown = card(reader, "A: bank")
    assert shown.locator("blockquote").text_content() == "😀 don't bank on the bank"
    assert shown.locator("mark").text_content() == "bank"
    before = shown.locator("mark").evaluate("mark => mark.previousSibling.textContent")
    assert before == "😀 don't bank on the "
    shown.get_by_role("link", name="Open in Attention").click()
    # The tokens are 😀 do n't bank on the bank.
    expect(reader.page).to_have_url(re.compile(r"#attention\?.*\bword=6\b"))


def test_another_word_is_chosen_by_mouse_and_by_keyboard(
    open_page: Open, client: httpx.Client
) -> None:
    reader = open_page(address(BANKS))
    words(reader, 1).filter(has_text="River").click()
    reader.settle()
    rows = [("River bank flows", "River"), BANKS[1]]
    assert kept(reader)[0] == ["River bank flows", "River", 0]
    words(reader, 2).filter(has_text="Money").focus()
    reader.page.keyboard.press("Enter")
    reader.settle()
    rows[1] = ("Money bank grows", "Money")
    assert pressed(reader, 2) == [0]
    expect(words(reader, 2).first).to_be_focused()
    given = asked(client, rows)["contextual_similarity"][0][1]
    assert cosines(reader)[5] == pytest.approx(given, abs=0.00501)


def test_the_second_of_two_equal_words_is_another_occurrence(
    open_page: Open, client: httpx.Client
) -> None:
    text = "The bank stands on the bank of the river"
    reader = open_page(address([(text, "bank"), (text, "bank")]))
    assert cosines(reader)[5] == 1
    words(reader, 2).filter(has_text="bank").nth(1).click()
    reader.settle()
    assert kept(reader)[1] == [text, "bank", 1]
    assert (pressed(reader, 1), pressed(reader, 2)) == ([1], [5])
    given = asked(client, [(text, "bank", 0), (text, "bank", 1)])
    assert cosines(reader)[5] == pytest.approx(given["contextual_similarity"][0][1], abs=0.00501)


def test_the_request_has_the_number_of_neighbors_and_the_case(
    visit: Open, client: httpx.Client, tmp_path: Path
) -> None:
    reader = visit(address(APPLES))
    reader.page.get_by_label("Number of neighbors").select_option("3")
    reader.page.get_by_label("Case").select_option("lower")
    reader.settle()
    given = asked(client, APPLES, neighbors=3, case="lower")
    assert reader.saved_json(tmp_path) == given
    assert cosines(reader)[1] == 1
    assert card(reader, "A: Apple").get_by_role("list").first.get_by_role("link").count() == 3


def test_a_share_moves_the_occurrences_together_and_is_kept_in_the_address(
    open_page: Open, client: httpx.Client, tmp_path: Path
) -> None:
    reader = open_page(address(APPLES))
    share = reader.page.get_by_label("Share of the static vector")
    assert share.input_value() == ""
    share.select_option("4")
    reader.settle()
    given = asked(client, APPLES, neighbors=8, share=4)
    assert reader.saved_json(tmp_path) == given
    assert "share=4" in reader.page.url
    assert (
        given["contextual_similarity"][0][1] > asked(client, APPLES)["contextual_similarity"][0][1]
    )
    reader.page.reload()
    reader.settle()
    assert share.input_value() == "4"


INVALID: list[object] = [
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


def test_an_address_with_invalid_occurrences_shows_the_first_example(visit: Open) -> None:
    reader = visit(address("["))
    assert sentence(reader, 1).input_value() == "Apple launched a new phone"
    assert reader.page.get_by_text("The address does not contain valid occurrences").is_visible()
    example(reader, "bank / bank")
    assert kept(reader) == [["River bank flows", "bank", 0], ["Money bank grows", "bank", 0]]
    assert not reader.page.get_by_text("The address does not contain").is_visible()
    texts = [one if isinstance(one, str) else json.dumps(one) for one in INVALID]
    parse = "(await import('/page/compare/occurrences.js')).parseOccurrences"
    assert reader.page.evaluate(f"async (all) => all.map({parse})", texts) == [None] * len(texts)


MISSING: list[tuple[Row, str]] = [
    (("River bank", "mountain"), "the text does not contain this word as a token"),
    (("River bank", "bank", 1), "must be less than 1, the number of occurrences"),
    (("River bank", "bank", 2**53 - 1), "must be less than 1, the number of occurrences"),
    (("River bank", ""), "must not be empty"),
]


def test_an_absent_word_is_an_error_and_can_be_corrected(open_page: Open) -> None:
    reader = open_page(address(BANKS))
    for row, message in MISSING:
        assert not reader.problem.is_visible()
        reader.go(address([row, BANKS[1]]))
        assert message in reader.problem.text_content(), row
        assert pressed(reader, 1) == [], row
        notes = reader.page.get_by_text("The word to compare is not in this sentence")
        assert [note.is_visible() for note in notes.all()] == [True, False], row
        words(reader, 1).filter(has_text="bank").click()
        reader.settle()
        assert not reader.problem.is_visible(), row
        assert pressed(reader, 1) == [1], row
        assert len(cosines(reader)) == 8, row


def test_an_unknown_model_shows_the_services_error(visit: Open) -> None:
    reader = visit(address(BANKS, model="nobody"))
    expect(reader.problem).to_contain_text("model")
    assert not reader.page.get_by_role("figure").first.is_visible()


def test_an_unreachable_service_is_reported_and_recovers(open_page: Open) -> None:
    reader = open_page(address(BANKS))

    def abort(route: Route) -> None:
        route.abort()

    reader.page.route("**/v1/*", abort)
    sentence(reader, 1).fill("River bank rises")
    expect(reader.problem).to_contain_text("The service did not respond.")
    reader.page.unroute("**/v1/*", abort)
    sentence(reader, 1).press("Enter")
    with reader.page.expect_response("**/v1/compare"):
        reader.page.get_by_label("Number of neighbors").select_option("5")
    reader.settle()
    assert not reader.problem.is_visible()
    assert pressed(reader, 1) == [1]


def test_unknown_words_have_no_static_mark(visit: Open, client: httpx.Client) -> None:
    rows: list[Row] = [("River qqzzxx", "qqzzxx"), ("River bank", "bank")]
    reader = visit(address(rows))
    assert words(reader, 1).nth(1).text_content() == "qqzzxxnot in the vocabulary"
    assert [name for name in places(reader) if name.startswith("Static")] == [
        "Static vector of B (bank)"
    ]
    assert "Contextual vector of A (qqzzxx)" in places(reader)
    assert card(reader, "A: qqzzxx").get_by_text("No static vector.", exact=True).is_visible()
    assert reader.page.locator(".notes li").all_text_contents() == [
        "A is not in the vocabulary; its static vector is zero."
    ]
    assert cosines(reader)[0] == asked(client, rows)["static_similarity"][0][0] == 0


def test_zero_vectors_have_no_map(visit: Open) -> None:
    reader = visit(address([("qqzzxx", "qqzzxx"), ("qqzzyy", "qqzzyy")]))
    assert not reader.page.get_by_role("figure", name="Map").is_visible()
    assert cosines(reader) == [0] * 8


def test_the_same_occurrence_twice_is_one_point_of_both(visit: Open) -> None:
    reader = visit(address([BANKS[0]] * 2))
    occurrences = [name for name in places(reader) if name.startswith(("Static", "Contextual"))]
    assert occurrences == [
        "Static vector of A and B (bank)",
        "Contextual vector of A and B (bank)",
    ]
    assert cosines(reader) == [1] * 8


def test_a_right_to_left_sentence_keeps_its_direction(open_page: Open) -> None:
    reader = open_page(address([("שלום עולם bank", "bank"), BANKS[1]]))
    assert pressed(reader, 1) == [2]
    boxes = [word.bounding_box()["x"] for word in words(reader, 1).all()]
    assert boxes[0] > boxes[1]
    assert sentence(reader, 1).evaluate("field => getComputedStyle(field).direction") == "rtl"
    quote = card(reader, "A: bank").locator("blockquote")
    assert quote.evaluate("quote => getComputedStyle(quote).direction") == "rtl"


def test_markup_in_a_sentence_stays_text(visit: Open) -> None:
    text = "<img src=x onerror=alert(1)> <b>bank</b> & 'more' \"quotes\""
    reader = visit(address([(text, "bank"), BANKS[1]]))
    assert card(reader, "A: bank").locator("blockquote").text_content() == text
    assert reader.page.locator("main img, main b").count() == 0


def test_a_very_long_word_is_shown_within_the_page(visit: Open) -> None:
    long = "x" * 400
    reader = visit(address([(f"River {long}", long), BANKS[1]]), width=320)
    assert card(reader, f"A: {long}").is_visible()
    assert not reader.scrolls_sideways()


def test_a_card_of_a_very_long_sentence_shows_the_context_of_the_word(
    open_page: Open, axe: Axe
) -> None:
    text = "left " * 300 + "bank" + " right" * 300
    reader = open_page(address([(text, "bank"), BANKS[1]], k="7"), width=360)
    quote = card(reader, "A: bank").locator("blockquote").text_content()
    assert quote == f"… {'left ' * 32}bank{(' right' * 27)[:160]} …"
    assert pressed(reader, 1) == [300]
    assert reader.page.get_by_label("Number of neighbors").input_value() == "7"
    assert reader.violations(axe) == []


def test_the_shown_results_can_be_saved(visit: Open, tmp_path: Path) -> None:
    rows: list[Row] = [("It's the bank's \"own\" $HOME bank", "bank", 1), BANKS[1]]
    reader = visit(address(rows, k="3"))
    saved = reader.saved_json(tmp_path)
    assert saved == reader.run_command()
    assert saved["occurrences"][0]["token"]["start"] == len(rows[0][0]) - 4
    sent = reader.sent()
    assert sent["occurrences"][1] == {"text": "Money bank grows", "word": "bank"}
    assert set(sent) == {"occurrences", "neighbors", "map"}


def test_each_figure_can_be_saved(visit: Open, tmp_path: Path) -> None:
    reader = visit(address(APPLES))
    for figure, label in [
        ("Similarity", ">In context</text>"),
        ("Map", ">A: Apple</text>"),
    ]:
        place = reader.page.get_by_role("figure", name=figure)
        saved = reader.saved(place.get_by_role("button", name="Save SVG"), tmp_path)
        svg = saved.read_text("utf-8")
        assert svg.startswith("<?xml")
        assert label in svg
        assert "class=" not in svg
        png = reader.saved(place.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
        assert png.startswith(b"\x89PNG")


def test_a_hidden_label_appears_at_its_point_and_is_not_saved(
    open_page: Open, tmp_path: Path
) -> None:
    reader = open_page(address(EIGHT))
    unplaced = reader.page.locator(".flat-map .unplaced")
    point = reader.page.locator(".flat-map .point:has(.unplaced)").first
    assert not unplaced.first.is_visible()
    point.focus()
    assert unplaced.first.is_visible()
    point.blur()
    place = reader.page.get_by_role("figure", name="Map")
    svg = reader.saved(place.get_by_role("button", name="Save SVG"), tmp_path).read_text("utf-8")
    saved = re.findall(">([^<]+)</text>", svg)
    shown = reader.page.locator("svg.flat-map text:not(.unplaced)").all_text_contents()
    assert saved == shown


@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (1200, "light")])
def test_it_is_accessible_and_fits(open_page: Open, axe: Axe, width: int, theme: str) -> None:
    reader = open_page("#compare", width=width, theme=theme)
    reader.page.get_by_text("The cosines as tables").click()
    reader.go(address(EIGHT))
    words(reader, 8).first.wait_for()
    expect(reader.page.locator("table.cosines").first).to_be_visible()
    assert reader.violations(axe) == []
    assert not reader.scrolls_sideways()


def test_it_fits_every_width(visit: Open) -> None:
    reader = visit(address(EIGHT), width=500)
    drawn = set()
    for width in (320, 700, 1000, 1600):
        reader.resize(width)
        drawn.add(reader.page.locator("svg.flat-map").get_attribute("viewBox"))
        assert not reader.scrolls_sideways(), width
        svgs = reader.page.locator("figure svg")
        rights = svgs.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().right)")
        assert len(rights) > 1
        assert max(rights) <= width
    # The map is drawn for each width; the first drawing is not scaled.
    assert len(drawn) == 4
