"""What the views have in common: they open, fit, are accessible, report errors and save results."""

import re
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.driver import (
    APPLE_ROWS,
    APPLE_VIEW,
    APPLE_WORDS,
    BANKS,
    EIGHT,
    LONG_TEXT,
    LONG_WORD,
    PLAIN,
    SMALL,
    VIEWS,
    address,
    colors_of,
    compare_address,
    sentence_address,
    steps_address,
)

slow = pytest.mark.slow


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_opens_and_shows_its_result(open_page: Open, view: str) -> None:
    title, result = VIEWS[view]
    reader = open_page(f"#{view}")
    assert reader.page.title() == f"{title} · Polyseme"
    assert reader.page.get_by_role("heading", level=2).text_content() == title
    assert not reader.problem.is_visible()
    assert reader.page.locator(result).first.is_visible()


STATES: dict[str, Sequence[str]] = {
    "attention": [
        "#attention",
        "#attention?picture=lines",
        "#attention?picture=lines&head=2&word=4",
        address("attention", text=LONG_TEXT),
        address("attention", text=f"river {LONG_WORD}", picture="lines"),
        address("attention", text=""),
        address("attention", text="river qqzx Zebra"),
    ],
    "compare": [
        compare_address(EIGHT),
        compare_address([("left " * 300 + "bank" + " right" * 300, "bank"), BANKS[1]]),
        compare_address([(f"River {LONG_WORD * 4}", LONG_WORD * 4), BANKS[1]]),
    ],
    "senses": ["#senses?senses=4&point=2"],
    "steps": [
        steps_address(example=3, cell="weights:1:0"),
        steps_address(example=5, cell="weights:5:3"),
        sentence_address("the bank of the river", cell="weights:1:2"),
        steps_address(SMALL, cell="output:0:0"),
        steps_address({**SMALL, "heads": 3}),
        steps_address({**PLAIN, "tokens": [LONG_WORD, "b"]}),
    ],
    "neighbors": ["#neighbors", "#neighbors?word=qqzzxx"],
    "models": ["#models"],
}
OPEN_DETAILS = """document.querySelectorAll("details")
  .forEach((details) => { details.open = true; })"""


@slow
@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (1600, "light")])
@pytest.mark.parametrize("view", STATES)
def test_a_view_is_accessible_and_fits(
    open_page: Open,
    axe: Axe,
    client: httpx.Client,
    several: httpx.Client,
    view: str,
    width: int,
    theme: str,
) -> None:
    service = several if view == "models" else client
    reader = open_page(f"#{view}", service=service, width=width, theme=theme)
    for fragment in STATES[view]:
        reader.go(fragment)
        reader.page.evaluate(OPEN_DETAILS)
        reader.settle()
        assert reader.violations(axe) == [], fragment
        assert not reader.scrolls_sideways(), fragment


@slow
def test_a_view_fits_a_window_of_any_width(visit: Open) -> None:
    reader = visit("#models")
    for fragment in [fragments[0] for fragments in STATES.values()]:
        reader.go(fragment)
        for width in (390, 700, 1000):
            reader.resize(width)
            assert not reader.scrolls_sideways(), (fragment, width)
            rights = reader.page.locator("figure svg").evaluate_all(
                "(all) => all.map((one) => one.getBoundingClientRect().right)"
            )
            assert max(rights, default=0) <= width, (fragment, width)


@slow
@pytest.mark.parametrize(
    "fragment",
    [
        address("attention", text="It's the bank's \"river\" — $HOME `x`"),
        compare_address([("It's the bank's \"own\" $HOME bank", "bank", 1), BANKS[1]], k="3"),
        address("senses", text='The bank, "left"\nA `bank` $HERE', word="bank"),
        sentence_address("the l'amour bank", case="lower"),
        address("neighbors", word="o'clock", case="lower", k=5),
        "#models",
    ],
)
def test_the_saved_response_is_that_of_the_shown_command(
    visit: Open, tmp_path: Path, fragment: str
) -> None:
    reader = visit(fragment)
    assert reader.saved_json(tmp_path) == reader.run_command()
    assert '"model"' not in reader.command()


