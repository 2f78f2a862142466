"""What clients send beside the values: nulls, parameters of media types, marks of encodings."""

import json
from codecs import BOM_UTF8
from typing import Any

import httpx
import pytest
from docs.openapi import ROUTES
from pydantic import BaseModel

from polyseme.http.inference import (
    InferParameters,
    InferRequest,
    InputParameters,
    InputTensor,
    OutputParameters,
    OutputTensor,
)
from polyseme.operations.compare import CompareRequest, OccurrenceRequest
from polyseme.operations.embed import EmbeddingsRequest
from polyseme.operations.encode import EncodeRequest
from polyseme.operations.neighbors import NeighborsRequest
from polyseme.operations.trace import TraceRequest, WeightsRequest
from polyseme.senses.find import SensesRequest
from polyseme.senses.inventory import ApplySensesRequest
from tests.http.conftest import expect_problem
from tests.http.service import inventory_document

INFER = "/v2/models/wiki-en/infer"
NDJSON = "application/x-ndjson"


def nulls(schema: type[BaseModel]) -> dict[str, None]:
    """Every optional field, as null."""
    return {name: None for name, field in schema.model_fields.items() if not field.is_required()}


def occurrence(text: str) -> dict[str, Any]:
    return {**nulls(OccurrenceRequest), "text": text, "word": "bank"}


TEXTS = ["a river bank", "the money of the bank"]
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a bank"]}
BODIES: list[tuple[str, type[BaseModel], dict[str, Any], dict[str, Any]]] = [
    ("/v1/encode", EncodeRequest, {"input": TEXTS}, {}),
    ("/v1/embeddings", EmbeddingsRequest, {"input": TEXTS}, {}),
    (
        "/v1/compare",
        CompareRequest,
        {"occurrences": [{"text": text, "word": "bank"} for text in TEXTS]},
        {"occurrences": [occurrence(text) for text in TEXTS]},
    ),
    ("/v1/senses", SensesRequest, {"word": "bank", "texts": TEXTS}, {}),
    (
        "/v1/senses",
        SensesRequest,
        {"occurrences": [{"text": text, "word": "bank"} for text in TEXTS]},
        {"occurrences": [occurrence(text) for text in TEXTS]},
    ),
    ("/v1/trace", TraceRequest, {"text": "a bank"}, {}),
    (
        "/v1/trace",
        TraceRequest,
        {"tokens": ["a"], "embeddings": [[1.0]], "weights": {}},
        {"weights": nulls(WeightsRequest)},
    ),
    ("/v1/neighbors", NeighborsRequest, {"word": "bank"}, {}),
    (
        INFER,
        InferRequest,
        {"inputs": [TENSOR], "outputs": [{"name": "static"}]},
        {
            "inputs": [{**TENSOR, "parameters": nulls(InputParameters)}],
            "outputs": [
                {**nulls(OutputTensor), "name": "static"},
            ],
            "parameters": nulls(InferParameters),
        },
    ),
    (
        INFER,
        InferRequest,
        {"inputs": [TENSOR], "outputs": [{"name": "static"}]},
        {"outputs": [{"name": "static", "parameters": nulls(OutputParameters)}]},
    ),
]


@pytest.mark.parametrize(("path", "schema", "body", "inner"), BODIES)
def test_null_is_the_default_of_every_optional_field(client, path, schema, body, inner) -> None:
    expected = client.post(path, json=body)
    with_nulls = {**nulls(schema), **body, **inner}
    found = client.post(path, json=with_nulls)
    assert expected.status_code == found.status_code == 200
    assert found.content == expected.content


def test_every_body_is_tried_with_nulls() -> None:
    tried = {schema for _, schema, _, _ in BODIES} | {ApplySensesRequest}
    assert tried == {route.body for route in ROUTES if route.body}
    assert InputTensor.model_fields["parameters"].default is None


