"""What the views have in common: they open, fit, are accessible, report errors and save results."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from docs.openapi import ROUTES
from matplotlib.image import imread
from playwright.sync_api import expect

from tests.page.conftest import Visit
from tests.page.driver import (
    APPLE_ROWS,
    APPLE_VIEW,
    APPLE_WORDS,
    BANKS,
    EIGHT,
    LONG_WORD,
    PLAIN,
    SMALL,
    VIEWS,
    address,
    compare_address,
    sentence_address,
    steps_address,
)

slow = pytest.mark.slow


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_opens_and_shows_its_result(visit: Visit, view: str) -> None:
    title, result = VIEWS[view]
    reader = visit(f"#{view}")
    assert reader.page.title() == f"{title} · Polyseme"
    assert reader.page.get_by_role("heading", level=2).text_content() == title
    assert reader.page.locator(result).first.is_visible()


def test_api_page_lists_each_operation_and_sends_a_request(visit: Visit) -> None:
    reader = visit()
    page = reader.page
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(f"{reader.base}/docs")
    expect(page.locator(".opblock")).to_have_count(len(ROUTES))
    models = page.locator(".opblock", has=page.locator("[data-path='/v1/models']"))
    models.locator(".opblock-summary-control").click()
    models.get_by_role("button", name="Try it out").click()
    models.get_by_role("button", name="Execute").click()
    status = models.locator(".live-responses-table .response-col_status")
    expect(status.last).to_have_text("200")
    assert messages == []


STATES: dict[str, Sequence[str]] = {
    "attention": [
        "#attention",
        address("attention", text=f"river {LONG_WORD}", picture="lines"),
        address("attention", text="river qqzx Zebra"),
    ],
    "compare": [
        compare_address(EIGHT),
        compare_address([("left " * 300 + LONG_WORD * 4 + " right" * 300, "left"), BANKS[1]]),
    ],
    "senses": ["#senses?senses=4&point=2", "#senses"],
    "steps": [
        steps_address(example=3, cell="weights:1:2"),
        sentence_address("river bank", cell="weights:1:0"),
        steps_address({**SMALL, "heads": 3}),
        steps_address({**PLAIN, "tokens": [LONG_WORD, "b"]}),
    ],
    "neighbors": ["#neighbors", "#neighbors?word=qqzzxx"],
    "models": ["#models", "#models"],
}
OPEN_DETAILS = """document.querySelectorAll("details")
  .forEach((details) => { details.open = true; })"""


@slow
@pytest.mark.parametrize("view", STATES)
def test_a_view_is_accessible_and_fits(visit: Visit, axe: Axe, view: str) -> None:
    service = "several" if view == "models" else "client"
    reader = visit(f"#{view}", service=service)
    for i, fragment in enumerate(STATES[view]):
        reader.theme(["dark", "light"][i % 2])
        reader.resize([320, 1600][i % 2])
        reader.go(fragment)
        reader.page.evaluate(OPEN_DETAILS)
        reader.settle()
        assert reader.violations(axe) == [], fragment
        assert not reader.scrolls_sideways(), fragment
    for width in (390, 700, 1000):
        reader.resize(width)
        assert not reader.scrolls_sideways(), width
        rights = reader.page.locator("figure svg").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect().right)"
        )
        assert max(rights, default=0) <= width, width


COMMANDS = [
    address("attention", text="It's the bank's \"river\" — $HOME `x`"),
    compare_address([("It's the bank's \"own\" $HOME bank", "bank", 1), BANKS[1]], k="3"),
    address("senses", text='The bank, "left"\nA `bank` $HERE', word="bank"),
    sentence_address("the l'amour bank", case="lower"),
    address("neighbors", word="o'clock", case="lower", k=5),
    "#models",
]


@slow
def test_the_saved_response_is_that_of_the_shown_command(visit: Visit, tmp_path: Path) -> None:
    reader = visit("#models")
    for fragment in COMMANDS:
        reader.go(fragment)
        output = subprocess.check_output(["bash", "-c", reader.command()], timeout=60)
        assert reader.saved_json(tmp_path) == json.loads(output), fragment
        assert '"model"' not in reader.command()


SHOWN = """(svg) => [...svg.querySelectorAll("rect, line, circle, path, polygon, text")]
  .filter((shape) => !shape.closest(".unsaved"))
  .map((shape) => [shape.tagName, shape.children.length ? "" : shape.textContent])"""


@slow
@pytest.mark.parametrize(
    ("fragment", "figure", "labels"),
    [
        (f"{APPLE_VIEW}&picture=lines&word=4", "Layer 0,", APPLE_WORDS),
        (compare_address(EIGHT), "Map", ["A: Apple"]),
    ],
)
def test_a_saved_figure_has_the_shapes_and_texts_that_are_shown(
    visit: Visit, tmp_path: Path, fragment: str, figure: str, labels: list[str]
) -> None:
    reader = visit(fragment)
    place = reader.figure(figure)
    shown = place.locator(".drawing > svg").evaluate(SHOWN)
    saved = reader.saved(place.get_by_role("button", name="Save SVG"), tmp_path)
    svg = saved.read_text("utf-8")
    assert svg.startswith("<?xml")
    assert "class=" not in svg
    found = re.findall(r"<(rect|line|circle|path|polygon|text)\b[^>]*>(?:([^<]*)</text>)?", svg)
    # The first shapes are the background, the title and the axes.
    assert found[1][1] == place.get_by_role("heading").first.text_content()
    assert [list(one) for one in found[3:]] == shown
    assert set(labels) <= {text for _, text in found}
    picture = imread(reader.saved(place.get_by_role("button", name="Save PNG"), tmp_path))
    assert len(np.unique(picture[..., :3] @ [1, 3, 9])) > 20


ERRORS = [
    (address("attention", model="absent"), "model", "Model", ""),
    (compare_address(BANKS, k="5000"), "neighbors: must be", "Number of neighbors", "8"),
    (address("senses", senses="many"), "senses: must be", "Number of senses", "auto"),
    (steps_address(source="sentence", layer=7), "the model has one layer, 0", "Layer", "0"),
    (steps_address(source="sentence", case="UPPER"), "case: must be", "Case", "lower"),
    (address("neighbors", k="many"), "k: must be", "Number of neighbors", "20"),
]


@slow
def test_an_error_of_the_service_is_shown_and_can_be_corrected(visit: Visit) -> None:
    reader = visit("#models")
    for fragment, message, label, correct in ERRORS:
        reader.go(fragment)
        expect(reader.problem, fragment).to_contain_text(message)
        expect(reader.page.locator(".results"), fragment).to_be_hidden()
        # The field has the value in the address, if it can.
        value = [*reader.query.values()][-1]
        shown = "" if "k=many" in fragment else value
        expect(reader.field(label), fragment).to_have_value(shown)
        reader.choose(label, correct)
        expect(reader.problem, fragment).to_be_hidden()
        expect(reader.page.locator(".results"), fragment).to_be_visible()


MISSING_INPUT = [
    ("encode", address("attention", text=" \n "), "Type a sentence to see the attention"),
    ("compare", compare_address([BANKS[0]]), "Sentence 2 (B) is empty. Type a sentence."),
    ("senses", address("senses", text=" \n\n "), "Type or paste sentences, one on each line, or"),
    ("senses", address("senses", word=" "), "Type the word whose senses to find, or press a"),
    ("trace", sentence_address("   "), "Type a sentence to see its steps."),
    ("neighbors", address("neighbors", word=""), "Type a word to see its neighbors."),
]


@slow
def test_without_input_no_request_is_sent(visit: Visit) -> None:
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
    ("fragment", "label", "other"),
    [
        (address("attention", text="river bank"), "Sentence", address("attention", text="money")),
        ("#neighbors?word=river", "Word", "#neighbors?word=money"),
        (sentence_address("river bank"), "Sentence", sentence_address("money")),
    ],
)
def test_an_address_replaces_what_is_typed_and_a_setting_does_not(
    visit: Visit, fragment: str, label: str, other: str
) -> None:
    reader = visit(fragment)
    first = reader.field(label).input_value()
    if "attention" not in fragment:  # whose sentence is submitted by a pause
        reader.field(label).fill("half a wo")
        reader.choose("Case", "lower")
        assert reader.field(label).input_value() == "half a wo"
        assert "half" not in reader.command()
        reader.go(fragment)
    reader.submit(label, "money")
    assert reader.address == other
    assert "money" in reader.command()
    reader.field(label).fill("half a wo")
    reader.back()
    assert reader.address == fragment
    assert reader.field(label).input_value() == first
    assert "money" not in reader.command()


IMAGE = "<img src=x onerror=alert(1)>"
MARKUP = f"{IMAGE} <b>bank</b> & 'more' \"quotes\""


@slow
def test_markup_stays_text(visit: Visit) -> None:
    reader = visit("#models")
    text = f"{MARKUP}\nA bank"
    for fragment, selector, shown in [
        (address("attention", text=MARKUP, word=1), "figure h3", "img is made of"),
        (compare_address([(MARKUP, "bank"), BANKS[1]]), "article blockquote", MARKUP),
        (address("senses", text=text, word="bank"), "article blockquote", MARKUP),
        (steps_address({**PLAIN, "tokens": [IMAGE, "b"]}), "[data-step=scores] th", IMAGE),
    ]:
        reader.go(fragment)
        reader.page.evaluate(OPEN_DETAILS)
        reader.settle()
        assert reader.page.locator("main :is(img, script, b)").count() == 0
        assert shown in reader.texts(selector)


@slow
def test_a_touch_screen_has_instructions_and_a_tap_before_a_link(visit: Visit) -> None:
    reader = visit("#models", width=390, has_touch=True, is_mobile=True)
    for fragment, text in {
        "#attention": "Tap a cell.",
        "#attention?picture=lines": "Tap a word on the left.",
        compare_address(APPLE_ROWS): "Tap a mark to read its name.",
    }.items():
        reader.go(fragment)
        expect(reader.text(text).first).to_be_visible()
        assert "Point at" not in reader.page.locator("main").inner_text()
    mark = reader.page.locator(".flat-map .after.point").first
    word = mark.get_attribute("aria-label").split(":")[0]
    mark.locator(".ring").tap()
    expect(reader.page.locator(".pointed")).to_contain_text(f"{word}: near")
    assert reader.query.keys() == {"occurrences"}
    mark.locator(".ring").tap()
    # The browser makes a click of a tap after the tap.
    reader.heading(f"Nearest to {word}").wait_for()
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
def test_the_result_is_in_the_window_of_a_phone_without_scrolling(visit: Visit) -> None:
    reader = visit("#models", service="several", width=390)
    for view, result in RESULTS.items():
        reader.go(f"#{view}")
        box = reader.page.locator(result).first.bounding_box()
        assert box["y"] + box["height"] <= 844, view
