"""Words and pairs of an evaluation set that the vocabulary lacks."""

from pathlib import Path

import pytest

from polyseme.errors import CommandError
from polyseme_lab.evaluation.coarsewsd import known_words
from polyseme_lab.evaluation.measure import measure_model
from polyseme_lab.evaluation.sources import LocalSource
from polyseme_lab.evaluation.systems import EvaluationConfig
from polyseme_lab.evaluation.wic import known_pairs
from tests.lab.evaluation.sets import COARSE, WIC_WITH_MOLES, unpacked
from tests.lab.evaluation.sets import WIC as WIC_WITHOUT_MOLES

MOLES = {
    name.replace("/bank/", "/mole/"): [line.replace("bank", "mole") for line in lines]
    for name, lines in COARSE.items()
}
WIC = {**WIC_WITH_MOLES, "wic/README.txt": ["not a pair"]}


def test_unknown_words_are_not_measured(model):
    files = known_words({**COARSE, **MOLES}, LocalSource(model).knows)
    assert files == COARSE
    assert {Path(name).parent.name for name in files} == {"bank"}


def test_pairs_with_an_unknown_word_are_not_measured(model):
    files = known_pairs(WIC, LocalSource(model).knows)
    assert files["wic/dev/dev.data.txt"] == WIC["wic/dev/dev.data.txt"][:1]
    assert files["wic/dev/dev.gold.txt"] == ["T"]
    assert files["wic/README.txt"] == ["not a pair"]
    assert len(WIC["wic/dev/dev.gold.txt"]) == 3


def test_pairs_with_a_word_without_a_vector_are_counted_in_a_note(model, tmp_path):
    files = unpacked(tmp_path, {**WIC_WITHOUT_MOLES, **WIC_WITH_MOLES})
    found = measure_model(model, EvaluationConfig("wic", files, ("static",)))
    note = "Without a static vector, so classified by context alone: one or both words of 2 pairs."
    assert note in found.notes


def test_a_set_without_a_pair_of_known_words_is_rejected(model, tmp_path):
    moles = {name: lines[1:] for name, lines in WIC_WITH_MOLES.items()}
    files = unpacked(tmp_path, {**WIC_WITHOUT_MOLES, **moles})
    with pytest.raises(CommandError, match="Every pair of the set has a word"):
        measure_model(model, EvaluationConfig("wic", files, ("static",)))


def test_a_word_without_sentences_is_rejected(model):
    files = {**COARSE, "coarsewsd/bank/test.data.txt": []}
    with pytest.raises(CommandError, match="missing or empty"):
        known_words(files, LocalSource(model).knows)