def test_null_is_the_default_of_options_of_inventories(client) -> None:
    body = {"inventory": inventory_document(), "texts": TEXTS}
    found = client.post("/v1/senses/apply", json={**nulls(ApplySensesRequest), **body})
    assert found.status_code == 200
    assert found.content == client.post("/v1/senses/apply", json=body).content


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/encode", {"input": None}, "/input"),
        ("/v1/encode", {"input": ["a", None]}, "/input/1"),
        ("/v1/encode", {"input": "a", "include": [None]}, "/include/0"),
        ("/v1/encode", {"input": "a", "layers": [None]}, "/layers/0"),
        ("/v1/encode", {"input": "a", "unknown": None}, "/unknown"),
        ("/v1/neighbors", {"positive": ["bank", None]}, "/positive/1"),
    ],
)
def test_other_nulls_are_invalid(client, path, body, field) -> None:
    problem = expect_problem(client.post(path, json=body), 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize("parameter", ["charset=utf-8", "version=1;q=0.9", 'x="a,b"; charset=UTF8'])
@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("post", "/v1/neighbors", {"word": "bank"}, "application/json"),
        ("post", "/v1/encode", {"input": TEXTS}, NDJSON),
        ("post", "/v1/encode", {"input": TEXTS}, "application/x-npz"),
        ("get", "/v2/models/wiki-en", None, "application/json"),
    ],
)
def test_parameters_of_accept_are_ignored(client, method, path, body, kind, parameter) -> None:
    headers = {"Accept": f"{kind}; {parameter}"}
    response = client.request(method, path, json=body, headers=headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == kind


def test_qualities_of_accept_are_not_ignored(client: httpx.Client) -> None:
    accept = f"application/json; charset=utf-8; q=0.1, {NDJSON}; charset=utf-8"
    response = client.post("/v1/encode", json={"input": "a"}, headers={"Accept": accept})
    assert response.headers["content-type"] == NDJSON
    response = client.get("/v1/models", headers={"Accept": "application/json;charset=x;q=0"})
    expect_problem(response, 406, "not_acceptable")


def body_with_content_types(value: Any) -> dict[str, Any]:
    """A request as MLServer's codecs write it."""
    named = {"content_type": value}
    return {
        "inputs": [{**TENSOR, "parameters": named}],
        "outputs": [{"name": "static", "parameters": named}],
        "parameters": named,
    }


def test_content_types_of_mlserver_are_accepted(client: httpx.Client) -> None:
    expected = client.post(INFER, json={"inputs": [TENSOR], "outputs": [{"name": "static"}]})
    found = client.post(INFER, json=body_with_content_types("str"))
    assert found.status_code == 200
    assert found.content == expected.content


def test_other_content_types_are_invalid(client: httpx.Client) -> None:
    response = client.post(INFER, json=body_with_content_types("np"))
    problem = expect_problem(response, 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == [
        "/inputs/0/parameters/content_type",
        "/outputs/0/parameters/content_type",
        "/parameters/content_type",
    ]


def test_a_body_may_start_with_a_byte_order_mark(client: httpx.Client) -> None:
    for path, _, body, _ in BODIES:
        content = BOM_UTF8 + json.dumps(body).encode()
        found = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert found.status_code == 200
        assert found.content == client.post(path, json=body).content
    lines = BOM_UTF8 + "\n".join(map(json.dumps, TEXTS)).encode()
    found = client.post("/v1/encode", content=lines, headers={"Content-Type": NDJSON})
    assert found.content == client.post("/v1/encode", json={"input": TEXTS}).content


def test_a_byte_order_mark_alone_is_no_json(client: httpx.Client) -> None:
    for content in (BOM_UTF8, BOM_UTF8 + BOM_UTF8 + b'{"input": "a"}'):
        headers = {"Content-Type": "application/json"}
        response = client.post("/v1/encode", content=content, headers=headers)
        expect_problem(response, 400, "not_json")
