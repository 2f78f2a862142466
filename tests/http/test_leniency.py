"""Documented results, and what clients send beside the values: nulls, media types, encodings."""

import json
from codecs import BOM_UTF8

import httpx
import pytest
from pydantic import TypeAdapter

from polyseme.operations.compare import MappedComparison
from polyseme.operations.neighbors import Neighbors
from polyseme.operations.trace import Trace
from polyseme.senses.find import MappedSenses
from polyseme.senses.inventory import AppliedSenses
from tests.http.bodies import BODIES, SCHEMAS, TENSOR
from tests.http.conftest import expect_problem

INFER = "/v2/models/wiki-en/infer"
NDJSON = "application/x-ndjson"


RESULTS = {
    "/v1/compare": MappedComparison,
    "/v1/neighbors": Neighbors,
    "/v1/trace": Trace,
    "/v1/senses": MappedSenses,
    "/v1/senses/apply": AppliedSenses,
}


@pytest.mark.parametrize("path", RESULTS)
def test_a_response_has_the_documented_form(client, path) -> None:
    answer = client.post(path, json=BODIES[path])
    assert answer.status_code == 200, answer.text
    TypeAdapter(RESULTS[path]).validate_python(answer.json())
    for field in {"map", "inventory"} & RESULTS[path].__annotations__.keys():
        asked = client.post(path, json={**BODIES[path], field: True}).json()
        assert asked[field] and not answer.json().get(field)


TEXTS = ["a river bank", "the money of the bank"]


@pytest.mark.parametrize("path", BODIES)
def test_null_is_the_default_of_every_optional_field(client, path) -> None:
    nulls = dict.fromkeys(SCHEMAS[path].model_fields) | BODIES[path]
    assert None in nulls.values()
    expected, found = client.post(path, json=BODIES[path]), client.post(path, json=nulls)
    assert expected.status_code == found.status_code == 200, found.text
    assert found.content == expected.content


@pytest.mark.parametrize("parameter", ["version=1;q=0.9", 'x="a,b"; charset=UTF8'])
@pytest.mark.parametrize("kind", ["application/json", NDJSON, "application/x-npz"])
def test_parameters_of_accept_are_ignored(client, kind, parameter) -> None:
    headers = {"Accept": f"{kind}; {parameter}"}
    response = client.post("/v1/encode", json={"input": TEXTS}, headers=headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == kind


OF_JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (f"application/json; charset=utf-8; q=0.1, {NDJSON}; charset=utf-8", NDJSON),
        (OF_JAVA, "application/json"),
        (f"{OF_JAVA}, application/x-npz; q=.3", "application/x-npz"),
        ("application/json;charset=x;q=0", None),
    ],
)
def test_qualities_of_accept_are_respected(client: httpx.Client, accept, kind) -> None:
    response = client.post("/v1/encode", json={"input": "a"}, headers={"Accept": accept})
    if kind:
        assert response.headers["content-type"] == kind
    else:
        expect_problem(response, 406, "not_acceptable")


def test_fields_of_mlserver_and_kserve_are_accepted(client: httpx.Client) -> None:
    def body(value: str) -> dict:
        """A request as the codecs of MLServer and the client of KServe write it."""
        named = {"parameters": {"content_type": value}}
        rest = {"inputs": [TENSOR | named], "outputs": [{"name": "static"} | named]}
        return {"model_name": "wiki-en", **named, **rest}

    expected = client.post(INFER, json={"inputs": [TENSOR], "outputs": [{"name": "static"}]})
    found = client.post(INFER, json=body("str"))
    assert (found.status_code, found.content) == (200, expected.content)
    errors = expect_problem(client.post(INFER, json=body("np")), 422, "invalid")["errors"]
    places = ("/parameters", "/inputs/0/parameters", "/outputs/0/parameters")
    assert {error["pointer"] for error in errors} == {f"{one}/content_type" for one in places}


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
