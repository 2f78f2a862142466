"""The examples of teaching notes have the right values; traces have their documented form."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.trace import Weights, trace_embeddings, trace_projected

FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"), parse_float=Decimal)["examples"]
ORDER = (
    *("embeddings", "queries", "keys", "values", "scores", "scaled_scores"),
    *("weights", "weighted_values", "context"),
)
TOLERANCE = 5.1e-5
"""Half a unit of the fourth decimal, with a small margin for ties."""

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["name"])


def floats(values):
    return np.array(values, np.float64)


def trace_of(request):
    """The steps of an example by name."""
    options = {"heads": request.get("heads", 1), "scale": request.get("scale", True)}
    if "embeddings" in request:
        weights = {name: floats(w) for name, w in request.get("weights", {}).items()}
        steps = trace_embeddings(floats(request["embeddings"]), Weights(**weights), **options)
    else:
        projected = (floats(request[name]) for name in ("queries", "keys", "values"))
        steps = trace_projected(*projected, **options)
    return {step.name: step.values for step in steps}


def pick(steps, label):
    """`weights_row_0` is row 0 of the step `weights`, `scores_row_0_1` its entry 1."""
    name, _, index = label.partition("_row_")
    return steps[name][tuple(int(i) for i in index.split("_"))] if index else steps[name]


def decimals(values):
    """The number of printed decimals; Decimal keeps trailing zeros."""
    if isinstance(values, list):
        return max(decimals(v) for v in values)
    return -values.as_tuple().exponent


def printed_values():
    for example in EXAMPLES:
        for label, printed in example.get("printed", {}).items():
            name = f"{example['name']}: {label}"
            yield pytest.param(example, label, printed, id=name)


@every_example
def test_an_example_gives_its_right_values(example):
    steps = trace_of(example["request"])
    for label, right in example["right"].items():
        expected, actual = floats(right), pick(steps, label)
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE, err_msg=label)


@pytest.mark.parametrize(("example", "label", "printed"), list(printed_values()))
def test_a_misprint_is_not_reproduced(example, label, printed):
    """A value equals the printed one, to its printed decimals, only if the printed one is right."""
    actual = pick(trace_of(example["request"]), label)
    half_a_unit = 0.51 * 10.0 ** -decimals(printed)
    same = np.abs(actual - floats(printed)).max() <= half_a_unit
    right = example["right"].get(label)
    if right is None:
        # The label is that of an entry of a row whose right values are listed.
        row, _, column = label.rpartition("_")
        right = example["right"][row][int(column)]
    assert same == (floats(right) == floats(printed)).all()


@every_example
def test_the_steps_have_the_names_and_order_of_the_contract(example):
    request = example["request"]
    missing = set()
    if "embeddings" not in request:
        missing.add("embeddings")
    if not request.get("scale", True):
        missing.add("scaled_scores")
    assert list(trace_of(request)) == [name for name in ORDER if name not in missing]


@every_example
def test_weighted_values_add_up_to_the_context(example):
    steps = trace_of(example["request"])
    weights, values = steps["weights"], steps["values"]
    parts = steps["weighted_values"]
    n = len(example["request"]["tokens"])
    for i in range(n):
        for j in range(n):
            np.testing.assert_allclose(parts[i, j], weights[i, j] * values[j], atol=1e-15)
    np.testing.assert_allclose(parts.sum(axis=1), steps["context"], atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)


def random_weights(heads, d, k, v, output=True):
    rng = np.random.default_rng(4)
    return Weights(
        rng.standard_normal((d, heads * k)),
        rng.standard_normal((d, heads * k)),
        rng.standard_normal((d, heads * v)),
        rng.standard_normal((heads * v, d)) if output else None,
    )


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_several_heads_add_a_leading_axis(heads):
    n, d, k, v = 7, 11, 2, 5
    x = np.random.default_rng(5).standard_normal((n, d))
    steps = {s.name: s.values for s in trace_embeddings(x, random_weights(heads, d, k, v), heads)}
    head_axis = (heads,) if heads > 1 else ()
    assert steps["embeddings"].shape == (n, d)
    assert steps["queries"].shape == steps["keys"].shape == (*head_axis, n, k)
    assert steps["values"].shape == steps["context"].shape == (*head_axis, n, v)
    for name in ("scores", "scaled_scores", "weights"):
        assert steps[name].shape == (*head_axis, n, n)
    assert steps["weighted_values"].shape == (*head_axis, n, n, v)
    assert steps["output"].shape == (n, d)
    np.testing.assert_allclose(steps["weighted_values"].sum(axis=-2), steps["context"], atol=1e-12)


def test_the_output_is_the_concatenated_heads_times_its_weight():
    n, d, heads, k, v = 3, 7, 2, 2, 5
    weights = random_weights(heads, d, k, v)
    x = np.random.default_rng(6).standard_normal((n, d))
    steps = {s.name: s.values for s in trace_embeddings(x, weights, heads)}
    joined = np.concatenate(list(steps["context"]), axis=1)
    np.testing.assert_allclose(steps["output"], joined @ weights.output, atol=1e-12)
    plain = trace_embeddings(x, random_weights(heads, d, k, v, output=False), heads)
    assert "output" not in [step.name for step in plain]


def test_projected_queries_are_split_into_heads_and_scaled_by_the_head_width():
    n, heads, k, v = 5, 2, 3, 1
    rng = np.random.default_rng(7)
    q, key = (rng.standard_normal((n, heads * k)) for _ in range(2))
    value = rng.standard_normal((n, heads * v))
    steps = {s.name: s.values for s in trace_projected(q, key, value, heads)}
    for a in range(heads):
        columns = slice(a * k, (a + 1) * k)
        scores = q[:, columns] @ key[:, columns].T
        np.testing.assert_allclose(steps["scores"][a], scores, atol=1e-12)
        np.testing.assert_allclose(steps["scaled_scores"][a], scores / np.sqrt(k), atol=1e-12)
        assert np.array_equal(steps["values"][a, :, 0], value[:, a])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_a_trace_is_float64_for_any_input(dtype):
    x = np.array([[1, 2], [3, 4]], dtype)
    for step in [*trace_embeddings(x, Weights(x, None, x, x)), *trace_projected(x, x, x)]:
        assert step.values.dtype == np.float64


def test_a_missing_weight_is_the_identity_and_absent_from_the_formula():
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    steps = {
        s.name: s for s in trace_embeddings(x, Weights(query=np.array([[0.0], [1.0]])[:, [0, 0]]))
    }
    assert steps["queries"].values.tolist() == [[2, 2], [5, 5]]
    assert steps["keys"].values.tolist() == steps["values"].values.tolist() == x.tolist()
    formulas = [steps[name].formula for name in ("queries", "keys", "values")]
    assert formulas == ["Q = X·Wq", "K = X", "V = X"]
