"""The part of a set whose words are in the vocabulary."""

from pathlib import Path

import pytest

from polyseme.command_error import CommandError
from polyseme.evaluation.coarsewsd import known_words
from polyseme.evaluation.sources import LocalSource
from polyseme.evaluation.wic import known_pairs
from tests.evaluation.sets import COARSE, WIC_WITH_MOLES

MOLES = {
    name.replace("/bank/", "/mole/"): [line.replace("bank", "mole") for line in lines]
    for name, lines in COARSE.items()
}
WIC = {**WIC_WITH_MOLES, "wic/README.txt": ["not a pair"]}


def test_words_that_the_vocabulary_lacks_are_not_measured(model):
    files = known_words({**COARSE, **MOLES}, LocalSource(model).knows)
    assert files == COARSE
    assert {Path(name).parent.name for name in files} == {"bank"}


def test_pairs_of_which_the_vocabulary_lacks_a_word_are_not_measured(model):
    files = known_pairs(WIC, LocalSource(model).knows)
    assert files["wic/dev/dev.data.txt"] == WIC["wic/dev/dev.data.txt"][:1]
    assert files["wic/dev/dev.gold.txt"] == ["T"]
    assert files["wic/README.txt"] == ["not a pair"]
    assert len(WIC["wic/dev/dev.gold.txt"]) == 3


def test_a_word_without_sentences_is_rejected(model):
    files = {**COARSE, "coarsewsd/bank/test.data.txt": []}
    with pytest.raises(CommandError, match="missing or empty"):
        known_words(files, LocalSource(model).knows)
