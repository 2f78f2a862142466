"""The pairs of a set that the vocabulary lacks, and the quality in manifests."""

import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.measure import measure_model, quality
from tests.lab.evaluation.sets import COARSE, WIC, WIC_WITH_MOLES, unpacked


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