SHOWN = """(svg) => [...svg.querySelectorAll("rect, line, circle, path, polygon, text")]
  .filter((shape) => !shape.closest(".unsaved"))
  .map((shape) => [shape.tagName, shape.children.length ? "" : shape.textContent])"""


@slow
@pytest.mark.parametrize(
    ("fragment", "figure", "labels"),
    [
        (APPLE_VIEW, "Layer 0,", APPLE_WORDS),
        (f"{APPLE_VIEW}&picture=lines&word=4", "Layer 0,", APPLE_WORDS),
        (compare_address(EIGHT), "in context", ["In context"]),
        (compare_address(EIGHT), "Map", ["A: Apple"]),
        ("#senses", "Map", []),
        ("#neighbors?word=river", "Nearest to river", ["rivers"]),
    ],
)
def test_a_saved_figure_has_the_shapes_and_texts_that_are_shown(
    visit: Open, tmp_path: Path, fragment: str, figure: str, labels: list[str]
) -> None:
    reader = visit(fragment)
    place = reader.figure(figure)
    shown = place.locator(".drawing > svg").evaluate(SHOWN)
    saved = reader.saved(place.get_by_role("button", name="Save SVG"), tmp_path)
    svg = saved.read_text("utf-8")
    assert svg.startswith("<?xml")
    assert "class=" not in svg
    # The margins around the drawing have the title and the axes.
    x, y, width, height = map(float, re.search(r'viewBox="([^"]*)"', svg)[1].split())
    size = place.locator(".drawing > svg").evaluate(
        "({viewBox: {baseVal}}) => [baseVal.width, baseVal.height]"
    )
    assert x < 0 > y
    assert [x + width, y + height] == pytest.approx([size[0] + 12, size[1] + 12])
    found = re.findall(r"<(rect|line|circle|path|polygon|text)\b[^>]*>(?:([^<]*)</text>)?", svg)
    # The first shapes are the background, the title and the axes.
    assert found[1][1] == place.get_by_role("heading").first.text_content().replace("&", "&amp;")
    assert found[2][1] != ""
    assert [list(one) for one in found[3:]] == shown
    assert set(labels) <= {text for _, text in found}
    png = reader.saved(place.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert len(colors_of(png)) > 20


ERRORS = [
    (address("attention", model="absent"), "model", "Model", ""),
    (compare_address(BANKS, model="absent"), "model", "Model", ""),
    *(
        (compare_address(BANKS, k=k), "neighbors: must be", "Number of neighbors", "8")
        for k in ("5000", "many", "1e999")
    ),
    *(
        (address("senses", senses=senses), "senses: must be", "Number of senses", "auto")
        for senses in ("0", "21", "many")
    ),
    (steps_address(source="sentence", layer=7), "the model has one layer, 0", "Layer", "0"),
    (steps_address(source="sentence", case="UPPER"), "case: must be", "Case", "lower"),
    (address("neighbors", model="absent"), "model", "Model", ""),
    *(
        (address("neighbors", k=k), "k: must be", "Number of neighbors", "20")
        for k in ("0", "1001", "7.5", "many", "-3")
    ),
]


@slow
def test_an_error_of_the_service_is_shown_and_can_be_corrected(visit: Open) -> None:
    reader = visit("#models")
    for fragment, message, label, correct in ERRORS:
        reader.go(fragment)
        expect(reader.problem, fragment).to_contain_text(message)
        expect(reader.page.locator(".results"), fragment).to_be_hidden()
        # The field has the value in the address, if it can.
        value = [*reader.query.values()][-1]
        shown = "" if value in {"many", "1e999"} and "k=" in fragment else value
        expect(reader.field(label), fragment).to_have_value(shown)
        reader.choose(label, correct)
        expect(reader.problem, fragment).to_be_hidden()
        expect(reader.page.locator(".results"), fragment).to_be_visible()


NO_SENTENCE = "Type a sentence to see the attention between its words."
EMPTY_SECOND = "Sentence 2 (B) is empty. Type a sentence."
EMPTY_FIRST = "Sentence 1 (A) is empty. Type a sentence."
MISSING_INPUT = [
    ("encode", address("attention", text=""), NO_SENTENCE),
    ("encode", address("attention", text="  \n "), NO_SENTENCE),
    ("compare", compare_address([BANKS[0]]), EMPTY_SECOND),
    ("compare", compare_address([BANKS[0], ["", "", 0]]), EMPTY_SECOND),
    ("compare", compare_address([["", "", 0], BANKS[0]]), EMPTY_FIRST),
    ("compare", compare_address([["", ""]]), EMPTY_FIRST),
    ("senses", address("senses", text=" \n\n "), "Type or paste sentences, one on each line, or"),
    ("senses", address("senses", word=" "), "Type the word whose senses to find, or press a"),
    ("trace", sentence_address(""), "Type a sentence to see its steps."),
    ("trace", sentence_address("   "), "Type a sentence to see its steps."),
    ("neighbors", address("neighbors", word=""), "Type a word to see its neighbors."),
]


@slow
def test_without_input_no_request_is_sent(visit: Open) -> None:
    reader = visit("#models")
    for path, fragment, message in MISSING_INPUT:
        reader.requests.clear()
        reader.go(fragment)
        expect(reader.problem, fragment).to_contain_text(message)
        expect(reader.page.locator(".results"), fragment).to_be_hidden()
        assert f"/v1/{path}" not in reader.requested(), fragment
        # Compare requests the tokens of the other sentence.
        assert not [one for one in reader.requests if '""' in (one.post_data or "")], fragment
        reader.go(fragment.partition("?")[0])
        expect(reader.problem, fragment).to_be_hidden()


@slow
@pytest.mark.parametrize(
    ("fragment", "label", "text", "submitted"),
    [
        ("#attention", "Sentence", "A river", "#attention?text=A+river"),
        (sentence_address("river bank"), "Sentence", "A bank", sentence_address("A bank")),
        ("#neighbors", "Word", "river", "#neighbors?word=river"),
    ],
)
def test_back_restores_what_was_submitted_before(
    open_page: Open, fragment: str, label: str, text: str, submitted: str
) -> None:
    reader = open_page(fragment)
    first = reader.field(label).input_value()
    reader.submit(label, text)
    assert reader.address == submitted
    assert reader.command().count(text)
    reader.back()
    assert reader.address == fragment
    assert reader.field(label).input_value() == first
    assert not reader.command().count(text)


@slow
@pytest.mark.parametrize(
    ("fragment", "label", "settings", "other"),
    [
        (
            "#neighbors?word=river",
            "Word",
            {"Number of neighbors": "5", "Case": "lower"},
            "#neighbors?word=money",
        ),
        (sentence_address("river bank"), "Sentence", {"Case": "lower"}, sentence_address("money")),
    ],
)
def test_what_is_typed_is_kept_until_the_address_has_another_text(
    open_page: Open, fragment: str, label: str, settings: dict[str, str], other: str
) -> None:
    reader = open_page(fragment)
    reader.field(label).fill("half a wo")
    for setting, value in settings.items():
        reader.choose(setting, value)
    reader.theme("dark")
    reader.resize(800)
    assert reader.field(label).input_value() == "half a wo"
    assert "half" not in reader.command()
    reader.go(other)
    assert reader.field(label).input_value() == "money"
    # Going back to the address before a submitted text also replaces what is typed.
    reader.submit(label, "bank")
    reader.field(label).fill("half a wo")
    reader.back()
    assert reader.field(label).input_value() == "money"


TYPE_AND_LEAVE = """(field, text) => {
  field.value = text;
  field.dispatchEvent(new Event("input"));
  document.querySelector("[data-view=models]").click();
}"""


@slow
@pytest.mark.parametrize(
    ("title", "fragment", "label"),
    [
        ("Attention", "#attention", "Sentence"),
        ("Compare", compare_address(BANKS), "Sentence 1"),
    ],
)
def test_what_is_typed_is_shown_after_the_view_was_left(
    open_page: Open, title: str, fragment: str, label: str
) -> None:
    reader = open_page(fragment)
    reader.field(label).evaluate(TYPE_AND_LEAVE, "The green bank of a river")
    expect(reader.page.get_by_role("heading", name="Models", level=2)).to_be_visible()
    # Longer than the 300 ms after which the views show what is typed.
    reader.page.wait_for_timeout(500)
    assert reader.address == "#models"
    reader.open_view(title)
    reader.settle()
    assert reader.field(label).input_value() == "The green bank of a river"
    assert "The green bank of a river" in str(reader.query.values())
    assert "The green bank of a river" in reader.command()


IMAGE = "<img src=x onerror=alert(1)>"
MARKUP = f"{IMAGE} <b>bank</b> & 'more' \"quotes\""


@slow
@pytest.mark.parametrize(
    ("fragment", "selector", "shown"),
    [
        (address("attention", text=MARKUP, word=1), "figure h3", "img is made of"),
        (compare_address([(MARKUP, "bank"), BANKS[1]]), "article blockquote", MARKUP),
        (address("senses", text=f"{MARKUP}\nA bank", word="bank"), "article blockquote", MARKUP),
        (
            steps_address({**PLAIN, "tokens": [MARKUP[:28], "b"]}),
            "[data-step=scores] th",
            MARKUP[:28],
        ),
    ],
)
def test_markup_stays_text(open_page: Open, fragment: str, selector: str, shown: str) -> None:
    reader = open_page(fragment)
    reader.page.evaluate(OPEN_DETAILS)
    reader.settle()
    assert reader.page.locator("main :is(img, script, b)").count() == 0
    assert shown in reader.texts(selector)


PHONE = {"has_touch": True, "is_mobile": True}


@slow
@pytest.mark.parametrize(
    ("view", "texts"),
    [
        ("attention", ["Tap a cell."]),
        ("attention?picture=lines", ["Tap a word on the left."]),
        ("compare", ["Tap a mark to read its name."]),
    ],
)
def test_a_touch_screen_has_instructions_for_touch(
    open_page: Open, view: str, texts: list[str]
) -> None:
    reader = open_page(f"#{view}", width=390, **PHONE)
    for text in texts:
        expect(reader.text(text).first).to_be_visible()
    assert "Point at" not in reader.page.locator("main").inner_text()


@slow
def test_a_tap_shows_a_mark_before_its_link_opens(open_page: Open) -> None:
    fragment = compare_address(APPLE_ROWS)
    reader = open_page(fragment, width=390, **PHONE)
    mark = reader.page.locator(".flat-map .after.point").first
    word = mark.get_attribute("aria-label").split(":")[0]
    mark.locator(".ring").tap()
    expect(reader.page.locator(".pointed")).to_contain_text(f"{word}: near")
    assert reader.query.keys() == {"occurrences"}
    mark.locator(".ring").tap()
    reader.settle()
    assert reader.query == {"word": word}


RESULTS = {
    "attention": "section[aria-label=Words] strong",
    "compare": ".models-beside h3",
    "senses": ".summary",
    "steps": "[data-step] td .number",
    "neighbors": ".bars .row .number",
    "models": ".facts dd",
}
"""The first result of each view: a headline or a number."""


@slow
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_result_is_in_the_window_without_scrolling(
    open_page: Open, several: httpx.Client, width: int, height: int
) -> None:
    reader = open_page("#models", service=several, width=width)
    reader.resize(width, height)
    for view, result in RESULTS.items():
        reader.go(f"#{view}")
        box = reader.page.locator(result).first.bounding_box()
        assert box["y"] + box["height"] <= height, view
    reader.go("#attention")
    if width == 1280:
        assert reader.page.locator(".cells").bounding_box()["y"] < 800
