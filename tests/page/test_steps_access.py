"""Step by step is open to everyone: assistive software, colours, narrow windows."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.page.conftest import Open
from tests.page.stepping import SMALL, address

VIEWS = {
    "example": address(example=3, cell="weights:1:0"),
    "example with columns": address(example=5, cell="weights:5:3"),
    "sentence": address(source="sentence", cell="weights:1:2", text="the bank of the river"),
    "numbers": address(SMALL, cell="output:0:0"),
    "a refusal": address({**SMALL, "heads": 3}),
}


@pytest.mark.parametrize(("width", "colours"), [(320, "dark"), (1200, "light")])
def test_it_is_accessible_and_fits(open_page: Open, axe: Axe, width: int, colours: str) -> None:
    reader = open_page("#steps", width=width, colours=colours)
    for view, there in VIEWS.items():
        reader.go(there)
        assert reader.problem.is_visible() == (view == "a refusal")
        assert reader.violations(axe) == [], view
        assert not reader.scrolls_sideways(), view


@pytest.mark.parametrize("width", [360, 700, 1600])
def test_nothing_is_wider_than_the_window(open_page: Open, width: int) -> None:
    reader = open_page("#steps", width=width)
    for view, there in VIEWS.items():
        reader.go(there)
        assert not reader.scrolls_sideways(), view
        # Cards show what fits, and so need no scrolling of their own.
        over = reader.page.locator(".matrix-place").evaluate_all(
            "(places) => places.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        )
        assert over == 0, view


def test_a_broken_cell_is_accessible_too(open_page: Open, axe: Axe) -> None:
    reader = open_page(VIEWS["numbers"])
    cell = reader.page.get_by_label("Embeddings X, row a, column c0")
    cell.fill("x")
    cell.blur()
    reader.settle()
    assert reader.violations(axe) == []
