"""Attention, layers and their parts by hand, with each derivation in its test."""

import math

import numpy as np
import pytest

from polyseme.engine import unit
from polyseme.engine.attention import (
    Scoring,
    SentenceArrays,
    masked_keys,
    relative_bias,
    sinusoids,
    softmax,
)
from polyseme.engine.layers import (
    FeedForward,
    Layer,
    LayerNorm,
    Projection,
    Residual,
    contextualize,
    split_heads,
)
from tests.engine.cases import sentence
from tests.tiny import full_layer, normal


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-12)


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
    result = contextualize(sentence([[1, 0], [0, 1]]), [layer], ["weights"])
    assert_close(result.records[0]["weights"], [[[0.25, 0.75], [0.5, 0.5]]])
    # Values 4 and 8: 1/4·4 + 3/4·8 = 7 and 1/2·4 + 1/2·8 = 6; the output widens them to two.
    assert_close(result.contextual, [[7, 70], [6, 60]])


def test_each_head_adds_the_word_bias_by_its_own_factor():
    # Biases 0 and ln 3. Factor 2: 1 : 9; factor 1: 1 : 3; factor 0: 1 : 1; factor -1: 3 : 1.
    start = sentence(np.zeros((2, 4)), word_bias=[0, math.log(3)])
    scoring = Scoring(word_bias=True, word_bias_scale=np.array([2.0, 1.0, 0.0, -1.0]))
    weights = contextualize(start, [Layer(4, scoring=scoring)], ["weights"]).records[0]["weights"]
    assert_close(weights[:, 0], [[0.1, 0.9], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    assert_close(weights[:, 1], weights[:, 0])


def test_a_rectangular_projection_with_bias_multiplies_from_the_right():
    # [1, 2, 3]·[[1, 4], [2, 5], [3, 6]] = [1+4+9, 4+10+18] = [14, 32], plus [10, -1].
    p = Projection(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]), np.array([10.0, -1.0]))
    assert_close(p(np.array([[1.0, 2.0, 3.0]])), [[24, 31]])


def test_heads_are_blocks_of_adjacent_columns():
    # Two tokens of width 6 in three heads of two columns.
    x = np.array([[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]])
    assert_close(split_heads(x, 3), [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4, 5], [14, 15]]])


def test_residuals():
    x, output = np.array([[8.0, 6.0], [0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])
    assert_close(Residual("none", share=9)(x, output), output)
    assert_close(Residual("add", share=9)(x, output), [[11, 10], [0, 0]])
    # unit((3, 4)) = (0.6, 0.8), half of unit((8, 6)) = (0.4, 0.3). Position 0 with d = 2 is
    # (sin 0, cos 0) = (0, 1), times 3; a zero row has no position.
    assert_close(Residual("unit", share=0.5, position_share=3)(x, output), [[1, 1.1 + 3], [0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("other", [0, 1e-30, 1e30, np.inf])
def test_unit_gives_a_row_the_same_bits_among_any_other_rows(dtype, other):
    assert_close(unit(np.array([[0.0, 0.0], [-3.0, 4.0]])), [[0, 0], [-0.6, 0.8]])
    rows = np.random.default_rng(3).standard_normal((7, 101)).astype(dtype)
    expected = unit(rows)
    with_other = np.concatenate([np.full((1, 101), other, dtype), rows])
    assert unit(with_other)[1:].tobytes() == expected.tobytes()
    assert unit(rows[2:3]).tobytes() == expected[2:3].tobytes()


def test_layer_norm_of_one_and_three():
    # Mean 2, deviations -1 and 1, variance (1 + 1)/2 = 1: (-1, 1), times (10, 20) plus (5, 7).
    norm = LayerNorm(np.array([10.0, 20.0]), np.array([5.0, 7.0]), epsilon=0.0)
    assert_close(norm(np.array([[1.0, 3.0]])), [[-5, 27]])


def test_feed_forward_with_relu():
    # [1, -2]·[[1, 0, 2], [0, 1, 1]] = [1, -2, 0], plus [0, 1, 5] = [1, -1, 5], relu: [1, 0, 5].
    # [1, 0, 5]·[[1, 2], [3, 4], [5, 6]] = [1 + 25, 2 + 30] = [26, 32], plus [100, 0].
    network = FeedForward(
        Projection(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([0.0, 1.0, 5.0])),
        Projection(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([100.0, 0.0])),
        "relu",
    )
    assert_close(network(np.array([[1.0, -2.0]])), [[126, 32]])


def test_sinusoids_of_the_first_positions():
    # d = 4: rates 1 and 10000^(-1/2) = 0.01. Position p: sin p, cos p, sin 0.01p, cos 0.01p,
    # and since each pair has sin² + cos² = 1, the length is √2.
    expected = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(3)]
    assert_close(sinusoids(3, 4), np.array(expected) / math.sqrt(2))
    # d = 3: rates 1 and 10000^(-2/3). The last cosine is left out, so position 0 is (0, 1, 0).
    row = np.array([math.sin(1), math.cos(1), math.sin(10_000 ** (-2 / 3))])
    assert_close(sinusoids(2, 3), [[0, 1, 0], row / math.sqrt(row @ row)])


def test_cached_position_vectors_are_read_only():
    for array in (sinusoids(2, 4), relative_bias(np.zeros((1, 3)), range(2), 2)):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 7


@pytest.mark.parametrize(("norm", "expected"), [("before", [0, 4]), ("after", [-1, 1])])
def test_norm_of_the_input_or_of_the_sum(norm, expected):
    # One token (1, 3) attends to itself. Before: its norm (-1, 1), plus the residual (1, 3).
    # After: the sum (2, 6), mean 4, deviations -2 and 2, variance 4.
    layer_norm = LayerNorm(np.ones(2), np.zeros(2), epsilon=0.0)
    layer = Layer(residual=Residual("add"), norm=norm, attention_norm=layer_norm)
    assert_close(contextualize(sentence([[1, 3]]), [layer]).contextual, [expected])


@pytest.mark.parametrize(
    "layer",
    [
        Layer(),
        full_layer(3),
        full_layer(4, norm="before", scoring=Scoring(mask="other-words", word_bias=True)),
        full_layer(5, scoring=Scoring(mask="others", position_bias=np.eye(3, 7, dtype="f4"))),
    ],
)
@pytest.mark.parametrize("n", [1, 4, 70])
def test_attention_at_single_tokens_is_that_of_the_whole_layer(layer, n):
    rng = np.random.default_rng(n)
    known = rng.random((3, n)) < 0.8
    vectors = normal(rng, 3, n, 5) * known[..., None]
    stack = SentenceArrays(vectors, known, rng.integers(0, 3, (3, n)), normal(rng, 3, n))
    sentences, positions = np.repeat([0, 2], n), np.tile(np.arange(n), 2)
    with np.errstate(all="ignore"):
        every = layer(vectors, stack).attended
        found = layer.attended_at(vectors, stack, sentences, positions)
        alone = layer.attended_at(vectors, stack, sentences[-1:], positions[-1:])
    np.testing.assert_allclose(found, every[sentences, positions], atol=2e-6)
    assert np.array_equal(alone[0], found[-1])
