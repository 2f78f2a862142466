"""Clients of the WSGI application in this process."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import httpx
import pytest

from polyseme.api.app import create_app
from polyseme.models.registry import Registry
from polyseme.settings import Settings

MakeClient = Callable[..., httpx.Client]


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
