"""Attention weights in closed form, at points derived by hand."""

import tracemalloc
from dataclasses import replace
from math import exp, log, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.engine import unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Projection, contextualize
from polyseme.importing.closed_form import (
    FREQUENT,
    MIN_EIGENVALUE,
    POSITION_SHARE,
    REACH,
    SHARE,
    SPREAD,
    association,
    closed_form,
    feature_projection,
    frequencies_by_rank,
    half_whitening,
    informativeness,
    nearness,
    sentence_whitening,
)
from polyseme.importing.weights import in_closed_form
from polyseme.models.model import RARE


def test_informativeness_by_hand():
    found = informativeness(np.array([0.0, 1e-3, 0.05, 1.0]))
    expected = [0, log(1 / 2), log(1 / 51), log(1 / 1001)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


def test_nearness_by_hand():
    table = nearness()
    assert (table.shape, table.dtype, REACH) == ((1, 33), np.float32, 16)
    for distance in (0, 1, 2, 4, 16):
        expected = log1p(2 * exp(-(distance - 1) / 3))
        assert table[0, REACH + distance] == pytest.approx(expected, rel=1e-6)
        assert table[0, REACH - distance] == table[0, REACH + distance]


def test_frequencies_sum_to_one_and_fall_with_the_rank():
    p = frequencies_by_rank(11)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(p[0] / p, (np.arange(1, 12) + 2.7) / 3.7)


def mixed(seed, rows, d):
    """Vectors with correlated columns of different means and sizes."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((d, d)) + np.eye(d)
    return rng.standard_normal((rows, d)) @ mixing * rng.uniform(0.1, 9, d) + rng.normal(0, 3, d)


def test_half_whitening_divides_by_the_square_root_of_deviations():
    """The eigenvalues of the covariance get the power −0.375, and its directions stay."""
    vectors = mixed(1, 211, 7)
    projection = half_whitening(vectors)
    assert (projection.weight.dtype, projection.bias.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(projection(vectors).mean(axis=0), 0, atol=1e-4)
    standard = (vectors - vectors.mean(0)) / vectors.std(0)
    values, directions = np.linalg.eigh(standard.T @ standard / 211)
    values = np.maximum(values, MIN_EIGENVALUE * values[-1])
    weight = projection.weight.astype(np.float64) * vectors.std(0)[:, None]
    np.testing.assert_allclose(weight @ directions, directions * values**-0.375, atol=1e-4)


def test_the_rows_of_an_unsorted_file_are_all_sampled():
    vectors = np.zeros((3 * FREQUENT, 2), np.float32)
    vectors[FREQUENT:, 0], vectors[2 * FREQUENT :, 1] = 3, 6
    (layer,) = in_closed_form(vectors, None, by_rank=False).layers
    mean = np.array([[2, 2]], np.float32)  # 3 in two thirds of the rows, 6 in one
    np.testing.assert_allclose(layer.value(mean), 0, atol=1e-5)
    assert layer.value.weight.any() and layer.key.weight.any()
    (layer,) = in_closed_form(vectors, None, by_rank=True).layers
    assert not layer.value.weight.any() and not layer.key.weight.any()
    counts = np.arange(1, len(vectors) + 1)  # the last words are the most frequent ones
    (layer,) = in_closed_form(vectors, counts, by_rank=False).layers
    assert not layer.value.weight.any()


def test_the_factor_of_small_eigenvalues_is_bounded():
    # The two columns are almost equal, so their difference is a rounding error.
    column = mixed(19, 211, 1)
    twins = np.c_[column, column + 1e-9 * mixed(20, 211, 1)]
    weight = half_whitening(twins).weight.astype(np.float64) * twins.std(0)[:, None]
    factors = np.linalg.eigvalsh((weight + weight.T) / 2)
    np.testing.assert_allclose(factors, [2**-0.375, (2 * MIN_EIGENVALUE) ** -0.375], rtol=1e-5)


def test_a_constant_column_is_removed():
    others = mixed(21, 211, 3)
    vectors = np.c_[others, np.full(211, 1e4)].astype(np.float32)
    projection = half_whitening(vectors)
    assert not projection.weight[3].any()
    np.testing.assert_allclose(projection.weight[:3, :3], half_whitening(others).weight, rtol=1e-3)
    assert np.abs(projection(vectors)).max() < 30


def test_features_have_leading_components_of_the_values():
    vectors, p = mixed(22, 211, 11), frequencies_by_rank(211)
    value = half_whitening(vectors)
    features = feature_projection(vectors, value, p)
    assert (features.context.shape, features.neighbors.weight.shape) == ((11, 3), (11, 4))
    values = value(vectors)
    # Columns of the context: uncorrelated over the words, with the three largest variances.
    variances = np.cov((values @ features.context).T)
    largest = np.sort(np.linalg.eigvalsh(np.cov(values.T)))[:-4:-1]
    np.testing.assert_allclose(variances, np.diag(largest), atol=1e-4)
    # Columns of a neighbor: likewise for words drawn by frequency, divided by the deviation.
    neighbors = features.neighbors(vectors)
    np.testing.assert_allclose(p @ neighbors, 0, atol=1e-5)
    variances = np.cov(neighbors.T, aweights=p, ddof=0)
    largest = np.linalg.eigvalsh(np.cov(values.T, aweights=p, ddof=0))[:-5:-1]
    np.testing.assert_allclose(variances, np.diag(largest / largest.sum()), atol=1e-4)
    assert p @ np.square(neighbors).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_two_fifths_of_the_columns_are_for_each_neighbor():
    for d, widths in ((2, None), (3, (1, 1)), (300, (60, 120))):
        vectors = np.random.default_rng(23).standard_normal((11, d))
        features = feature_projection(vectors, half_whitening(vectors), np.full(11, 1 / 11))
        found = features and (features.context.shape[1], features.neighbors.weight.shape[1])
        assert found == widths


DEGENERATE = {
    "a constant column": np.c_[mixed(6, 41, 5), np.full(41, 3.0)],
    "two equal columns": mixed(7, 41, 5)[:, [0, 1, 2, 0]],
    "fewer words than columns": mixed(8, 3, 7),
    "two words": mixed(9, 2, 5),
    "one word": mixed(10, 1, 5),
    "all words equal": np.ones((11, 5)),
    "all zero": np.zeros((11, 5)),
    "tiny numbers": mixed(11, 41, 5) * 1e-20,
    "one column": mixed(12, 41, 1),
}


def test_the_layer_has_the_documented_parts():
    vectors, p = mixed(18, 41, 5), frequencies_by_rank(41)
    layer = closed_form(vectors, p)
    assert layer.query.weight is None
    assert np.array_equal(layer.key.weight, association(vectors, p).weight)
    assert layer.output.weight is None
    assert (layer.heads, layer.scoring.scale, layer.scoring.word_bias) == (1, False, True)
    assert layer.scoring.mask == "other-words"
    assert np.array_equal(layer.scoring.position_bias, nearness())
    assert layer.residual.kind == "unit"
    assert (layer.residual.share, layer.residual.position_share) == (SHARE, POSITION_SHARE)
    assert not closed_form(vectors, p, informative=False).scoring.word_bias


def contextual(vectors, rows, p, layer):
    """The attention weights and unit vectors of a sentence of known words."""
    bias = informativeness(p)[rows]
    known = np.ones(len(rows), np.bool_)
    sentence = SentenceArrays(vectors[rows], known, np.array(rows), bias)
    done = contextualize(sentence, [layer], ["weights"])
    return done.records[0]["weights"][0], unit(done.contextual)


def test_a_word_attends_more_to_nearer_and_more_informative_words():
    vectors = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
    p = np.array([0.5, 0.001, 0.499])
    layer = replace(closed_form(vectors, p), key=Projection(np.zeros((2, 2), np.float32)))
    weights, _ = contextual(vectors, [0, 1, 2], p, layer)
    terms = [exp(log1p(2 * exp(0)) + log(0.5)), exp(log1p(2 * exp(-1 / 3)) + log(0.001 / 0.5))]
    np.testing.assert_allclose(weights[0], [0, *(term / sum(terms) for term in terms)], rtol=1e-5)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.lists(st.integers(0, 3), min_size=2, max_size=12))
def test_occurrences_in_any_sentence_get_different_vectors(rows):
    vectors, p = mixed(17, 23, 11).astype(np.float32), frequencies_by_rank(23)
    layer = closed_form(vectors, p)
    weights, directions = contextual(vectors, rows, p, layer)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    for row in set(rows):
        same = np.array(rows) == row
        assert same.all() or not weights[same][:, same].any()
        assert len(np.unique(directions[same], axis=0)) == same.sum()


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


@pytest.mark.parametrize("times", [1e-38, 1, 1e18])
@pytest.mark.parametrize("case", DEGENERATE)
def test_a_degenerate_table_gives_finite_weights_and_vectors(case, times):
    vectors = (DEGENERATE[case] * times).astype(np.float32)
    projection, p = half_whitening(vectors), frequencies_by_rank(len(vectors))
    parts = [projection.weight, projection.bias, informativeness(p)]
    if features := feature_projection(vectors, projection, p):
        parts += [features.context, features.neighbors.weight, features.neighbors.bias]
    assert all(np.isfinite(part).all() for part in parts)
    key = association(vectors, p)
    assert np.isfinite(key.weight).all()
    assert key.weight.shape == (vectors.shape[1],) * 2
    layer = closed_form(vectors, p)
    weights, directions = contextual(vectors, [0, len(vectors) // 2, 0], p, layer)
    assert np.isfinite(directions).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)


def test_memory_does_not_grow_with_the_vocabulary():
    rows, width = 3_000_000, 20
    line = np.arange(width, dtype=np.float32) ** 2
    vectors = np.broadcast_to(line, (rows, width))  # takes no memory of its own
    for by_rank in (True, False):
        tracemalloc.start()
        in_closed_form(vectors, None, by_rank=by_rank)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Five columns of the vocabulary, such as frequencies and ranks.
        assert peak < 6 * FREQUENT * width * 8 + 5 * rows * 8 < rows * width * 4


def test_whitening_is_that_of_random_sentences():
    """The vectors spread more along the first axes."""
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((300, 5)) * [4, 3, 2, 1, 1] + [3, 0, 0, 0, 0]
    vectors, p = vectors.astype(np.float32), 1 / np.arange(1, 301)
    p /= p.sum()
    bias = np.log(1e-3 / (1e-3 + p)).astype(np.float32)
    found = sentence_whitening(vectors, bias)
    rng = np.random.default_rng(1)
    drawn = rng.choice(300, (40_000, 60), p=p)
    weights = 1e-4 / (1e-4 + p[drawn])
    sentences = (weights[..., None] * unit(vectors)[drawn]).sum(axis=1)
    sentences /= weights.sum(axis=1, keepdims=True)
    mean = sentences.mean(axis=0)
    eigenvalues, axes = np.linalg.eigh(np.cov(sentences.T))
    weight = (axes * eigenvalues**-0.375) @ axes.T
    size = np.linalg.norm(found.weight) / np.linalg.norm(weight)
    np.testing.assert_allclose(found.weight, size * weight, rtol=0.05, atol=0.02)
    # The mean of random sentences becomes zero.
    assert np.linalg.norm(found(mean[None].astype(np.float32))) < 0.02


def test_equal_vectors_and_words_without_frequencies_are_finite():
    same, different = np.ones((7, 3), np.float32), np.eye(4, 3, dtype=np.float32)
    cases = ((same, np.zeros(7)), (different, np.full(4, 9.0)), (different[:1], np.zeros(1)))
    for vectors, bias in cases:
        found = sentence_whitening(vectors, bias.astype(np.float32))
        assert np.isfinite(found.weight).all() and np.isfinite(found.bias).all()
