"""Each view opens and shows its result: the tests of the page that are not slow."""

import pytest

from tests.page.conftest import Open

VIEWS = {
    "#attention": ("Attention", "figure svg.heatmap"),
    "#compare": ("Compare", "figure svg.flat-map"),
    "#senses": ("Senses", "figure svg.senses-map"),
    "#steps": ("Step by step", "[data-step=weights] table"),
    "#neighbors": ("Neighbors", "figure svg.bars"),
    "#models": ("Models", "article .facts"),
}


@pytest.mark.parametrize("fragment", VIEWS)
def test_a_view_opens_and_shows_its_result(open_page: Open, fragment: str) -> None:
    title, result = VIEWS[fragment]
    reader = open_page(fragment)
    assert reader.page.title() == f"{title} · Polyseme"
    assert reader.page.get_by_role("heading", level=2).text_content() == title
    assert not reader.problem.is_visible()
    assert reader.page.locator(result).first.is_visible()
