"""What clients send beside the values: nulls, parameters of media types, marks of encodings."""

import json
from codecs import BOM_UTF8
from typing import Any

import httpx
import pytest

from tests.http.bodies import ALTERNATIVES, BODIES, DEFINITIONS, TENSOR
from tests.http.conftest import expect_problem

INFER = "/v2/models/wiki-en/infer"
NDJSON = "application/x-ndjson"


TEXTS = ["a river bank", "the money of the bank"]
CASES = [(path, body) for path in BODIES for body in (BODIES[path], *ALTERNATIVES.get(path, []))]


def with_nulls(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """A value in which every object has its optional fields, as null."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    kind = {dict: "properties", list: "items"}.get(type(value), "")
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if kind in choice or "$ref" in choice:
            return with_nulls(value, choice, definitions)
    if isinstance(value, list):
        return [with_nulls(one, schema.get("items", {}), definitions) for one in value]
    if not isinstance(value, dict):
        return value
    fields = schema["properties"]
    found = {name: with_nulls(one, fields[name], definitions) for name, one in value.items()}
    return dict.fromkeys(fields.keys() - {*schema.get("required", ())}) | found


@pytest.mark.parametrize(("path", "body"), CASES)
def test_null_is_the_default_of_every_optional_field(client, path, body) -> None:
    nulls = with_nulls(body, DEFINITIONS[path], DEFINITIONS[path].get("$defs", {}))
    assert None in nulls.values()
    expected, found = client.post(path, json=body), client.post(path, json=nulls)
    assert expected.status_code == found.status_code == 200, found.text
    assert found.content == expected.content


@pytest.mark.parametrize("parameter", ["version=1;q=0.9", 'x="a,b"; charset=UTF8'])
@pytest.mark.parametrize("kind", ["application/json", NDJSON, "application/x-npz"])
def test_parameters_of_accept_are_ignored(client, kind, parameter) -> None:
    headers = {"Accept": f"{kind}; {parameter}"}
    response = client.post("/v1/encode", json={"input": TEXTS}, headers=headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == kind


def test_qualities_of_accept_are_not_ignored(client: httpx.Client) -> None:
    accept = f"application/json; charset=utf-8; q=0.1, {NDJSON}; charset=utf-8"
    response = client.post("/v1/encode", json={"input": "a"}, headers={"Accept": accept})
    assert response.headers["content-type"] == NDJSON
    response = client.get("/v1/models", headers={"Accept": "application/json;charset=x;q=0"})
    expect_problem(response, 406, "not_acceptable")


def test_qualities_of_accept_need_no_zero(client: httpx.Client) -> None:
    of_java = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
    assert client.get("/v1/models", headers={"Accept": of_java}).status_code == 200
    headers = {"Accept": f"{of_java}, application/x-npz; q=.3"}
    response = client.post("/v1/encode", json={"input": "a"}, headers=headers)
    assert response.headers["content-type"] == "application/x-npz"


def body_with_content_types(value: Any) -> dict[str, Any]:
    """A request as the codecs of MLServer and the client of KServe write it."""
    named = {"content_type": value}
    return {
        "model_name": "wiki-en",
        "inputs": [{**TENSOR, "parameters": named}],
        "outputs": [{"name": "static", "parameters": named}],
        "parameters": named,
    }


def test_fields_of_mlserver_and_kserve_are_accepted(client: httpx.Client) -> None:
    expected = client.post(INFER, json={"inputs": [TENSOR], "outputs": [{"name": "static"}]})
    found = client.post(INFER, json=body_with_content_types("str"))
    assert found.status_code == 200
    assert found.content == expected.content
    response = client.post(INFER, json=body_with_content_types("np"))
    problem = expect_problem(response, 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == [
        "/inputs/0/parameters/content_type",
        "/outputs/0/parameters/content_type",
        "/parameters/content_type",
    ]


def test_a_body_may_start_with_a_byte_order_mark(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    for path, body in BODIES.items():
        content = BOM_UTF8 + json.dumps(body).encode()
        assert client.post(path, content=content, headers=headers).status_code == 200
    lines = BOM_UTF8 + "\n".join(map(json.dumps, TEXTS)).encode()
    found = client.post("/v1/encode", content=lines, headers={"Content-Type": NDJSON})
    assert found.content == client.post("/v1/encode", json={"input": TEXTS}).content
    for content in (BOM_UTF8, BOM_UTF8 + BOM_UTF8 + b'{"input": "a"}'):
        response = client.post("/v1/encode", content=content, headers=headers)
        expect_problem(response, 400, "not_json")
