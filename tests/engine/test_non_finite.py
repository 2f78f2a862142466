"""No result has NaN or infinity, and no NumPy warning is issued, which pytest makes an error."""

import math

import numpy as np
import pytest

from polyseme.engine import NonFiniteError, require_finite, unit
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, LayerNorm, Projection, Residual, contextualize
from polyseme.engine.trace import Weights, trace_embeddings, trace_layer, trace_projected
from tests.engine import cases
from tests.engine.cases import random_case
from tests.tiny import normal


def sentence(vectors, known=None, word_bias=None, dtype=np.float32):
    return cases.sentence(np.array(vectors, dtype), known, None, word_bias)


def weights_of(start, scoring):
    """The attention weights of one head without projections."""
    return contextualize(start, [Layer(scoring=scoring)], ["weights"]).records[0]["weights"][0]


VECTORS, ZEROS = normal(np.random.default_rng(0), 5, 3), np.zeros((3, 2))
NON_FINITE = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("bad", NON_FINITE)
def test_require_finite_rejects_nan_and_infinity(bad):
    with pytest.raises(NonFiniteError):
        require_finite(np.array([[1.0, bad]]))
    for good in (np.array([1.0, 2.0]), np.array([1e300]), np.empty((0, 3))):
        assert require_finite(good) is good


@pytest.mark.parametrize("bad", NON_FINITE)
@pytest.mark.parametrize("layers", [[], [Layer()]])
def test_vectors_that_are_not_finite_raise(bad, layers):
    vectors = VECTORS.copy()
    vectors[2, 1] = bad
    with pytest.raises(NonFiniteError):
        contextualize(sentence(vectors), layers)


def scaled_bias(factor):
    return Scoring(word_bias=True, word_bias_scale=np.array([factor], np.float32))


OVERFLOWS = {
    "scores": (sentence(VECTORS * np.float32(1e25)), Layer()),
    "word bias": (sentence(ZEROS, None, [0, 3e38, 0]), Layer(scoring=scaled_bias(3e38))),
    "negative": (sentence(ZEROS, None, [0, -3e38, 0]), Layer(scoring=scaled_bias(-1e30))),
    "infinite biases": (
        sentence(ZEROS, None, [-math.inf] * 3),
        Layer(scoring=Scoring(word_bias=True)),
    ),
    # Division by an infinite variance would make the finite vector (1e30, -1e30) zero.
    "variance": (
        sentence([[1, -1]]),
        Layer(
            value=Projection(np.eye(2, dtype=np.float32) * np.float32(1e30)),
            norm="after",
            attention_norm=LayerNorm(np.ones(2, np.float32), np.zeros(2, np.float32)),
        ),
    ),
}


@pytest.mark.parametrize(("start", "layer"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_overflow_raises(start, layer):
    with pytest.raises(NonFiniteError):
        contextualize(start, [layer])


def test_an_intermediate_that_overflowed_is_not_returned():
    """Scores of 0 and -infinity give valid weights of 1 and 0, but the scores are not finite."""
    query = Projection(np.array([[1e25]], np.float32))
    key = Projection(np.array([[-1e25]], np.float32), np.array([1e25], np.float32))
    layer = Layer(query=query, key=key)
    start = sentence([[1.0], [1e3]])
    assert contextualize(start, [layer]).contextual.tolist() == [[1], [1]]
    with pytest.raises(NonFiniteError):
        contextualize(start, [layer], ["scores"])


@pytest.mark.parametrize("exponent", range(-44, 39, 3))
def test_any_magnitude_gives_finite_numbers_or_the_error(exponent):
    for seed in range(8):
        case = random_case(seed)
        factor = np.float32(10.0**exponent) / np.float32(8)
        scaled = case.sentence._replace(vectors=case.sentence.vectors * factor, word_bias=None)
        try:
            result = contextualize(scaled, case.layers, ["weights"])
        except NonFiniteError:
            assert exponent > 5
            continue
        assert np.isfinite(result.contextual).all()
        assert all(np.isfinite(a).all() for record in result.records for a in record.values())


@pytest.mark.parametrize("bias", [1e4, 1e30, 3e38])
def test_a_huge_word_bias_takes_all_the_attention(bias):
    weights = weights_of(sentence(VECTORS, None, [0, 0, 0, bias, 0]), Scoring(word_bias=True))
    assert np.array_equal(weights, np.eye(5)[[3] * 5])


@pytest.mark.parametrize("bias", [-1e30, -3e38])
def test_masked_keys_stay_masked_below_the_lowest_scores(bias):
    """The value of masked scores is -infinity, because a score may be any finite number."""
    start = sentence([[1, 2], [0, 0], [3, 4]], [True, False, True])
    weights = weights_of(start, Scoring(position_bias=np.full((1, 3), bias, np.float32)))
    assert not weights[:, 1].any()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_zero_vectors_with_a_unit_residual_stay_zero(n, known):
    layer = Layer(residual=Residual("unit", 0.5, 0.3))
    start = sentence(np.zeros((n, 4)), [known] * n)
    assert not contextualize(start, [layer, layer]).contextual.any()


@pytest.mark.parametrize("magnitude", [1e-45, 1e-30, 1e-20, 1e19, 1e30, 3e38])
def test_unit_of_any_magnitude_has_length_one(magnitude):
    x = np.array([[1, 0, 0], [1, 1, 0], [-1, 1, 1]], np.float32) * np.float32(magnitude)
    lengths = np.linalg.norm(unit(x).astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    assert unit(x).dtype == np.float32


HUGE = np.full((2, 3), 1e200)
TRACES = {
    "embeddings": lambda: trace_embeddings(HUGE, Weights()),
    "projected": lambda: trace_projected(HUGE, HUGE, np.ones((2, 3))),
    "layer": lambda: trace_layer(sentence(HUGE, dtype=np.float64), [Layer()], 0),
    "layer before": lambda: trace_layer(sentence(HUGE, dtype=np.float64), [Layer()] * 2, 1),
    "output": lambda: trace_embeddings(np.ones((2, 3)), Weights(output=np.full((3, 3), 1.7e308))),
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_overflow_of_float64_in_a_trace_raises(trace):
    with pytest.raises(NonFiniteError):
        trace()


def test_a_trace_in_float64_survives_an_overflow_of_float32():
    x = np.array([[1e25, 0], [0, 1e25]])
    steps = {step.name: step.values for step in trace_embeddings(x, Weights())}
    np.testing.assert_allclose(steps["scores"], [[1e50, 0], [0, 1e50]])
    assert steps["weights"].tolist() == [[1, 0], [0, 1]]
