"""The view Neighbors."""

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.driver import address

pytestmark = pytest.mark.slow


def test_the_bars_keep_the_focus_and_a_result_is_announced_once(open_page: Open) -> None:
    reader = open_page("#neighbors?word=river")
    bars = reader.page.locator(".bars [role=button]")
    reader.record_announcements("main")
    reader.field("Word").fill("half a wo")
    bars.nth(2).focus()
    with reader.page.expect_response("**/v1/neighbors") as response:
        reader.page.keyboard.press("Enter")
    reader.settle()
    expect(bars.first).to_be_focused()
    chosen = response.value.request.post_data_json["word"]
    expect(reader.field("Word")).to_have_value(chosen)
    first = response.value.json()["neighbors"][0]
    assert reader.announced() == [
        f"10 words nearest to {chosen}, first {first['word']}: {first['similarity']:.2f}."
    ]
    reader.keys("ArrowDown", "ArrowDown")
    expect(bars.nth(2)).to_be_focused()
    assert reader.announced() == []


def test_a_sum_has_the_services_neighbors(open_page: Open) -> None:
    reader = open_page("#neighbors?k=5")
    reader.submit("Word", "king - man + woman")
    assert reader.query == {"word": "king - man + woman", "k": "5"}
    body = {"positive": ["king", "woman"], "negative": ["man"], "k": 5}
    given = reader.post("neighbors", body)["neighbors"]
    rows = reader.page.get_by_role("group", name="Words nearest to king + woman − man")
    assert [row.get_attribute("aria-label") for row in rows.get_by_role("button").all()] == [
        f"{one['word']}, {one['similarity']:.2f}: show its neighbors" for one in given
    ]
    reader.button("queen, ").click()
    reader.settle()
    assert reader.query == {"word": "queen", "k": "5"}
    # The example of a sum.
    reader.press("king − man + woman")
    assert (reader.sent()["positive"], reader.sent()["negative"]) == (["king", "woman"], ["man"])


def test_a_sign_or_a_comma_alone_is_a_word(visit: Open) -> None:
    reader = visit("#neighbors", service="several")
    composed = "not in the vocabulary: a composed vector"
    for word, heading in {
        "unbankable": f"Nearest to unbankable, {composed}",
        "king-man": f"Nearest to king-man, {composed}; in a sum, write a space before each sign",
        ",": "Nearest to ,",
        "-": "Nearest to -",
        "- river": "Nearest to − river, which are left out",
        "1,000 + river": "Nearest to 1,000 + river, which are left out",
        "king -man +woman": "Nearest to king + woman − man, which are left out",
    }.items():
        reader.go(address("neighbors", word=word))
        assert reader.heading("Nearest to").text_content() == heading
