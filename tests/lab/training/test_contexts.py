"""Contexts of words: whole, truncated, hidden, in lower case and with dropout."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra [train] is not installed")

from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.data import Occurrences, Sentences, TokenTable
from polyseme_lab.training.network import TableTensors
from polyseme_lab.training.sampling import ContextReader, Draw

UNKNOWN = 5
TABLE = TokenTable(
    np.array([[1, 0], [2, 0], [0, 3], [0, 4], [5, 5], [0, 0]], np.float32),
    np.array([0, 0, 1, 2, 3, -1]),  # Apple and apple are one word
    np.array([-1, -2, -3, -4, -5, 0], np.float32),
    ("Apple", "apple", "bank", "the", "a", ""),
    np.arange(6),
)
FIRST, SECOND = [0, 2, 3, 1, 5, 4], [2, 3, 4]
SENTENCES = Sentences(
    np.array(FIRST + SECOND, np.int32),
    np.array([1, 2, 3, 1, 5, 4, *SECOND], np.int32),
    np.array([0, 6, 9]),
)
CONTEXTS = ContextReader(TABLE, SENTENCES)


def draw(*positions, hidden=False):
    zeros = np.zeros(len(positions), np.int64)
    return Draw(Occurrences(np.array(positions), zeros, zeros), np.full(len(positions), hidden))


def without_augmentation(**changes):
    """A configuration without random changes of contexts, but for those given."""
    return TrainingConfig(**{"cut": 0, "key_dropout": 0, **changes})


def test_a_whole_context_is_its_sentence():
    entries = CONTEXTS.whole(draw(2, 6), 60)
    assert entries.rows.tolist() == [FIRST, [*SECOND, UNKNOWN, UNKNOWN, UNKNOWN]]
    assert entries.targets.tolist() == [2, 0]


def test_a_window_limits_the_words_on_either_side():
    entries = CONTEXTS.whole(draw(0, 2, 5), 1)
    assert entries.rows.tolist() == [[0, 2, UNKNOWN], [2, 3, 1], [5, 4, UNKNOWN]]
    assert entries.targets.tolist() == [0, 1, 1]


def test_a_hidden_word_is_hidden_everywhere_in_any_case():
    entries = CONTEXTS.whole(draw(0, hidden=True), 60)
    assert entries.rows.tolist() == [[UNKNOWN, 2, 3, UNKNOWN, UNKNOWN, 4]]


def test_contexts_without_augmentation_are_whole():
    entries = CONTEXTS.augmented(draw(0, 6), without_augmentation(), np.random.default_rng(1))
    assert entries.rows.tolist() == [FIRST, [*SECOND, UNKNOWN, UNKNOWN, UNKNOWN]]


def test_every_word_of_a_context_is_converted_to_lower_case():
    entries = CONTEXTS.augmented(draw(0), without_augmentation(lower=1), np.random.default_rng(1))
    assert entries.rows.tolist() == [[1, 2, 3, 1, 5, 4]]


def test_tagged_words_are_hidden_at_the_configured_rate():
    entries = CONTEXTS.augmented(
        draw(*[0] * 2000), without_augmentation(hide=0.3), np.random.default_rng(1)
    )
    hidden = entries.rows[:, 0] == UNKNOWN
    assert 0.25 < hidden.mean() < 0.35
    assert (entries.rows[hidden, 3] == UNKNOWN).all()
    assert (entries.rows[~hidden, 3] == 1).all()


def test_words_of_the_context_are_dropped_but_not_the_target():
    entries = CONTEXTS.augmented(
        draw(*[2] * 2000), without_augmentation(key_dropout=0.2), np.random.default_rng(1)
    )
    dropped = entries.rows == UNKNOWN
    assert not dropped[:, 2].any()
    assert 0.17 < dropped[:, [0, 1, 3, 5]].mean() < 0.23


def test_contexts_are_truncated_at_the_configured_rate():
    line = Sentences(np.zeros(101, np.int32), np.zeros(101, np.int32), np.array([0, 101]))
    contexts = ContextReader(TABLE, line)
    entries = contexts.augmented(
        draw(*[50] * 2000), without_augmentation(cut=0.4), np.random.default_rng(1)
    )
    lengths = (entries.rows != UNKNOWN).sum(axis=1)
    assert set(lengths) == {61, *range(5, 18, 2)}
    assert 0.35 < (lengths < 61).mean() < 0.45
    assert set(entries.targets[lengths < 61]) == set(range(2, 9))


def test_a_batch_has_the_vectors_of_its_entries():
    tensors = TableTensors(TABLE)
    batch = tensors.batch(CONTEXTS.whole(draw(6), 60))
    np.testing.assert_array_equal(batch.vectors[0], TABLE.vectors[SECOND])
    np.testing.assert_array_equal(batch.word_bias[0], TABLE.word_bias[SECOND])
    np.testing.assert_array_equal(batch.words[0], TABLE.words[SECOND])
    assert batch.known.all()
    assert batch.targets.tolist() == [0]


def test_other_vectors_may_replace_those_of_the_table():
    tensors = TableTensors(TABLE)
    batch = tensors.batch(CONTEXTS.whole(draw(6), 60), tensors.vectors * 2)
    np.testing.assert_array_equal(batch.vectors[0], 2 * TABLE.vectors[SECOND])
