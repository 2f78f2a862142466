"""The plot of results: its texts, colors, bars and lines."""

import io
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from matplotlib.figure import Figure as Canvas
from matplotlib.image import imread

from polyseme_lab.evaluation import plots
from polyseme_lab.evaluation.plots import COLORS, DASHES, plot_results
from polyseme_lab.evaluation.results import TEN, TWENTY, published_coarsewsd, published_wic
from polyseme_lab.evaluation.statistics import IntervalEstimate
from tests.lab.evaluation.test_results import RESULTS

TEXT_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "polyseme", "font.size": 10}


@pytest.fixture
def texts(monkeypatch):
    """The texts of a plot, from an SVG that has letters instead of outlines."""

    def of(results):
        monkeypatch.setattr("polyseme_lab.evaluation.plots._STYLE", TEXT_STYLE)
        root = ET.fromstring(plot_results(results, "svg"))
        return [
            "".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("text")
        ]

    return of


def test_the_plot_has_every_system_value_and_published_value(texts):
    found = texts(replace(RESULTS, published=published_coarsewsd(TEN)))
    for text in ("static vector", "contextual vector (tiny)", "5.0", "50.5", "100.0", "93.3"):
        assert text in found
    for text in (
        "accuracy",
        "macro-F1",
        RESULTS.title,
        "BERT-base, nearest sense centroid, published: 94.7 / 93.3",
    ):
        assert text in found


def test_a_plot_without_published_values_has_no_legend(texts):
    assert not any("published" in text for text in texts(replace(RESULTS, published=())))


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_same_results_give_the_same_bytes(kind):
    assert plot_results(RESULTS, kind) == plot_results(RESULTS, kind)


def colors_in(data):
    pixels = (imread(io.BytesIO(data))[:, :, :3] * 255).round().astype(int).reshape(-1, 3)
    return {f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.unique(pixels, axis=0)}


@pytest.mark.slow
def test_the_model_is_in_color_and_its_controls_are_gray():
    assert {COLORS["model"], COLORS["control"]} <= colors_in(plot_results(RESULTS, "png"))
    controls = replace(RESULTS, rows=RESULTS.rows[:1])
    found = colors_in(plot_results(controls, "png"))
    assert COLORS["model"] not in found and COLORS["control"] in found
    red, green, blue = (COLORS["control"][n : n + 2] for n in (1, 3, 5))
    assert red == green == blue


def test_colors_differ_in_lightness():
    lightness = [
        np.dot([int(color[n : n + 2], 16) for n in (1, 3, 5)], [0.299, 0.587, 0.114])
        for color in COLORS.values()
    ]
    assert np.abs(np.subtract.outer(lightness, lightness))[np.triu_indices(3, 1)].min() > 5


def test_a_value_below_chance_is_drawn_to_the_left_of_it(texts):
    below = IntervalEstimate(48.0, 44.0, 52.0)
    rows = [replace(row, figures={"accuracy": below}) for row in RESULTS.rows[:1]]
    results = replace(
        RESULTS,
        task="wic",
        columns={"accuracy": "dev accuracy"},
        rows=rows,
        published=published_wic("test"),
        base=50.0,
    )
    assert "48.0" in texts(results)
    panel = Canvas().subplots()
    plots._draw(panel, "accuracy", rows, 50.0)
    (bar,) = panel.patches
    assert (bar.get_x(), bar.get_width()) == (50, -2)


def test_every_published_value_has_its_own_line_style():
    most = max(
        map(len, (published_coarsewsd(TEN), published_coarsewsd(TWENTY), published_wic("test")))
    )
    assert len(set(DASHES)) == len(DASHES) >= most


@pytest.mark.parametrize("base", [0.0, 50.0])
def test_bars_end_at_the_values_and_whiskers_at_the_intervals(base):
    panel = Canvas().subplots()
    plots._draw(panel, "macro_f1", RESULTS.rows, base)
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in panel.patches]
    assert ends == [(base, 50.5), (base, 93.33)]
    (whiskers,) = panel.collections
    found = [segment[:, 0].tolist() for segment in whiskers.get_segments()]
    assert np.allclose(found, [[45, 55.04], [90, 97]])
    assert panel.yaxis_inverted()


def test_lines_are_drawn_at_published_values():
    panel = Canvas().subplots()
    results = replace(RESULTS, published=published_coarsewsd(TEN))
    plots._draw_published(panel, "accuracy", results)
    assert [line.get_xdata()[0] for line in panel.lines] == [93.8, 94.7, 95.9]
    left, right = panel.get_xlim()
    assert left == 0 and right > 100
