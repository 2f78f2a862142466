"""Results as a table, a JSON document and a plot; published figures on the same data."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import orjson
import pytest

from polyseme_lab.evaluation.results import (
    TEN,
    ResultRow,
    Results,
    document,
    published_coarsewsd,
    published_wic,
    table,
)
from polyseme_lab.evaluation.statistics import IntervalEstimate
from polyseme_lab.training.config import COARSEWSD

pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")

from matplotlib.figure import Figure as Canvas

from polyseme_lab.evaluation import results as results_module
from polyseme_lab.evaluation.results import (
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


def test_published_figures_are_shown_only_for_the_same_data():
    name = "BERT-base, nearest sense centroid"
    for words, figures in ((TEN, (94.7, 93.3)), (COARSEWSD, (94.0, 91.0))):
        published = {row.title: row for row in published_coarsewsd(sorted(words))}
        assert tuple(published[name].figures.values()) == figures
    assert len(TEN) == 10 and set(COARSEWSD) > TEN
    for words in ([], TEN - {"bank"}, TEN | {"crane"}):
        assert published_coarsewsd(words) == []
    assert published_wic("dev") == []
    of_test = {row.title: row.figures["accuracy"] for row in published_wic("test")}
    assert of_test.items() >= {"ELMo": 57.7, "context2vec": 59.3, "BERT-large": 65.5}.items()
    # Each value has its own line style.
    assert len(set(DASHES)) == len(DASHES) >= max(len(of_test), len(published))


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
    shown = texts(replace(RESULTS, published=published_coarsewsd(TEN)))
    assert {
        *("static vector", "contextual vector (tiny)", "5.0", "50.5", "100.0", "93.3"),
        *("accuracy", "macro-F1", RESULTS.title),
        "BERT-base, nearest sense centroid, published: 94.7 / 93.3",
    } <= set(shown)
    assert not any("published" in text for text in texts(replace(RESULTS, published=())))


@pytest.mark.parametrize("base", [0.0, 50.0])
def test_bars_whiskers_and_lines_are_at_the_values(base):
    panel = Canvas().subplots()
    results = replace(RESULTS, published=published_coarsewsd(TEN), base=base)
    results_module._draw(panel, "macro_f1", results)
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in panel.patches]
    assert ends == [(base, 50.5), (base, 93.33)]
    (whiskers,) = panel.collections
    intervals = [segment[:, 0].tolist() for segment in whiskers.get_segments()]
    assert np.allclose(intervals, [[45, 55.04], [90, 97]])
    lines = [line.get_xdata()[0] for line in panel.lines if len(set(line.get_xdata())) == 1]
    assert lines[-3:] == [91.1, 93.3, 94.8]
    left, right = panel.get_xlim()
    # An interval that begins below the chance level is drawn to the left of it.
    assert (left == 0 if base == 0 else 35 < left < 45) and right > 97
    assert panel.yaxis_inverted()
