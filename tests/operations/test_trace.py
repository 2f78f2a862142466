"""Traces of given arrays and of texts: shapes, heads, conventions, limits, and the arithmetic."""

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from polyseme.engine.layers import IDENTITY, FeedForward, Residual
from polyseme.errors import TooLargeError
from polyseme.operations.trace import FLOAT64_BYTES, TraceRequest, WeightsRequest, trace
from tests.operations.calls import EVERY, ask_one, rejected, trace_text
from tests.tiny import LIMITS, deep_model, full_layer, projection

N, D, K, V = 3, 5, 2, 7


def matrices(seed, **shapes):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).tolist() for name, shape in shapes.items()}


def embeddings(n=N, d=D, **options):
    options = {"tokens": ["a"] * n, **options}
    return TraceRequest(**matrices(17, embeddings=(n, d)), **options)


def projected(q=(N, 6), k=(N, 6), v=(N, 21), **options):
    return TraceRequest(tokens=["a"] * N, **matrices(18, queries=q, keys=k, values=v), **options)


def weights(**shapes):
    return WeightsRequest(**matrices(19, **shapes))


def steps_of(request, limits=LIMITS):
    return {step.name: step.values for step in trace(None, request, limits).steps}


RAGGED = [[1.0, 2.0], [3.0], [4.0, 5.0]]
QK = {"query": (D, 4), "key": (D, 4)}
OUTPUT = {"value": (D, V), "output": (D, D)}
COLUMNS = {"convention": "column"}
MISMATCHES = [
    (embeddings(n=2, tokens=["a"] * 3), "/embeddings", "has 2 rows for 3 tokens"),
    (projected(v=(2, 21)), "/values", "has 2 rows for 3 tokens"),
    (TraceRequest(tokens=["a"] * 3, embeddings=RAGGED), "/embeddings/1", "has 1 numbers, not 2"),
    (embeddings(weights=WeightsRequest(value=RAGGED)), "/weights/value/1", "has 1 numbers, not 2"),
    (projected(k=(N, 4)), "/keys", "keys have 4 columns, but queries have 6"),
    (embeddings(weights=weights(query=(D, 3), key=(D, K))), "/weights/key", "keys have 2 columns"),
    (embeddings(weights=weights(query=(V, K), key=(D, K))), "/weights/query", "vectors of width 7"),
    (embeddings(weights=weights(value=(D, V)), **COLUMNS), "/weights/value", "vectors of width 7"),
    (embeddings(weights=weights(**OUTPUT)), "/weights/output", "must be 7 by 5: [h·v, d]"),
    (
        embeddings(weights=weights(value=(V, D), output=(V, D)), **COLUMNS),
        "/weights/output",
        "must be 5 by 7: [d, h·v]",
    ),
    (embeddings(weights=weights(**QK), heads=3), "/heads", "3 heads do not divide 4 columns"),
    (projected(q=(N, 4), k=(N, 4), heads=2), "/heads", "2 heads do not divide 21 columns"),
]


@pytest.mark.parametrize(("request_of", "pointer", "message"), MISMATCHES)
def test_mismatched_shapes_are_rejected_with_a_pointer(request_of, pointer, message):
    with rejected(pointer, message):
        trace(None, request_of, LIMITS)


