"""The clients with the WSGI application in this process."""

import asyncio

import httpx
import pytest

import polyseme
from polyseme import AsyncClient, Client
from polyseme.errors import UnknownModelError
from tests.client.equality import require_same

TEXTS = ["river bank", ["money", "bank"], "Apple apple"]


class AsyncWSGITransport(httpx.AsyncBaseTransport):
    """Calls a WSGI application from an asynchronous client."""

    def __init__(self, app):
        self.inner = httpx.WSGITransport(app)

    async def handle_async_request(self, request):
        await request.aread()
        response = self.inner.handle_request(request)
        content = response.read()
        return httpx.Response(response.status_code, headers=response.headers, content=content)


@pytest.fixture(scope="module")
def app(models_dir):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_MODELS_DIR", str(models_dir))
        patch.setenv("POLYSEME_MODEL", "tiny")
        yield polyseme.create_app()


def test_a_client_takes_a_transport_in_place_of_a_connection(app, local):
    with Client("http://service", transport=httpx.WSGITransport(app)) as client:
        assert (client.name, client.dimension) == ("tiny", 5)
        require_same(client.encode(TEXTS), local.encode(TEXTS))
        require_same(client.embed(TEXTS), local.embed(TEXTS))
        require_same(client.neighbors("bank", 3), local.neighbors("bank", 3))
    other = Client("http://service", model="none", transport=httpx.WSGITransport(app))
    with other, pytest.raises(UnknownModelError):
        other.encode(TEXTS)


def test_an_asynchronous_client_takes_a_transport(app, local):
    async def encode():
        async with AsyncClient("http://service", transport=AsyncWSGITransport(app)) as client:
            return await client.encode(TEXTS)

    require_same(asyncio.run(encode()), local.encode(TEXTS))
