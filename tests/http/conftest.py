"""Applications in this process, and what the tests of this package read from responses."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from docs.openapi import ProblemResponse
from prometheus_client.parser import text_string_to_metric_families

from polyseme.http import create_app
from polyseme.models.registry import Registry
from polyseme.settings import Settings
from tests.conftest import Serve
from tests.http.service import SECRET
from tests.tiny import write_tiny

MakeClient = Callable[..., httpx.Client]
Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


@cache
def registry(models_dir: Any, model: str, preload: bool) -> Registry:
    """The models of a folder, read once for all applications with it."""
    return Registry.of(models_dir, model, preload=preload)


def in_process(**settings: Any) -> httpx.Client:
    """A client of a new application with these settings."""
    parsed = Settings(**settings)
    models = registry(parsed.models_dir, parsed.model, parsed.preload_models)
    transport = httpx.WSGITransport(app=create_app(parsed, models))
    return httpx.Client(transport=transport, base_url="http://localhost")


@pytest.fixture(scope="session")
def make_client() -> Iterator[MakeClient]:
    """Make clients of applications by their settings; each is kept for the session."""
    clients: dict[str, httpx.Client] = {}

    def make(**settings: Any) -> httpx.Client:
        key = repr(sorted(settings.items()))
        if key not in clients:
            clients[key] = in_process(**settings)
        return clients[key]

    yield make
    for client in clients.values():
        client.close()


@pytest.fixture(scope="session")
def client(make_client: MakeClient) -> httpx.Client:
    """A client of an application with the default settings."""
    return make_client()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny model."""
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny").parent


@pytest.fixture(scope="session")
def live_client(serve: Serve) -> httpx.Client:
    """A client of a real service with the default settings."""
    return serve()


def expect_problem(answer: httpx.Response, status: int, code: str) -> dict:
    """Check the members of an error; return the document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    ProblemResponse.model_validate(document)
    assert (document["status"], document["code"]) == (status, code)
    assert document["request_id"] == answer.headers["x-request-id"]
    assert "server-timing" in answer.headers
    assert document["detail"].endswith((".", "?")) and document["hint"].endswith(".")
    assert SECRET not in answer.text
    assert not re.search(r"Traceback|\.py\b|File \"|/site-packages/", answer.text)
    return document


def numbers(client: httpx.Client) -> Numbers:
    """The samples that a service exposes, by name and labels."""
    return numbers_in(client.get("/metrics").text)


def numbers_in(text: str) -> Numbers:
    """The samples of a text in the Prometheus format, by name and labels."""
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def total(found: Numbers, name: str, **labels: str) -> float:
    """The sum of the samples of the metric polyseme_NAME that have these labels."""
    return sum(
        value
        for (sample, its_labels), value in found.items()
        if sample == f"polyseme_{name}" and labels.items() <= its_labels
    )
