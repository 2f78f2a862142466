"""Neighbours, as a person uses it."""

from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.page.conftest import Open


def test_a_word_has_the_neighbours_the_service_gives(open_page: Open, client: httpx.Client) -> None:
    reader = open_page("#neighbours?word=Apple&k=5")
    given = client.post("/v1/neighbors", json={"word": "Apple", "k": 5}).json()["neighbors"]
    rows = reader.page.get_by_role("group", name="Words nearest to Apple").get_by_role("button")
    assert [row.split(",")[0] for row in labels(rows)] == [one["word"] for one in given]
    assert [float(row.split(",")[1].split(":")[0]) for row in labels(rows)] == [
        round(one["similarity"], 2) for one in given
    ]


def labels(rows) -> list[str]:
    return [row.get_attribute("aria-label") for row in rows.all()]


def test_a_word_is_typed_and_sent_and_the_address_keeps_it(open_page: Open) -> None:
    reader = open_page("#neighbours")
    reader.page.get_by_label("Word", exact=True).fill("river")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#neighbours?word=river"
    assert reader.page.get_by_role("heading", name="Nearest to river").is_visible()
    reader.page.go_back()
    reader.settle()
    assert reader.page.get_by_role("heading", name="Nearest to bank").is_visible()


def test_the_keyboard_goes_on_from_a_neighbour(open_page: Open) -> None:
    reader = open_page("#neighbours?word=river")
    row = reader.page.get_by_role("button", name="rivers, ")
    row.focus()
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.address == "#neighbours?word=rivers"


def test_a_word_that_is_not_there_is_said_in_the_services_sentence(open_page: Open) -> None:
    reader = open_page("#neighbours?word=qqzzxx")
    assert "vocabulary" in reader.problem.text_content()
    assert not reader.page.get_by_role("figure").is_visible()
    reader.page.get_by_label("Word", exact=True).fill("bank")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert not reader.problem.is_visible()


def test_no_word_is_no_question(open_page: Open) -> None:
    reader = open_page("#neighbours?word=")
    assert reader.problem.text_content() == "Type a word to see its neighbours."


def test_what_is_shown_can_be_taken_away(open_page: Open, tmp_path: Path) -> None:
    reader = open_page("#neighbours?word=l%27amour&case=lower&k=5")
    reader.page.get_by_label("Word", exact=True).fill("bank")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert reader.saved_json(tmp_path) == reader.run_command()
    svg = reader.saved(reader.page.get_by_role("button", name="Save SVG"), tmp_path).read_text()
    assert svg.startswith("<?xml") and ">banks</text>" in svg
    png = reader.saved(reader.page.get_by_role("button", name="Save PNG"), tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_is_accessible_and_fits(open_page: Open, axe: Axe, colours: str, width: int) -> None:
    reader = open_page("#neighbours?word=bank", width=width, colours=colours)
    assert reader.violations(axe) == []
    assert not reader.scrolls_sideways()
