"""The parts of a layer by paper and pencil; the derivation stands beside each."""

import math

import numpy as np
import pytest

from polyseme.engine.arrays import unit
from polyseme.engine.attention import masked_keys, softmax
from polyseme.engine.layers import (
    FeedForward,
    LayerNorm,
    Projection,
    Residual,
    gelu,
    join_heads,
    relu,
    split_heads,
)
from polyseme.engine.positions import relative_bias, sinusoids


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_softmax_of_zero_and_log_three():
    # e^0 = 1 and e^(ln 3) = 3, together 4: a quarter and three quarters.
    assert_close(softmax(np.array([0.0, math.log(3)])), [0.25, 0.75])


def test_softmax_of_equal_scores_is_even():
    # Any score, four times: each gets 1/4, however large the score.
    for score in (-1e300, -7.0, 0.0, 1e300):
        assert_close(softmax(np.full(4, score)), [0.25] * 4)


def test_softmax_takes_its_maximum_over_what_is_visible():
    # The hidden 5000 neither counts nor pushes the others into underflow: 1 : 3 as before.
    scores = np.array([[5000.0, 0.0, math.log(3)]])
    assert_close(softmax(scores, np.array([[True, False, False]])), [[0, 0.25, 0.75]])


def test_softmax_does_not_change_when_all_scores_rise_together():
    assert_close(softmax(np.array([1000.0, 1000.0 + math.log(3)])), [0.25, 0.75])


def test_softmax_works_along_the_last_axis():
    # Rows 1 : 1 : 2 and 1 : 4 : 5.
    scores = np.log(np.array([[[1.0, 1.0, 2.0], [1.0, 4.0, 5.0]]]))
    assert_close(softmax(scores), [[[0.25, 0.25, 0.5], [0.1, 0.4, 0.5]]])


def test_a_rectangular_projection_with_bias_multiplies_from_the_right():
    # [1, 2, 3]·[[1, 4], [2, 5], [3, 6]] = [1+4+9, 4+10+18] = [14, 32], plus [10, -1].
    p = Projection(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]), np.array([10.0, -1.0]))
    assert_close(p(np.array([[1.0, 2.0, 3.0]])), [[24, 31]])


def test_heads_are_blocks_of_neighbouring_columns():
    # Two tokens of width 6 in three heads of two columns.
    x = np.array([[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]])
    cut = split_heads(x, 3)
    assert_close(cut, [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4, 5], [14, 15]]])
    assert_close(join_heads(cut), x)


def test_relative_bias_of_rows_in_the_middle_of_a_sentence():
    # R = 1, table (-1: 7, 0: 8, +1: 9). Rows 1 and 2 of four; entry (i, j) goes by j - i.
    table = np.array([[7.0, 8.0, 9.0]])
    assert_close(relative_bias(table, range(1, 3), 4), [[[7, 8, 9, 9], [7, 7, 8, 9]]])


def test_visibility_of_a_block_of_rows():
    # Row 1 of three, words 0 1 0, token 2 unknown.
    known = np.array([True, True, False])
    words = np.array([0, 1, 0])
    assert masked_keys(known, words, "all", range(1, 2)).tolist() == [[False, False, True]]
    assert masked_keys(known, words, "others", range(1, 2)).tolist() == [[False, True, True]]
    others = masked_keys(known, words, "other-words", range(3))
    assert others.tolist() == [[True, False, True], [False, True, True], [True, False, True]]
    assert masked_keys(None, words, "all", range(3)) is None
    assert masked_keys(None, words, "others", range(1, 2)).tolist() == [[False, True, False]]


def test_a_token_beside_its_own_word_alone_looks_at_itself():
    for words in ([4], [4, 4], [4, 4, 4]):
        hidden = masked_keys(None, np.array(words), "other-words", range(len(words)))
        assert np.array_equal(hidden, ~np.eye(len(words), dtype=bool))
    # Rows 2 and 3 of five: each looks at itself, in columns 2 and 3.
    later = masked_keys(None, np.full(5, 4), "other-words", range(2, 4))
    assert np.array_equal(later, ~np.eye(2, 5, 2, dtype=bool))


def test_residual_none_and_add():
    x, output = np.array([[1.0, 2.0]]), np.array([[10.0, 20.0]])
    assert_close(Residual("none", share=9)(x, output), [[10, 20]])
    assert_close(Residual("add", share=9)(x, output), [[11, 22]])


def test_unit_residual_of_three_four_five_vectors():
    # (3, 4)/5 = (0.6, 0.8) is the output; (8, 6)/10 = (0.8, 0.6) the start, of which half.
    result = Residual("unit", share=0.5)(np.array([[8.0, 6.0]]), np.array([[3.0, 4.0]]))
    assert_close(result, [[0.6 + 0.4, 0.8 + 0.3]])


