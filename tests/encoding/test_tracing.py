"""The steps of brought numbers: shapes that do not fit, heads, and the two conventions."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from polyseme.encoding.trace import Numbers, trace_document, trace_numbers
from polyseme.errors import InvalidError, TooLargeError
from tests.tiny import LIMITS

RNG = np.random.default_rng(17)
N, D, K, V = 3, 5, 2, 7


def rows(*shape):
    return RNG.standard_normal(shape).tolist()


def embeddings(n=N, d=D, **options):
    return Numbers(["a"] * n, {"embeddings": rows(n, d)}, **options)


def projected(q=(N, 6), k=(N, 6), v=(N, 21), **options):
    matrices = {"queries": rows(*q), "keys": rows(*k), "values": rows(*v)}
    return Numbers(["a"] * N, matrices, **options)


def weights(**shapes):
    return {name: rows(*shape) for name, shape in shapes.items()}


def trace(numbers, limits=LIMITS):
    return {step.name: step.values for step in trace_numbers(numbers, limits)}


RAGGED = [[1.0, 2.0], [3.0], [4.0, 5.0]]
MISFITS = {
    "too few embeddings": (
        Numbers(["a", "b"], {"embeddings": rows(3, 5)}),
        "/embeddings",
        "has 3 rows for 2 tokens",
    ),
    "too few values": (projected(v=(2, 21)), "/values", "has 2 rows for 3 tokens"),
    "ragged embeddings": (
        Numbers(["a"] * 3, {"embeddings": RAGGED}),
        "/embeddings/1",
        "has 1 numbers, not 2",
    ),
    "a ragged weight": (
        embeddings(d=3, weights={"value": RAGGED}),
        "/weights/value/1",
        "has 1 numbers, not 2",
    ),
    "keys of another width": (
        projected(k=(N, 4)),
        "/keys",
        "keys have 4 columns where queries have 6",
    ),
    "key weights of another width": (
        embeddings(weights=weights(query=(D, 3), key=(D, K))),
        "/weights/key",
        "keys have 2 columns where queries have 3",
    ),
    "query weights for other vectors": (
        embeddings(weights=weights(query=(V, K), key=(D, K))),
        "/weights/query",
        "takes vectors of width 7, the embeddings have 5",
    ),
    "value weights for other vectors in columns": (
        embeddings(weights=weights(value=(D, V)), transposed=True),
        "/weights/value",
        "takes vectors of width 7, the embeddings have 5",
    ),
    "an output for other values": (
        embeddings(weights=weights(value=(D, V), output=(D, D))),
        "/weights/output",
        "has to be 7 by 5: [h·v, d]",
    ),
    "an output for other values in columns": (
        embeddings(weights=weights(output=(D, V)), transposed=True),
        "/weights/output",
        "has to be 5 by 5: [h·v, d]",
    ),
    "heads for the queries": (
        embeddings(weights=weights(query=(D, 4), key=(D, 4)), heads=3),
        "/heads",
        "3 heads do not divide 4 columns",
    ),
    "heads for the values": (
        projected(q=(N, 4), k=(N, 4), heads=2),
        "/heads",
        "2 heads do not divide 21 columns",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_shapes_that_do_not_fit_are_refused_by_their_place(case):
    numbers, pointer, message = MISFITS[case]
    with pytest.raises(InvalidError) as caught:
        trace_numbers(numbers, LIMITS)
    (error,) = caught.value.errors
    assert (error.pointer, error.message) == (pointer, message)


def test_columns_are_rows_with_weights_turned():
    given = weights(query=(D, 6), key=(D, 6), value=(D, 21), output=(21, D))
    turned = {name: np.transpose(matrix).tolist() for name, matrix in given.items()}
    row = embeddings(weights=given, heads=3)
    column = replace(row, weights=turned, transposed=True)
    for name, values in trace(row).items():
        np.testing.assert_allclose(trace(column)[name], values, rtol=0, atol=1e-14)


def test_a_column_weight_takes_a_column_vector_to_its_query():
    # W·x by hand: [[1, 2], [3, 4]]·(5, 6) = (17, 39), and in rows (5, 6)·W = (23, 34).
    given = Numbers(["a"], {"embeddings": [[5.0, 6.0]]}, {"query": [[1.0, 2.0], [3.0, 4.0]]})
    assert trace(given)["queries"].tolist() == [[23, 34]]
    assert trace(replace(given, transposed=True))["queries"].tolist() == [[17, 39]]


def test_each_head_is_the_attention_of_its_columns():
    numbers = projected(heads=3)
    whole = trace(numbers)
    for head in range(3):
        cut = {"queries": (2 * head, 2), "keys": (2 * head, 2), "values": (7 * head, 7)}
        matrices = {
            name: [row[start : start + width] for row in numbers.matrices[name]]
            for name, (start, width) in cut.items()
        }
        alone = trace(Numbers(numbers.tokens, matrices))
        assert list(alone) == list(whole)
        for name, values in alone.items():
            np.testing.assert_allclose(whole[name][head], values, rtol=0, atol=1e-14)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_the_steps_are_the_arithmetic_of_attention(heads, scale):
    given = weights(query=(D, 6), key=(D, 6), value=(D, 21), output=(21, D))
    numbers = embeddings(weights=given, heads=heads, scale=scale)
    steps = trace(numbers)
    x = np.array(numbers.matrices["embeddings"])
    q, k, v = (
        (x @ np.array(given[name])).reshape(N, heads, -1).transpose(1, 0, 2)
        for name in ("query", "key", "value")
    )
    scores = q @ k.transpose(0, 2, 1)
    scaled = scores / np.sqrt(6 // heads) if scale else scores
    a = np.exp(scaled) / np.exp(scaled).sum(axis=-1, keepdims=True)
    context = a @ v
    output = context.transpose(1, 0, 2).reshape(N, 21) @ np.array(given["output"])
    expected = {
        "embeddings": x[None],
        "queries": q,
        "keys": k,
        "values": v,
        "scores": scores,
        "scaled_scores": scaled,
        "weights": a,
        "weighted_values": a[..., None] * v[:, None],
        "context": context,
        "output": output[None],
    }
    if not scale:
        del expected["scaled_scores"]
    assert list(steps) == list(expected)
    for name, values in expected.items():
        by_head = heads > 1 and name not in {"embeddings", "output"}
        found = steps[name] if by_head else steps[name][None]
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-12)


def test_without_weights_everything_is_the_embeddings():
    steps = trace(embeddings())
    for name in ("queries", "keys", "values"):
        assert np.array_equal(steps[name], steps["embeddings"])


def test_a_trace_of_too_many_tokens_is_refused():
    limits = replace(LIMITS, max_trace_tokens=2)
    for numbers in (embeddings(), projected()):
        with pytest.raises(TooLargeError) as caught:
            trace_numbers(numbers, limits)
        assert caught.value.members() == {"setting": "max_trace_tokens", "limit": 2, "size": 3}
    assert trace_numbers(embeddings(n=2), limits)


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
def test_no_trace_is_larger_than_its_limit(case):
    numbers = LARGE[case]
    document = trace_document(numbers.tokens, trace_numbers(numbers, LIMITS))
    only_numbers = [step["values"] for step in document["steps"]]
    size = len(orjson.dumps(only_numbers, option=orjson.OPT_SERIALIZE_NUMPY))
    for setting in ("max_trace_bytes", "max_answer_bytes"):
        with pytest.raises(TooLargeError) as caught:
            trace_numbers(numbers, replace(LIMITS, **{setting: size - 1}))
        assert caught.value.members()["setting"] == setting
