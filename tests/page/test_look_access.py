"""The view Look for everybody: narrow, dark, and with assistive technology."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.look_reader import attention, grid, look


@pytest.mark.parametrize(
    ("width", "colours"), [(320, "dark"), (360, "light"), (768, "dark"), (1600, "light")]
)
def test_it_is_accessible_and_fits(open_page: Open, axe: Axe, width: int, colours: str) -> None:
    reader = open_page(width=width, colours=colours)
    reader.page.get_by_text("The numbers").click()
    expect(reader.page.get_by_role("table")).to_be_visible()
    for state in ({}, {"picture": "lines"}, {"picture": "lines", "head": "each", "word": 4}):
        reader.go(look(**state))
        expect(reader.page.get_by_role("table")).to_be_visible()
        assert reader.violations(axe) == [], state
        assert not reader.scrolls_sideways(), state


def test_what_cannot_be_shown_is_accessible_too(open_page: Open, axe: Axe) -> None:
    reader = open_page()
    for text, said in [("", "Type a sentence"), ("river qqzx Zebra", "vocabulary")]:
        reader.go(look(text=text, oov="error"))
        expect(reader.problem).to_contain_text(said)
        assert reader.violations(axe) == [], text


def test_the_picture_is_never_wider_than_its_room(open_page: Open) -> None:
    reader = open_page(look(text=" ".join(["river bank"] * 20)), width=500)
    for width in (320, 900, 1200):
        reader.resize(width)
        room = attention(reader).bounding_box()
        drawn = attention(reader).locator("svg").bounding_box()
        cells = grid(reader).bounding_box()
        assert drawn["x"] + drawn["width"] <= room["x"] + room["width"], width
        assert drawn["x"] <= cells["x"], width
        assert cells["x"] + cells["width"] <= drawn["x"] + drawn["width"] + 0.5, width
        assert cells["width"] / 40 <= 34, width


def test_the_picture_follows_the_width_of_the_window(open_page: Open) -> None:
    reader = open_page(look(text=" ".join(["river bank"] * 20)))
    before = grid(reader).bounding_box()["width"]
    reader.page.set_viewport_size({"width": 400, "height": 800})
    expect(grid(reader)).to_have_attribute("style", re.compile(r"width: [12]\d\dpx"))
    assert grid(reader).bounding_box()["width"] < before / 2
    assert not reader.scrolls_sideways()


def test_the_colours_follow_the_reader(open_page: Open) -> None:
    reader = open_page()
    colours = (
        "[...document.querySelectorAll('.heatmap path')].map((path) => path.getAttribute('fill'))"
    )
    light = reader.page.evaluate(colours)
    reader.page.get_by_label("Colours").select_option("dark")
    reader.settle()
    assert set(reader.page.evaluate(colours)).isdisjoint(light)


@pytest.mark.parametrize("width", [320, 1200])
def test_what_is_read_out_does_not_push_the_picture(open_page: Open, width: int) -> None:
    text = f"river {'long' * 30} bank of {'longer' * 30} money"
    reader = open_page(width=width)
    for picture in ("heatmap", "lines"):
        reader.go(look(text=text, picture=picture))
        target = grid(reader) if picture == "heatmap" else reader.page.get_by_role("listbox")
        target.focus()
        places = set()
        for key in ["Home", *["ArrowDown", "ArrowRight"] * 6]:
            reader.page.keyboard.press(key)
            places.add(
                target.evaluate("(element) => element.getBoundingClientRect().top + window.scrollY")
            )
        assert len(places) == 1, picture


@pytest.mark.parametrize("picture", ["heatmap", "lines"])
def test_the_focus_stays_in_a_picture_that_is_drawn_anew(open_page: Open, picture: str) -> None:
    reader = open_page(look(picture=picture))
    target = grid(reader) if picture == "heatmap" else reader.page.get_by_role("listbox")
    target.focus()
    target.evaluate("(element) => { element.dataset.before = true; }")
    reader.page.set_viewport_size({"width": 400, "height": 800})
    expect(target).not_to_have_attribute("data-before", "true")
    expect(target).to_be_focused()