def test_unit_residual_adds_the_place_to_rows_with_content_only():
    # Place 0 with d = 2 is (sin 0, cos 0) = (0, 1), of which 3; place 1 has no content.
    x = np.array([[8.0, 6.0], [0.0, 0.0]])
    output = np.array([[3.0, 4.0], [0.0, 0.0]])
    result = Residual("unit", share=0.5, position_share=3)(x, output)
    assert_close(result, [[1.0, 1.1 + 3], [0, 0]])


def test_unit_keeps_zero_and_sets_other_lengths_to_one():
    rows = np.array([[0.0, 0.0], [-3.0, 4.0], [0.0, 7.0]])
    assert_close(unit(rows), [[0, 0], [-0.6, 0.8], [0, 1]])


def test_layer_norm_of_one_and_three():
    # Mean 2, deviations -1 and 1, variance (1 + 1)/2 = 1: (-1, 1), times (10, 20) plus (5, 7).
    norm = LayerNorm(np.array([10.0, 20.0]), np.array([5.0, 7.0]), epsilon=0.0)
    assert_close(norm(np.array([[1.0, 3.0]])), [[-5, 27]])


def test_layer_norm_adds_epsilon_under_the_root():
    # Variance 1 and epsilon 3: divided by √4 = 2.
    norm = LayerNorm(np.ones(2), np.zeros(2), epsilon=3.0)
    assert_close(norm(np.array([[1.0, 3.0]])), [[-0.5, 0.5]])


def test_feed_forward_with_relu():
    # [1, -2]·[[1, 0, 2], [0, 1, 1]] = [1, -2, 0], plus [0, 1, 5] = [1, -1, 5], relu: [1, 0, 5].
    # [1, 0, 5]·[[1, 2], [3, 4], [5, 6]] = [1 + 25, 2 + 30] = [26, 32], plus [100, 0].
    network = FeedForward(
        Projection(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([0.0, 1.0, 5.0])),
        Projection(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([100.0, 0.0])),
        "relu",
    )
    assert_close(network(np.array([[1.0, -2.0]])), [[126, 32]])


def test_relu():
    assert relu(np.array([-2.0, 0.0, 3.0])).tolist() == [0, 0, 3]


def test_gelu_from_its_formula_at_a_point_where_the_tanh_is_known():
    # √(2/π)·(x + 0.044715·x³) = artanh(1/2) = ln(3)/2 has its root at x ≈ 0.6745 (the quartile
    # of the normal distribution is near); there gelu(x) = 0.5·x·(1 + 1/2) = 0.75·x.
    x = 0.6
    for _ in range(50):  # Newton's method
        value = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3) - math.log(3) / 2
        x -= value / (math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2))
    assert x == pytest.approx(0.6745, abs=1e-3)
    assert_close(gelu(np.array([x, -x])), [0.75 * x, -0.25 * x])


def test_gelu_of_large_numbers_is_themselves_or_zero():
    # tanh is 1 or -1 there; gelu(x) - gelu(-x) = x everywhere.
    assert_close(gelu(np.array([0.0, 50.0, -50.0])), [0, 50, 0])
    x = np.linspace(0, 4, 9)
    assert_close(gelu(x) - gelu(-x), x)


def test_gelu_at_one():
    # e^(2y) with y = √(2/π)·1.044715 = 0.833560… : tanh y = (e^(2y) - 1)/(e^(2y) + 1).
    e = math.exp(2 * math.sqrt(2 / math.pi) * 1.044715)
    assert_close(gelu(np.array([1.0])), [0.5 * (1 + (e - 1) / (e + 1))])
    assert gelu(np.array([1.0]))[0] == pytest.approx(0.8412, abs=5e-5)


def test_sinusoids_of_the_first_places():
    # d = 4: rates 1 and 10000^(-1/2) = 0.01. Place p: sin p, cos p, sin 0.01p, cos 0.01p,
    # and since each pair has sin² + cos² = 1, the length is √2.
    place = sinusoids(3, 4)
    assert_close(place[0], np.array([0, 1, 0, 1]) / math.sqrt(2))
    for p in (1, 2):
        row = [math.sin(p), math.cos(p), math.sin(0.01 * p), math.cos(0.01 * p)]
        assert_close(place[p], np.array(row) / math.sqrt(2))


def test_sinusoids_of_an_odd_width_end_with_a_sine():
    # d = 3: rates 1 and 10000^(-2/3). The last cosine is cut off, so place 0 is (0, 1, 0).
    place = sinusoids(2, 3)
    assert_close(place[0], [0, 1, 0])
    row = np.array([math.sin(1), math.cos(1), math.sin(10_000 ** (-2 / 3))])
    assert_close(place[1], row / math.sqrt(row @ row))


def test_place_vectors_are_shared_and_so_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        sinusoids(2, 4)[0, 0] = 7
    with pytest.raises(ValueError, match="read-only"):
        relative_bias(np.zeros((1, 3)), range(2), 2)[0, 0, 0] = 7