def test_a_transposed_weight_multiplies_column_vectors_by_hand():
    # W·x by hand: [[1, 2], [3, 4]]·(5, 6) = (17, 39), and in rows (5, 6)·W = (23, 34).
    query = WeightsRequest(query=[[1.0, 2.0], [3.0, 4.0]])
    given: dict[str, Any] = {"tokens": ["a"], "embeddings": [[5.0, 6.0]], "weights": query}
    assert steps_of(TraceRequest(**given))["queries"].tolist() == [[23, 34]]
    columns = TraceRequest(**given, convention="column")
    assert steps_of(columns)["queries"].tolist() == [[17, 39]]


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("convention", ["row", "column"])
def test_the_steps_are_the_arithmetic_of_attention(heads, scale, convention):
    given = weights(query=(D, 6), key=(D, 6), value=(D, 21), output=(21, D))
    sent = given
    if convention == "column":
        sent = WeightsRequest(**{name: np.transpose(matrix).tolist() for name, matrix in given})
    request = embeddings(weights=sent, heads=heads, scale=scale, convention=convention)
    steps, x = steps_of(request), np.array(request.embeddings)
    rows = [x @ np.array(matrix) for matrix in (given.query, given.key, given.value)]
    q, k, v = (matrix.reshape(N, heads, -1).transpose(1, 0, 2) for matrix in rows)
    scores = q @ k.transpose(0, 2, 1)
    a = np.exp(scores / np.sqrt(6 // heads) if scale else scores)
    a /= a.sum(axis=-1, keepdims=True)
    joined = (a @ v).transpose(1, 0, 2).reshape(N, 21)
    output = joined @ np.array(given.output)
    expected = {"embeddings": x, "queries": q, "keys": k, "values": v, "scores": scores}
    # tests/engine/test_trace.py has the steps between these.
    for name, values in (expected | {"weights": a, "output": output}).items():
        assert steps[name].dtype == np.float64
        found = steps[name].reshape(values.shape)
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-12)
    assert ("scaled_scores" in steps, "concatenation" in steps) == (scale, heads > 1)
    projections = dict(
        zip(("queries", "keys", "values"), map(np.ndarray.tolist, rows), strict=True)
    )
    alone = TraceRequest(tokens=["a"] * N, **projections, heads=heads, scale=scale)
    from_projections = steps_of(alone)
    assert list(from_projections) == list(steps)[1:-1]
    for name, values in from_projections.items():
        np.testing.assert_allclose(values, steps[name], rtol=0, atol=1e-12)


TEXT = "bank zebra river didn't apple Apple"


def trace_of(model, layer, text=TEXT, limits=LIMITS):
    return {step.name: step.values for step in trace_text(model, text, layer, limits).steps}


@pytest.mark.parametrize("layer", [0, 1])
def test_a_trace_agrees_with_the_engine_in_float32(deep, layer):
    arrays = ask_one(deep, TEXT, include=EVERY).arrays
    steps = trace_of(deep, layer)
    for part in ("attention", "scores", "queries", "keys", "values"):
        name = "weights" if part == "attention" else part
        assert steps[name].dtype == np.float64
        np.testing.assert_allclose(arrays[part][layer], steps[name], rtol=1e-5, atol=1e-5)
    last = trace_of(deep, 1)["contextual"]
    np.testing.assert_allclose(arrays["contextual"], last, rtol=1e-5, atol=1e-5)
    assert np.array_equal(trace_of(deep, 0)["embeddings"], arrays["static"])


def test_the_step_visible_has_0_for_masked_keys(deep):
    s = trace_of(deep, 0, "bank Bank zebra river")
    assert s["visible"].tolist() == [[0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0]]


def test_steps_have_their_operands_and_factors(deep):
    steps = {step.name: step for step in trace_text(deep, TEXT, 1).steps}
    assert (steps["scores"].operands, steps["scores"].factors) == (["queries", "keys"], [])
    residual = steps["residual"]
    assert residual.operands == ["output", "embeddings", "position"]
    assert residual.factors == [1, 0.5, 0.25]  # of `deep_model`


def test_a_missing_layer_is_rejected(deep, plain):
    with rejected("/layer", "the model's layers are 0 to 1"):
        trace_text(deep, TEXT, 2)
    with rejected("/layer", "the model has one layer, 0"):
        trace_text(plain, TEXT, 1)


def check_limits(call):
    """See a trace rejected one byte below its size, for both limits; `call` takes the limits."""
    values = [step.values for step in call(LIMITS).steps]
    estimate = FLOAT64_BYTES * sum(array.size for array in values)
    size = max(estimate, len(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)))
    for setting in ("max_trace_bytes", "max_answer_bytes"):
        with pytest.raises(TooLargeError) as caught:
            call(replace(LIMITS, **{setting: size - 1}))
        assert caught.value.members()["setting"] == setting


LARGE = {
    "many narrow tokens": embeddings(n=61, d=1),
    "embeddings": embeddings(n=31, d=41),
    "weights": embeddings(
        n=23, d=29, weights=weights(query=(29, 34), key=(29, 34), value=(29, 38)), heads=2
    ),
    "an output": embeddings(n=2, d=97, weights=weights(value=(97, 6), output=(6, 97)), heads=1),
    "projected": projected(q=(N, 2), k=(N, 2), v=(N, 202), heads=2),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_trace_over_the_limit_is_rejected(case):
    check_limits(lambda limits: trace(None, LARGE[case], limits))


RNG = np.random.default_rng(4)
UNIT = Residual("unit", 0.5, 0.25)
WIDE = FeedForward(projection(RNG, 53, 997), projection(RNG, 997, 53))
NO_INNER = FeedForward(IDENTITY, projection(RNG, 53, 53))
BROAD = {
    "attention": full_layer(3, d=53, heads=2, k=17, v=23, residual=UNIT),
    "feed-forward": full_layer(3, d=53, heads=1, feed_forward=WIDE),
    "no inner weight": full_layer(d=53, heads=1, k=1, v=1, residual=UNIT, feed_forward=NO_INNER),
}


@pytest.mark.parametrize("part", BROAD)
@pytest.mark.parametrize("text", ["bank", " ".join(["river bank money did"] * 7)], ids=len)
def test_a_trace_of_a_text_over_the_limit_is_rejected(tmp_path, part, text):
    vectors = np.random.default_rng(3).standard_normal((11, 53)).astype(np.float32)
    broad = deep_model(tmp_path, vectors=vectors, layers=[BROAD[part]])
    check_limits(lambda limits: trace_text(broad, text, 0, limits=limits))
