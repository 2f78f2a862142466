"""Layers and their parts by hand, with each derivation in its test."""

import math

import numpy as np
import pytest

from polyseme.engine.arrays import unit
from polyseme.engine.attention import Scoring, SentenceArrays, relative_bias, sinusoids
from polyseme.engine.layers import (
    FeedForward,
    Layer,
    LayerNorm,
    Projection,
    Residual,
    contextualize,
    split_heads,
)
from tests.tiny import full_layer


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-12)


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
    sentence = SentenceArrays(np.array([[1.0, 3.0]]), np.ones(1, np.bool_), np.arange(1))
    assert_close(contextualize(sentence, [layer]).contextual, [expected])


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
    vectors = rng.standard_normal((3, n, 5)).astype(np.float32) * known[..., None]
    bias = rng.standard_normal((3, n)).astype(np.float32)
    stack = SentenceArrays(vectors, known, rng.integers(0, 3, (3, n)), bias)
    sentences, positions = np.repeat([0, 2], n), np.tile(np.arange(n), 2)
    with np.errstate(all="ignore"):
        every = layer(vectors, stack).attended
        found = layer.attended_at(vectors, stack, sentences, positions)
        alone = layer.attended_at(vectors, stack, sentences[-1:], positions[-1:])
    np.testing.assert_allclose(found, every[sentences, positions], atol=2e-6)
    assert np.array_equal(alone[0], found[-1])
