"""The view Neighbors."""

from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.conftest import Serve
from tests.page.conftest import Open

pytestmark = pytest.mark.slow


def test_a_word_has_the_services_neighbors(visit: Open, client: httpx.Client) -> None:
    reader = visit("#neighbors?word=Apple&k=5")
    given = client.post("/v1/neighbors", json={"word": "Apple", "k": 5}).json()["neighbors"]
    rows = reader.page.get_by_role("group", name="Words nearest to Apple").get_by_role("button")
    assert [row.split(",")[0] for row in labels(rows)] == [one["word"] for one in given]
    assert [float(row.split(",")[1].split(":")[0]) for row in labels(rows)] == [
        round(one["similarity"], 2) for one in given
    ]


def labels(rows) -> list[str]:
    return [row.get_attribute("aria-label") for row in rows.all()]


def test_a_submitted_word_is_in_the_address(open_page: Open) -> None:
    reader = open_page("#neighbors")
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#neighbors?word=river"
    assert reader.page.get_by_role("heading", name="Nearest to river").is_visible()
    reader.page.go_back()
    reader.settle()
    assert reader.page.get_by_role("heading", name="Nearest to bank").is_visible()


def test_the_keyboard_chooses_a_neighbor(visit: Open) -> None:
    reader = visit("#neighbors?word=river")
    row = reader.page.get_by_role("button", name="rivers, ")
    row.focus()
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#neighbors?word=rivers"


def test_an_unknown_word_shows_the_services_error(open_page: Open) -> None:
    reader = open_page("#neighbors?word=qqzzxx")
    assert "vocabulary" in reader.problem.text_content()
    assert not reader.page.get_by_role("figure").is_visible()
    reader.page.get_by_label("Word", exact=True).fill("bank")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert not reader.problem.is_visible()


def test_an_empty_word_sends_no_request(open_page: Open) -> None:
    reader = open_page("#models")
    requests: list[str] = []
    reader.page.on("request", lambda request: requests.append(request.url))
    reader.go("#neighbors?word=")
    assert reader.problem.text_content() == "Type a word to see its neighbors."
    assert not [url for url in requests if url.endswith("/v1/neighbors")]


def test_the_shown_results_can_be_saved(visit: Open, tmp_path: Path) -> None:
    reader = visit("#neighbors?word=o%27clock&case=lower&k=5")
    saved = reader.saved_json(tmp_path)
    assert saved == reader.run_command()
    svg = reader.saved(reader.page.get_by_role("button", name="Save SVG"), tmp_path).read_text()
    assert svg.startswith("<?xml") and f">{saved['neighbors'][0]['word']}</text>" in svg
    png = reader.saved(reader.page.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG")


@pytest.mark.parametrize(("width", "theme"), [(360, "dark"), (1200, "light")])
def test_it_is_accessible_and_fits(visit: Open, axe: Axe, width: int, theme: str) -> None:
    reader = visit("#neighbors?word=bank", width=width, theme=theme)
    assert reader.violations(axe) == []
    assert not reader.scrolls_sideways()


def test_input_is_kept_while_other_controls_change(open_page: Open) -> None:
    reader = open_page("#neighbors?word=river")
    word = reader.page.get_by_label("Word", exact=True)
    word.fill("half a wo")
    reader.page.get_by_label("Theme").select_option("dark")
    reader.page.get_by_label("Number of neighbors").select_option("5")
    reader.settle()
    reader.page.get_by_label("Case").select_option("lower")
    reader.resize(800)
    expect(word).to_have_value("half a wo")
    assert reader.page.get_by_role("heading", name="Nearest to river").is_visible()
    reader.page.get_by_role("button", name="rivers, ").click()
    expect(word).to_have_value("rivers")


def test_the_bars_keep_the_focus_and_a_result_is_announced_once(open_page: Open) -> None:
    reader = open_page("#neighbors?word=river")
    bars = reader.page.locator(".bars [role=button]")
    reader.page.evaluate(RECORD_ANNOUNCEMENTS)
    bars.nth(2).focus()
    with reader.page.expect_response("**/v1/neighbors") as response:
        reader.page.keyboard.press("Enter")
    reader.settle()
    expect(bars.first).to_be_focused()
    chosen = response.value.request.post_data_json["word"]
    first = response.value.json()["neighbors"][0]
    announcement = (
        f"10 words nearest to {chosen}, first {first['word']}: {first['similarity']:.2f}."
    )
    assert reader.page.evaluate("globalThis.announced") == [announcement]
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("ArrowDown")
    expect(bars.nth(2)).to_be_focused()
    reader.page.emulate_media(color_scheme="dark")
    reader.settle()
    expect(bars.nth(2)).to_be_focused()
    assert reader.page.evaluate("globalThis.announced") == [announcement]
    reader.page.get_by_label("Word", exact=True).fill("bank")
    reader.page.get_by_role("button", name="Find neighbors").press("Enter")
    reader.settle()
    expect(reader.page.get_by_role("button", name="Find neighbors")).to_be_focused()
    assert len(reader.page.evaluate("globalThis.announced")) == 2


RECORD_ANNOUNCEMENTS = """() => {
  globalThis.announced = [];
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (target.closest?.("[role=status]")) globalThis.announced.push(target.textContent);
    }
  }).observe(document.querySelector("main"), { childList: true, subtree: true });
}"""


def test_a_hundred_bars_are_one_tab_stop(visit: Open) -> None:
    reader = visit("#neighbors?word=river&k=100")
    bars = reader.page.locator(".bars [role=button]")
    assert bars.count() == 100
    reader.page.get_by_role("button", name="Save PNG").focus()
    reader.page.keyboard.press("Tab")
    expect(bars.first).to_be_focused()
    reader.page.keyboard.press("End")
    expect(bars.last).to_be_focused()
    reader.page.keyboard.press("ArrowUp")
    expect(bars.nth(98)).to_be_focused()
    reader.page.keyboard.press("Tab")
    assert not reader.page.evaluate("document.activeElement.closest('.bars')")
    reader.page.keyboard.press("Shift+Tab")
    expect(bars.nth(98)).to_be_focused()


def test_the_number_of_neighbors_comes_from_the_address(visit: Open) -> None:
    reader = visit("#neighbors?k=7")
    number = reader.page.get_by_label("Number of neighbors")
    expect(number).to_have_value("7")
    options = number.locator("option").all_text_contents()
    assert options == ["5", "7", "10", "20", "50", "100"]
    assert reader.page.locator(".bars [role=button]").count() == 7
    for invalid in ("0", "1001", "7.5", "many", "-3"):
        reader.go(f"#neighbors?k={invalid}")
        expect(reader.problem).to_contain_text("/k")
        expect(number).to_have_value(invalid)
    number.select_option("20")
    reader.settle()
    assert not reader.problem.is_visible()
    assert reader.page.locator(".bars [role=button]").count() == 20


def test_a_composed_vector_is_named_in_the_heading(serve: Serve, open_page: Open) -> None:
    reader = open_page("#neighbors?word=unbankable", service=serve())
    heading = reader.page.get_by_role("heading", name="Nearest to unbankable")
    assert heading.text_content() == "Nearest to unbankable, unknown: a composed vector"
