"""Results as a table, a JSON document and a plot; published figures on the same data."""

import io
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import orjson
import pytest

from polyseme_lab.evaluation.results import (
    TEN,
    TWENTY,
    ResultRow,
    Results,
    document,
    published_coarsewsd,
    published_wic,
    table,
)
from polyseme_lab.evaluation.statistics import IntervalEstimate

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from matplotlib.figure import Figure as Canvas
from matplotlib.image import imread

from polyseme_lab.evaluation import results as results_module
from polyseme_lab.evaluation.results import (
    COLORS,
    DASHES,
    plot_results,
)

RESULTS = Results(
    task="coarsewsd",
    title="CoarseWSD-20, 2 words",
    columns={"accuracy": "accuracy", "macro_f1": "macro-F1"},
    rows=[
        ResultRow("static", "static vector", "control", {
            "accuracy": IntervalEstimate(5.0, 1.25, 9.96),
            "macro_f1": IntervalEstimate(50.5, 45, 55.04)
        }),
        ResultRow("model", "contextual vector (tiny)", "model", {
            "accuracy": IntervalEstimate(100.0, 100.0, 100.0),
            "macro_f1": IntervalEstimate(93.33, 90, 97)
        }, {"words": {"bank": {"accuracy": 100.0}}}),
    ],
    published=published_coarsewsd(TEN)[1:2],
    words={"bank": {"senses": 2, "test": 1234, "accuracy": 100.0, "macro-F1": 93.333}},
    notes=["A note."],
    facts={"model": "tiny", "words": ["bank"]},
)  # fmt: skip


def test_the_table_has_every_figure_word_and_note():
    assert (
        table(RESULTS)
        == """\
CoarseWSD-20, 2 words

                                               accuracy              macro-F1
static vector                                   5.00 [1.2, 10.0]     50.50 [45.0, 55.0]
contextual vector (tiny)                       100.00 [100.0, 100.0]  93.33 [90.0, 97.0]
BERT-base, nearest sense centroid (published)   94.7                  93.3

        senses      test  accuracy  macro-F1
bank         2     1,234    100.00     93.33

A note."""
    )


def test_the_document_has_every_figure_and_fact():
    found = orjson.loads(orjson.dumps(document(RESULTS)))
    assert found == {
        "task": "coarsewsd",
        "model": "tiny",
        "words": ["bank"],
        "interval": {"percent": 95, "resamples": 1000, "seed": 1},
        "systems": {
            "static": {
                "title": "static vector",
                "kind": "control",
                "accuracy": {"value": 5.0, "low": 1.25, "high": 9.96},
                "macro_f1": {"value": 50.5, "low": 45, "high": 55.04},
            },
            "model": {
                "title": "contextual vector (tiny)",
                "kind": "model",
                "accuracy": {"value": 100.0, "low": 100.0, "high": 100.0},
                "macro_f1": {"value": 93.33, "low": 90, "high": 97},
                "words": {"bank": {"accuracy": 100.0}},
            },
        },
        "published": [
            {
                "title": "BERT-base, nearest sense centroid",
                "source": "Loureiro et al. 2021",
                "accuracy": 94.7,
                "macro_f1": 93.3,
            }
        ],
        "notes": ["A note."],
    }


def test_published_figures_are_shown_only_for_the_same_words():
    titles = [one.title for one in published_coarsewsd(TEN)]
    assert "BERT-large, nearest sense centroid" in titles
    ten = {one.title: one.figures for one in published_coarsewsd(sorted(TEN))}
    twenty = {one.title: one.figures for one in published_coarsewsd(TWENTY)}
    name = "BERT-base, nearest sense centroid"
    assert ten[name] == {"accuracy": 94.7, "macro_f1": 93.3}
    assert twenty[name] == {"accuracy": 94.0, "macro_f1": 91.0}
    assert (len(TEN), len(TWENTY)) == (10, 20)
    for words in ([], TEN - {"bank"}, TEN | {"crane"}):
        assert published_coarsewsd(words) == ()


def test_published_figures_of_wic_are_for_the_test_part():
    assert published_wic("dev") == ()
    found = {one.title: one.figures["accuracy"] for one in published_wic("test")}
    assert found["ELMo"] == 57.7 and found["context2vec"] == 59.3 and found["BERT-large"] == 65.5


@pytest.mark.parametrize("published", [published_coarsewsd(TEN), published_wic("test")])
def test_published_figures_have_their_source(published):
    assert all(one.source and one.title for one in published)


TEXT_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "polyseme", "font.size": 10}


@pytest.fixture
def texts(monkeypatch):
    """The texts of a plot, from an SVG that has letters instead of outlines."""

    def of(results):
        monkeypatch.setattr("polyseme_lab.evaluation.results._STYLE", TEXT_STYLE)
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
    results_module._draw(panel, "accuracy", results)
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
    results = replace(RESULTS, published=(), base=base)
    results_module._draw(panel, "macro_f1", results)
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in panel.patches]
    assert ends == [(base, 50.5), (base, 93.33)]
    (whiskers,) = panel.collections
    found = [segment[:, 0].tolist() for segment in whiskers.get_segments()]
    assert np.allclose(found, [[45, 55.04], [90, 97]])
    assert panel.yaxis_inverted()


def test_lines_are_drawn_at_published_values():
    panel = Canvas().subplots()
    results = replace(RESULTS, published=published_coarsewsd(TEN))
    results_module._draw(panel, "accuracy", results)
    lines = [line.get_xdata()[0] for line in panel.lines if len(set(line.get_xdata())) == 1]
    assert lines[-3:] == [93.8, 94.7, 95.9]
    left, right = panel.get_xlim()
    assert left == 0 and right > 100
