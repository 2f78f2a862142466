"""Attention by hand, with each derivation in its test."""

import math

import numpy as np
import pytest

from polyseme.engine.attention import Scoring, SentenceArrays, masked_keys, relative_bias, softmax
from polyseme.engine.layers import Layer, Projection, contextualize


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def sentence(vectors, known=None, words=None, word_bias=None):
    vectors = np.array(vectors, np.float64)
    n = len(vectors)
    return SentenceArrays(
        vectors,
        np.ones(n, np.bool_) if known is None else np.array(known, np.bool_),
        np.arange(n) if words is None else np.array(words),
        None if word_bias is None else np.array(word_bias, np.float64),
    )


def run(start, layer):
    """The contextual vectors and the attention weights of the first head."""
    result = contextualize(start, [layer], ["weights"])
    return result.contextual, result.records[0]["weights"][0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("peak", [1.0, 59.0, 61.0, 88.0, 89.0, 1e4, 1e30])
@pytest.mark.parametrize("sign", [1, -1])
@np.errstate(all="ignore")
def test_softmax_of_scores_of_any_size(dtype, peak, sign):
    # Row 0: the peak twice, and a score 1 below it, so 1 : 1 : 1/e. Row 1: equal scores.
    scores = np.array([[peak, peak, peak - 1], [3 - peak] * 3], dtype) * dtype(sign)
    first = np.exp(scores[0].astype(np.float64) - float(scores[0].max()))
    found = softmax(scores.copy())
    assert found.dtype == dtype
    np.testing.assert_allclose(found[0], first / first.sum(), rtol=1e-5)
    np.testing.assert_allclose(found[1], [1 / 3] * 3, rtol=1e-6)
    masked = softmax(scores.copy(), np.array([[True, False, False], [False, True, True]]))
    np.testing.assert_allclose(masked[0], [0, *first[1:] / first[1:].sum()], rtol=1e-5)
    assert masked[1].tolist() == [1, 0, 0]


@pytest.mark.parametrize("size", [-110, 110])
@np.errstate(all="ignore")
def test_softmax_of_a_row_that_is_out_of_range_beside_another(size):
    scores = np.array([[size, size, size + math.log(2)], [0, 0, 0]], np.float32)
    np.testing.assert_allclose(softmax(scores), [[0.25, 0.25, 0.5], [1 / 3] * 3], rtol=1e-4)


def test_relative_bias_of_rows_in_the_middle_of_a_sentence():
    # R = 1, table (-1: 7, 0: 8, +1: 9). Rows 1 and 2 of four; entry (i, j) goes by j - i.
    table = np.array([[7.0, 8.0, 9.0]])
    assert_close(relative_bias(table, range(1, 3), 4), [[[7, 8, 9, 9], [7, 7, 8, 9]]])


def test_the_cached_position_bias_of_each_length_is_that_of_its_distances():
    table = np.random.default_rng(2).standard_normal((2, 9))
    scoring = Scoring(position_bias=table)
    for n in (2, 3, 62, 63, 64, 65, 3, 64, 1, 2):
        expected = relative_bias(table, range(n), n)
        found = scoring.bias(range(n), n)
        assert np.array_equal(found, expected)
        assert not found.flags.writeable
    assert Scoring().bias(range(3), 3) is None


def test_masked_keys_of_a_block_of_rows():
    # Row 1 of three, words 0 1 0, token 2 unknown.
    known, all_known = np.array([True, True, False]), np.ones(3, np.bool_)
    words = np.array([0, 1, 0])
    assert masked_keys(known, words, "all", range(1, 2)).tolist() == [[False, False, True]]
    assert masked_keys(known, words, "others", range(1, 2)).tolist() == [[False, True, True]]
    others = masked_keys(known, words, "other-words", range(3))
    assert others.tolist() == [[True, False, True], [False, True, True], [True, False, True]]
    assert masked_keys(all_known, words, "all", range(3)) is None
    assert masked_keys(all_known, words, "others", range(1, 2)).tolist() == [[False, True, False]]


def test_a_token_with_only_its_own_word_attends_to_itself():
    for words in ([4], [4, 4], [4, 4, 4]):
        known = np.ones(len(words), np.bool_)
        masked = masked_keys(known, np.array(words), "other-words", range(len(words)))
        assert np.array_equal(masked, ~np.eye(len(words), dtype=bool))
    # Rows 2 and 3 of five: each attends to itself, in columns 2 and 3.
    later = masked_keys(np.ones(5, bool), np.full(5, 4), "other-words", range(2, 4))
    assert np.array_equal(later, ~np.eye(2, 5, 2, dtype=bool))


def test_the_scale_uses_the_width_of_one_head_not_of_all():
    # Two heads of k = 4. The first head has (a,0,0,0) and (0,a,0,0) as above; the second zeros.
    a = math.sqrt(2 * math.log(3))
    start = sentence([[a, 0, 0, 0, 0, 0, 0, 0], [0, a, 0, 0, 0, 0, 0, 0]])
    weights = contextualize(start, [Layer(heads=2)], ["weights"]).records[0]["weights"]
    assert_close(weights, [[[0.75, 0.25], [0.25, 0.75]], [[0.5, 0.5], [0.5, 0.5]]])


def test_rows_of_the_scores_are_queries_and_columns_are_keys():
    # q = 1 for token 0 and 0 for token 1; k = 0 for token 0 and ln 3 for token 1.
    # Row 0: scores 0, ln 3 -> 1/4, 3/4. Row 1: scores 0, 0 -> 1/2, 1/2.
    layer = Layer(
        query=Projection(np.array([[1.0], [0.0]])),
        key=Projection(np.array([[0.0], [math.log(3)]])),
        value=Projection(np.array([[4.0], [8.0]])),
        output=Projection(np.array([[1.0, 10.0]])),
    )
    context, weights = run(sentence([[1, 0], [0, 1]]), layer)
    assert_close(weights, [[0.25, 0.75], [0.5, 0.5]])
    # Values 4 and 8: 1/4·4 + 3/4·8 = 7 and 1/2·4 + 1/2·8 = 6; the output widens them to two.
    assert_close(context, [[7, 70], [6, 60]])


def test_each_head_adds_the_word_bias_by_its_own_factor():
    # Biases 0 and ln 3. Factor 2: 1 : 9; factor 1: 1 : 3; factor 0: 1 : 1; factor -1: 3 : 1.
    start = sentence(np.zeros((2, 4)), word_bias=[0, math.log(3)])
    scoring = Scoring(word_bias=True, word_bias_scale=np.array([2.0, 1.0, 0.0, -1.0]))
    weights = contextualize(start, [Layer(4, scoring=scoring)], ["weights"]).records[0]["weights"]
    assert_close(weights[:, 0], [[0.1, 0.9], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    assert_close(weights[:, 1], weights[:, 0])
