"""Compare, trace and neighbors over HTTP; `tests/operations` tests what they compute."""

import json

import httpx
import numpy as np
import pytest
from pydantic import TypeAdapter

from polyseme.operations.compare import MappedComparison
from polyseme.operations.neighbors import Neighbors
from polyseme.operations.trace import Trace
from polyseme.senses.find import MappedSenses
from polyseme.senses.inventory import AppliedSenses
from tests.conftest import ROOT
from tests.http.conftest import expect_problem
from tests.http.service import inventory_document

FILE = ROOT / "service" / "polyseme" / "page" / "worked-examples.json"
EXAMPLES = json.loads(FILE.read_text("utf-8"))["examples"]
NAMES = ["queries", "keys", "values", "scores", "weights", "weighted_values", "context"]


def ask(client: httpx.Client, path: str, result: type, **body: object) -> dict:
    """The document of a result, with its form checked."""
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    TypeAdapter(result).validate_python(answer.json())
    return answer.json()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_the_trace_of_a_worked_example_has_its_steps(client, example) -> None:
    request = example["request"]
    found = ask(client, "/v1/trace", Trace, **request)["steps"]
    assert all(step["shape"] == list(np.shape(step["values"])) for step in found)
    assert all(step["formula"] for step in found)
    scaled = ["scaled_scores"] if request.get("scale", True) else []
    given = ["embeddings"] if "embeddings" in request else []
    assert [step["name"] for step in found] == [*given, *NAMES[:4], *scaled, *NAMES[4:]]
    weights, expected = found[-3]["values"], example["right"].get("weights")
    assert expected is None or np.allclose(weights, expected, atol=5.1e-5)


def test_the_convention_of_the_weights_changes_the_formulas_only(client) -> None:
    request = EXAMPLES[2]["request"]
    columns = {name: np.transpose(rows).tolist() for name, rows in request["weights"].items()}
    row, column = (
        ask(client, "/v1/trace", Trace, **body)["steps"]
        for body in (request, {**request, "weights": columns, "convention": "column"})
    )
    assert [step["values"] for step in row] == [step["values"] for step in column]
    formulas = [{step["name"]: step["formula"] for step in steps} for steps in (row, column)]
    assert [one["queries"] for one in formulas] == ["Q = X·Wq", "Q = X·Wqᵀ"]


def test_a_map_is_returned_on_request(client) -> None:
    texts = ("River bank flows", "Money bank grows", "qqzzxx" * 50)
    words = ("bank", "bank", texts[2])
    pairs = [{"text": text, "word": word} for text, word in zip(texts, words, strict=True)]
    body = {"occurrences": pairs, "neighbors": 3}
    assert "map" not in ask(client, "/v1/compare", MappedComparison, **body)
    document = ask(client, "/v1/compare", MappedComparison, **body, map=True)
    assert document["map"]["static"][0] == document["map"]["static"][1]
    assert document["map"]["static"][2] is None  # this word has no vector


def test_neighbors_have_the_resolution_of_the_word(client) -> None:
    for body, resolution in (
        ({"word": "river"}, "exact"),
        ({"word": "unbankable"}, "subword"),
        ({"vector": [1.0] * 300}, None),
        ({"positive": ["king", "woman"], "negative": ["man"]}, None),
        ({"positive": ["unbankable"], "negative": ["river"]}, "subword"),
    ):
        document = ask(client, "/v1/neighbors", Neighbors, **body, k=1)
        assert (len(document["neighbors"]), document["resolution"]) == (1, resolution)
    refused = client.post("/v1/neighbors", json={"word": "river zxqwvv"})
    document = expect_problem(refused, 422, "unknown_word")
    assert document["errors"][0]["pointer"] == "/word"


def test_the_senses_of_an_inventory_are_applied(client) -> None:
    texts = [f"The {side} bank" for side in ("river", "money", "muddy", "central") for _ in "ab"]
    body = {"word": "bank", "texts": texts, "senses": 2}
    assert ask(client, "/v1/senses", MappedSenses, **body)["inventory"] is None
    found = ask(client, "/v1/senses", MappedSenses, **body, inventory=True)
    asked = {"inventory": found["inventory"], "texts": texts}
    applied = ask(client, "/v1/senses/apply", AppliedSenses, **asked)
    labels = [one["label"] for one in found["inventory"]["senses"]]
    for one, clustered in zip(applied["occurrences"], found["occurrences"], strict=True):
        assert one["label"] == labels[one["sense"]]
        assert one["sense"] == clustered["sense"]


@pytest.mark.parametrize(
    ("changes", "status", "pointer", "message"),
    [
        ({"checksum": "0" * 64}, 422, "/inventory", "another model than wiki-en found these"),
        ({"version": 2}, 422, "/inventory/version", "this release reads no other version"),
        ({"senses": []}, 422, "/inventory/senses", "must not be empty"),
        ({"model": "absent"}, 404, None, "There is no model of this name"),
    ],
)
def test_an_inventory_that_does_not_fit_is_an_error(client, changes, status, pointer, message):
    inventory = {**inventory_document(), **changes}
    answer = client.post("/v1/senses/apply", json={"inventory": inventory, "texts": ["a bank"]})
    document = expect_problem(answer, status, "invalid" if status == 422 else "unknown_model")
    if pointer:
        assert document["errors"][0]["pointer"] == pointer
    assert message in answer.text
