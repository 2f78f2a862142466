"""/openapi.json, /docs, /v1/models and the health routes through a real gunicorn."""

import re

import httpx
import orjson
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from polyseme.http.openapi import OPERATIONS, document
from polyseme.http.replies import ModelsReply

from polyseme import errors
from polyseme.api.app import create_app

UNDESCRIBED = {"/", "/page/<path:name>", "/openapi.json", "/docs", "/metrics"}


def test_the_document_is_valid_openapi_3_1(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(described).validate()
    assert orjson.loads(orjson.dumps(document())) == described


def test_every_route_is_described_and_every_description_has_a_route() -> None:
    rules = {
        (method.lower(), re.sub(r"<(\w+)>", r"{\1}", rule.rule))
        for rule in create_app().url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule not in UNDESCRIBED and not rule.rule.startswith("/docs/")
    }
    assert rules == {(operation.method, operation.path) for operation in OPERATIONS}


def test_every_status_of_the_error_tree_is_described() -> None:
    described = {
        int(status)
        for path in document()["paths"].values()
        for operation in path.values()
        for status in operation["responses"]
    }
    tree = {errors.PolysemeError}
    while more := {sub for one in tree for sub in one.__subclasses__()} - tree:
        tree |= more
    # A method that a route does not have is not a response of the methods it has.
    assert {one.status for one in tree} - {405} <= described


def test_the_page_of_the_api_needs_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 3
    for link in links:
        assert link.startswith("/docs/")
        assert client.get(link).status_code == 200


def test_models_have_openais_shape_and_what_the_manifest_says(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    ModelsReply.model_validate(listed)
    (model,) = listed["data"]
    assert model == client.get("/v1/models/wiki-en").json()
    assert (model["id"], model["object"], model["default"]) == ("wiki-en", "model", True)
    assert model["cased"] is True
    assert model["vocabulary_size"] >= 50_000
    assert 100 <= model["dimension"] <= 300
    assert model["languages"] == ["en"]
    assert "Wikipedia" in model["source"]
    assert model["quality"]["coarsewsd"]["accuracy"] > 0


@pytest.mark.parametrize(("path", "status"), [("/livez", "alive"), ("/readyz", "ready")])
def test_health_needs_no_body(client: httpx.Client, path: str, status: str) -> None:
    assert client.get(path).json()["status"] == status
