"""The examples of teaching notes have the right values; traces of arrays are in float64."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.trace import Weights, trace_embeddings, trace_projected

FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"), parse_float=Decimal)["examples"]
TOLERANCE = 5.1e-5
"""Half a unit of the fourth decimal, with a small margin for ties."""


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
    values = {step.name: step.values for step in steps}
    # What notes also print: the powers of a softmax, and sums.
    powers = np.exp(values.get("scaled_scores", values["scores"]))
    sums = {"sum": powers.sum(-1), "sum_of_weights": values["weights"].sum(-1)[0]}
    five = softmax(floats([0.19, 0.22, 0.18, 0.21, 0.20]))
    return values | {"exponentials": powers, "softmax_of_five_scores": five} | sums


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def pick(steps, label):
    """`weights_row_0` is row 0 of the step `weights`, `scores_row_0_1` its entry 1."""
    name, _, index = label.partition("_row_")
    return steps[name][tuple(int(i) for i in index.split("_"))] if index else steps[name]


def decimals(values):
    """The number of printed decimals; Decimal keeps trailing zeros."""
    if isinstance(values, list):
        return max(decimals(v) for v in values)
    return -values.as_tuple().exponent if isinstance(values, Decimal) else 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_an_example_gives_its_right_values(example):
    steps = trace_of(example["request"])
    for label, right in example["right"].items():
        expected, actual = floats(right), pick(steps, label)
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE, err_msg=label)


def printed_values(example):
    """Each printed value or row with its label and what is right."""
    right = example["right"]
    for label, printed in example.get("printed", {}).items():
        if label in {"weights_of_sum", "terms_of_sum", "five_scores"}:
            continue  # of words that the notes give no vectors for
        if isinstance(printed, dict):  # entries of a row, by word
            for word, value in printed.items():
                column = example["request"]["tokens"].index(word)
                yield f"{label}_{column}", value, right[label][column]
        elif label in right:
            yield label, printed, right[label]
        else:
            row, _, column = label.rpartition("_")
            yield label, printed, right[row][int(column)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_a_misprint_is_not_reproduced(example):
    """A value equals the printed one, to its printed decimals, only if the printed one is right."""
    steps = trace_of(example["request"])
    for label, printed, right in printed_values(example):
        half_a_unit = 0.51 * 10.0 ** -decimals(printed)
        same = np.abs(pick(steps, label) - floats(printed)).max() <= half_a_unit
        assert same == (floats(right) == floats(printed)).all(), label


def test_a_missing_weight_is_the_identity_and_absent_from_the_formula():
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    weights = Weights(query=np.array([[0.0], [1.0]])[:, [0, 0]])
    steps = {step.name: step for step in trace_embeddings(x, weights)}
    assert steps["queries"].values.tolist() == [[2, 2], [5, 5]]
    assert steps["keys"].values.tolist() == steps["values"].values.tolist() == x.tolist()
    formulas = [steps[name].formula for name in ("queries", "keys", "values")]
    assert formulas == ["Q = X·Wq", "K = X", "V = X"]
    columns = trace_embeddings(x, replace(weights, output=np.eye(2), columns=True))
    assert [step.formula for step in columns if "W" in step.formula] == ["Q = X·Wqᵀ", "O = C·Woᵀ"]
