"""Results of a measurement, as a table and as a JSON document; published figures."""

import orjson
import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.measure import measure_model, quality
from polyseme_lab.evaluation.results import (
    TEN,
    ResultRow,
    Results,
    document,
    published_coarsewsd,
    table,
)
from polyseme_lab.evaluation.statistics import IntervalEstimate
from polyseme_lab.training.config import COARSEWSD
from tests.lab.evaluation.sets import COARSE, WIC, WIC_WITH_MOLES, unpacked

STATIC = {
    "accuracy": IntervalEstimate(5.0, 1.25, 9.96),
    "macro_f1": IntervalEstimate(50.5, 45, 55.04),
}
MODEL = {"accuracy": IntervalEstimate(100.0, 100.0, 100.0)}
RESULTS = Results(
    task="coarsewsd",
    title="CoarseWSD-20, 2 words",
    columns={"accuracy": "accuracy", "macro_f1": "macro-F1"},
    rows=[
        ResultRow("static", "static vector", "control", STATIC),
        ResultRow("model", "contextual vector (tiny)", "model", MODEL, {"words": {"bank": 1}}),
    ],
    published=published_coarsewsd(TEN)[1:2],
    notes=["A note."],
    facts={"model": "tiny"},
)
TABLE = """\
CoarseWSD-20, 2 words

                                               accuracy              macro-F1
static vector                                   5.00 [1.2, 10.0]     50.50 [45.0, 55.0]
contextual vector (tiny)                       100.00 [100.0, 100.0]  –
BERT-base, nearest sense centroid (published)   94.7                  93.3

A note."""


def test_the_table_has_every_figure_and_note():
    assert table(RESULTS) == TABLE


def test_the_document_has_every_figure_and_fact():
    found = orjson.loads(orjson.dumps(document(RESULTS)))
    assert found == {
        "task": "coarsewsd",
        "model": "tiny",
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
                "words": {"bank": 1},
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


def test_pairs_with_a_word_without_a_vector_are_counted(model, tmp_path):
    found = measure_model(model, "wic", unpacked(tmp_path, {**WIC, **WIC_WITH_MOLES}), ["static"])
    note = "Without a static vector, so classified by context alone: one or both words of 2 pairs."
    assert note in found.notes
    moles = {name: lines[1:] for name, lines in WIC_WITH_MOLES.items()}
    with pytest.raises(CommandError, match="Every pair of the set has a word"):
        measure_model(model, "wic", unpacked(tmp_path, moles), ["static"])


def test_quality_in_a_manifest_is_that_of_the_evaluation(model, tmp_path):
    folder = unpacked(tmp_path, {**COARSE, **WIC})
    coarse, pairs = (
        measure_model(model, task, folder, ["model"]).rows[0] for task in ("coarsewsd", "wic")
    )
    found = quality(model, folder)
    scores = {name: figure.value for name, figure in coarse.figures.items()}
    assert found["coarsewsd"] == {"words": 1, **scores}
    train, dev = pairs.facts["train_accuracy"], pairs.figures["accuracy"].value
    assert found["wic"] == {"train_accuracy": train, "dev_accuracy": dev}
