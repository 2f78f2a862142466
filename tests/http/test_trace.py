"""POST /v1/trace: the worked examples, and the bundled model."""

import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from polyseme.operations.trace import Trace

FILE = Path(__file__).parents[2] / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]
NAMES = ["queries", "keys", "values", "scores", "weights", "weighted_values", "context"]


def trace(client: httpx.Client, **body: object) -> dict[str, np.ndarray]:
    answer = client.post("/v1/trace", json=body)
    assert answer.status_code == 200, answer.text
    TypeAdapter(Trace).validate_python(answer.json())
    steps = answer.json()["steps"]
    assert all(step["shape"] == list(np.shape(step["values"])) for step in steps)
    assert all(step["formula"] for step in steps)
    return {step["name"]: np.array(step["values"]) for step in steps}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_a_worked_example_has_the_values_of_its_computation_by_hand(
    client: httpx.Client, example: dict
) -> None:
    request = example["request"]
    steps = trace(client, **request)
    scaled = ["scaled_scores"] if request.get("scale", True) else []
    given = ["embeddings"] if "embeddings" in request else []
    assert list(steps) == [*given, *NAMES[:4], *scaled, *NAMES[4:]]
    for name, expected in example["right"].items():
        step, _, row = name.partition("_row_")
        values = steps[step][int(row)] if row else steps[step]
        np.testing.assert_allclose(values, expected, atol=5.1e-5)


def test_a_stored_model_has_additional_steps(client: httpx.Client) -> None:
    text = "the bank of the river"
    steps = trace(client, text=text)
    encoded = client.post("/v1/encode", json={"input": text}).json()["results"][0]
    biases = ["position_bias", "word_bias", "scaled_word_bias", "visible"]
    after = ["output", "position", "residual", "contextual"]
    assert list(steps) == ["embeddings", *NAMES[:4], *biases, *NAMES[4:], *after]
    np.testing.assert_allclose(steps["embeddings"], encoded["static"], atol=1e-6)
    np.testing.assert_allclose(steps["weights"], encoded["attention"][0], atol=1e-5)
    np.testing.assert_allclose(steps["contextual"], encoded["contextual"], atol=1e-5)
    np.testing.assert_allclose(steps["weighted_values"].sum(axis=2), steps["context"], atol=1e-12)
    output, static = (
        steps[n] / np.linalg.norm(steps[n], axis=1, keepdims=True) for n in ("output", "embeddings")
    )
    residual = output + 0.2 * static + 0.01 * steps["position"]
    np.testing.assert_allclose(steps["residual"], residual, atol=1e-12)
    biased = steps["scores"] + steps["position_bias"] + steps["scaled_word_bias"][:, None]
    weights = np.exp(biased) * steps["visible"]
    weights /= weights.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(weights, steps["weights"], atol=1e-9)


def test_the_convention_of_the_weights_changes_the_formulas_only(client: httpx.Client) -> None:
    request = EXAMPLES[2]["request"]
    columns = {name: np.transpose(rows).tolist() for name, rows in request["weights"].items()}
    row, column = (
        client.post("/v1/trace", json=body).json()["steps"]
        for body in (request, {**request, "weights": columns, "convention": "column"})
    )
    assert [step["values"] for step in row] == [step["values"] for step in column]
    formulas = [{step["name"]: step["formula"] for step in steps} for steps in (row, column)]
    assert [one["queries"] for one in formulas] == ["Q = X·Wq", "Q = X·Wqᵀ"]


def test_an_explicit_null_equals_an_absent_field(client: httpx.Client) -> None:
    body = {"tokens": ["a"], "embeddings": [[1.0]]}
    plain = client.post("/v1/trace", json=body)
    nulls = {"text": None, "model": None, "weights": None, "queries": None}
    answer = client.post("/v1/trace", json={**body, **nulls})
    assert answer.status_code == 200
    assert answer.json() == plain.json()
