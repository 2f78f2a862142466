"""The scores from association: their mean and size, at any scale of the vectors."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.engine.arrays import unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import contextualize
from polyseme.importing.closed_form import (
    FREQUENT,
    RARE,
    SPREAD,
    association,
    closed_form,
    frequencies_by_rank,
    informativeness,
)
from tests.importing.test_closed_form import DEGENERATE, mixed

ROWS, D = 61, 7
RANKED = frequencies_by_rank(ROWS)


def test_association_by_hand():
    # The mean is (1, 0), so only the second column distinguishes words; it varies by 2² = 4.
    vectors = np.array([[1, 2], [1, -2]])
    key = association(vectors, np.array([0.5, 0.5]))
    assert key.bias is None
    assert key.weight.dtype == np.float32
    np.testing.assert_allclose(key.weight, [[0, 0], [0, SPREAD / 4]], atol=1e-8)


def test_words_are_weighted_by_frequency_times_inverse_frequency():
    # The weights of the words are 1·½ and 3·¼, so 0.4 and 0.6. The weighted mean of (2, 5) and
    # (2, 0) is (2, 2). Along (1, −1)/√2, which is orthogonal to it, the words have −3/√2 and 2/√2.
    vectors = np.array([[2, 5], [2, 0]])
    key = association(vectors, np.array([1, 3]) * RARE)
    variance = 0.4 * 4.5 + 0.6 * 2
    complement = np.array([[1, -1], [-1, 1]]) / 2
    np.testing.assert_allclose(key.weight, SPREAD / variance * complement, rtol=1e-6)


@pytest.mark.parametrize("offset", [0, 50])
def test_scores_have_the_same_standard_deviation_for_any_vectors(offset):
    vectors = mixed(1, ROWS, D) + offset
    weights = RANKED * np.exp(informativeness(RANKED))
    weights /= weights.sum()
    scores = vectors @ association(vectors, RANKED).weight.astype(np.float64) @ vectors.T
    pairs = weights[:, None] * weights
    mean = (pairs * scores).sum()
    assert mean == pytest.approx(0, abs=1e-3)
    assert (pairs * (scores - mean) ** 2).sum() ** 0.5 == pytest.approx(SPREAD, rel=1e-3)


def contextual(vectors, rows, layer=None, p=RANKED):
    """The attention weights and unit vectors of a sentence, in the closed form of the vectors."""
    table = vectors.astype(np.float32)
    layer = layer or closed_form(table, association(table, p))
    bias = informativeness(p)[rows]
    sentence = SentenceArrays(table[rows], np.ones(len(rows), np.bool_), np.array(rows), bias)
    done = contextualize(sentence, [layer], ["weights"])
    return done.records[0]["weights"][0], unit(done.contextual)


SENTENCES = st.lists(st.integers(0, ROWS - 1), min_size=2, max_size=9)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(times=st.floats(0.01, 100), seed=st.integers(0, 9), rows=SENTENCES)
def test_vectors_at_another_scale_get_the_same_attention_and_directions(times, seed, rows):
    vectors = mixed(seed, ROWS, D)
    attention, directions = contextual(vectors, rows)
    scaled_attention, scaled_directions = contextual(times * vectors, rows)
    np.testing.assert_allclose(scaled_attention, attention, atol=1e-4)
    np.testing.assert_allclose(scaled_directions, directions, atol=1e-4)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(share=st.floats(0, 30), seed=st.integers(0, 9), rows=SENTENCES)
def test_a_common_component_does_not_change_attention(share, seed, rows):
    vectors = mixed(seed, ROWS, D)
    weights = RANKED * np.exp(informativeness(RANKED))
    shifted = vectors + share * (weights / weights.sum()) @ vectors
    attention, _ = contextual(vectors, rows)
    shifted_attention, _ = contextual(shifted, rows)
    np.testing.assert_allclose(shifted_attention, attention, atol=1e-4)


def test_similar_words_attend_more_to_each_other():
    vectors = np.array([[1, 3, 1], [1, 2, 1], [1, -2, -1], [1, -3, -1]], np.float32)
    p = np.full(4, 0.25)
    layer = closed_form(vectors, association(vectors, p))
    layer = replace(layer, scoring=replace(layer.scoring, position_bias=None))
    attention, _ = contextual(vectors, [0, 1, 2, 3], layer, p)
    assert attention[0, 1] > attention[0, 2] > attention[0, 3]
    assert attention[3, 2] > attention[3, 1] > attention[3, 0]


@pytest.mark.parametrize("times", [1e-38, 1e-20, 1, 1e18])
@pytest.mark.parametrize("case", DEGENERATE)
def test_a_degenerate_table_gives_finite_weights_and_vectors(case, times):
    vectors = (DEGENERATE[case] * times).astype(np.float32)
    p = frequencies_by_rank(len(vectors))
    key = association(vectors, p)
    assert np.isfinite(key.weight).all()
    assert key.weight.shape == (vectors.shape[1],) * 2
    attention, directions = contextual(vectors, [0, len(vectors) // 2, 0], p=p)
    assert np.isfinite(directions).all()
    np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("row", [[0.1, 0.7, -0.3], [0, 0, 0], [1e9, 0.1, 0]])
def test_association_of_equal_vectors_is_zero(row):
    vectors = np.tile(np.array(row, np.float32), (97, 1))
    assert not association(vectors, frequencies_by_rank(97)).weight.any()


def test_float16_vectors_give_the_same_weights_as_in_float64():
    vectors = mixed(2, ROWS, D).astype(np.float16)
    half, full = association(vectors, RANKED), association(vectors.astype(np.float64), RANKED)
    assert np.array_equal(half.weight, full.weight)


def test_without_frequencies_words_are_sampled_from_the_whole_table():
    vectors = np.ones((2 * FREQUENT, 2), np.float32)
    vectors[FREQUENT:, 1] = np.repeat([5, -7], FREQUENT // 2)
    ranked, equal = frequencies_by_rank(len(vectors)), np.full(len(vectors), 1 / len(vectors))
    assert not association(vectors, ranked).weight.any()
    key = association(vectors, equal)
    # Half of the words are (1, 1), a quarter each (1, 5) and (1, −7): the mean is (1, 0).
    np.testing.assert_allclose(key.weight, [[0, 0], [0, SPREAD / 19]], atol=1e-8)


@pytest.mark.parametrize("sorted_file", [True, False])
def test_memory_does_not_grow_with_the_vocabulary(sorted_file):
    rows, width = 3_000_000, 20
    line = np.arange(width, dtype=np.float32) ** 2
    vectors = np.broadcast_to(line, (rows, width))  # takes no memory of its own
    p = frequencies_by_rank(rows) if sorted_file else np.full(rows, 1 / rows)
    tracemalloc.start()
    closed_form(vectors, association(vectors, p), informative=sorted_file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * FREQUENT * width * 8 < rows * width * 4 / 4
