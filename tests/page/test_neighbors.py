"""The view Neighbors."""

from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.driver import address

pytestmark = pytest.mark.slow


def test_a_word_has_the_services_neighbors(visit: Open, client: httpx.Client) -> None:
    reader = visit("#neighbors?word=Apple&k=5")
    given = client.post("/v1/neighbors", json={"word": "Apple", "k": 5}).json()["neighbors"]
    rows = reader.page.get_by_role("group", name="Words nearest to Apple").get_by_role("button")
    assert [row.get_attribute("aria-label") for row in rows.all()] == [
        f"{one['word']}, {one['similarity']:.2f}: show its neighbors" for one in given
    ]


def test_a_neighbor_is_chosen_by_the_keyboard_or_by_a_click(open_page: Open) -> None:
    reader = open_page("#neighbors?word=river")
    reader.button("rivers, ").press("Enter")
    reader.settle()
    assert reader.address == "#neighbors?word=rivers"
    reader.field("Word").fill("half a wo")
    reader.page.locator(".bars [role=button]").first.click()
    expect(reader.field("Word")).to_have_value("river")


def test_an_unknown_word_shows_the_services_error(open_page: Open) -> None:
    reader = open_page("#neighbors?word=qqzzxx")
    for text, message in {
        "king - qqzzxx": "A word of the sum is not in the vocabulary of the model.",
        "bank - bank": "The sum is zero, so it has no neighbors.",
        "qqzzxx": "The word is not in the vocabulary of the model.",
    }.items():
        reader.submit("Word", text)
        assert message in reader.problem.text_content()
    assert not reader.page.locator("figure").is_visible()
    reader.submit("Word", "bank")
    assert not reader.problem.is_visible()


def test_the_bars_keep_the_focus_and_a_result_is_announced_once(open_page: Open) -> None:
    reader = open_page("#neighbors?word=river")
    bars = reader.page.locator(".bars [role=button]")
    reader.record_announcements("main")
    bars.nth(2).focus()
    with reader.page.expect_response("**/v1/neighbors") as response:
        reader.page.keyboard.press("Enter")
    reader.settle()
    expect(bars.first).to_be_focused()
    chosen = response.value.request.post_data_json["word"]
    first = response.value.json()["neighbors"][0]
    assert reader.announced() == [
        f"10 words nearest to {chosen}, first {first['word']}: {first['similarity']:.2f}."
    ]
    reader.keys("ArrowDown", "ArrowDown")
    expect(bars.nth(2)).to_be_focused()
    reader.page.emulate_media(color_scheme="dark")
    reader.settle()
    expect(bars.nth(2)).to_be_focused()
    assert reader.announced() == []
    reader.field("Word").fill("bank")
    reader.button("Find neighbors").press("Enter")
    reader.settle()
    expect(reader.button("Find neighbors")).to_be_focused()
    assert len(reader.announced()) == 1


def test_a_hundred_bars_are_one_tab_stop(visit: Open) -> None:
    reader = visit("#neighbors?word=river&k=100")
    bars = reader.page.locator(".bars [role=button]")
    assert bars.count() == 100
    reader.button("Save PNG").focus()
    reader.page.keyboard.press("Tab")
    expect(bars.first).to_be_focused()
    reader.page.keyboard.press("End")
    expect(bars.last).to_be_focused()
    ring = bars.last.locator(".ring").evaluate("(ring) => ring.getBBox().width")
    assert ring <= reader.page.locator("svg.bars").bounding_box()["width"]
    reader.page.keyboard.press("ArrowUp")
    expect(bars.nth(98)).to_be_focused()
    reader.page.keyboard.press("Tab")
    assert not reader.page.evaluate("document.activeElement.closest('.bars')")
    reader.page.keyboard.press("Shift+Tab")
    expect(bars.nth(98)).to_be_focused()


def test_a_composed_vector_is_named_in_the_heading(visit: Open, several: httpx.Client) -> None:
    reader = visit("#neighbors?word=unbankable", service=several)
    heading = reader.heading("Nearest to unbankable").text_content()
    assert heading == "Nearest to unbankable, not in the vocabulary: a composed vector"
    reader.go(address("neighbors", word="king-man+woman"))
    heading = reader.heading("Nearest to king").text_content()
    assert heading.endswith("a composed vector; in a sum, write a space before each sign")


def test_a_sum_has_the_services_neighbors(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#neighbors?k=5")
    reader.submit("Word", "king - man + woman")
    assert reader.query == {"word": "king - man + woman", "k": "5"}
    body = {"positive": ["king", "woman"], "negative": ["man"], "k": 5}
    given = client.post("/v1/neighbors", json=body).json()["neighbors"]
    rows = reader.page.get_by_role("group", name="Words nearest to king + woman − man")
    assert [row.get_attribute("aria-label") for row in rows.get_by_role("button").all()] == [
        f"{one['word']}, {one['similarity']:.2f}: show its neighbors" for one in given
    ]
    reader.button("queen, ").click()
    reader.settle()
    assert reader.query == {"word": "queen", "k": "5"}
    reader.back()
    assert reader.heading("Nearest to").text_content() == (
        "Nearest to king + woman − man, which are left out"
    )


def test_an_example_of_a_sum_is_chosen(visit: Open) -> None:
    reader = visit("#neighbors")
    reader.press("king − man + woman")
    assert reader.query == {"word": "king − man + woman"}
    assert (reader.sent()["positive"], reader.sent()["negative"]) == (["king", "woman"], ["man"])
    reader.press("bank")
    assert reader.address == "#neighbors"


@pytest.mark.parametrize(
    ("typed", "heading"),
    [
        (",", "Nearest to ,"),
        ("-", "Nearest to -"),
        (" 1,000 ", "Nearest to 1,000"),
        ("- river", "Nearest to − river, which are left out"),
        ("1,000 + river", "Nearest to 1,000 + river, which are left out"),
        ("king -man +woman", "Nearest to king + woman − man, which are left out"),
    ],
)
def test_a_sign_or_a_comma_alone_is_a_word(visit: Open, typed: str, heading: str) -> None:
    reader = visit(f"#neighbors?{urlencode({'word': typed})}")
    assert reader.heading("Nearest to").text_content() == heading
