"""The clients with the WSGI application in this process."""

import httpx
import numpy as np
import orjson
import pytest

import polyseme
from polyseme import Client
from polyseme.client import AnswerError, Occurrence
from polyseme.errors import UnknownModelError
from tests.client.conftest import call
from tests.client.equality import require_same
from tests.client.scripted_server import ScriptedResponse, scripted_server

TEXTS = ["river bank", ["money", "bank"], "Apple apple"]
PAIRS = [("a b", "b"), Occurrence("b", start=0, end=1)]
OCCURRENCES = [{"text": "a b", "word": "b"}, {"text": "b", "start": 0, "end": 1}]


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


def test_connecting_has_its_own_limit_and_waiting_for_a_connection_none():
    def respond(request):
        limits.append(request.extensions["timeout"])
        return httpx.Response(200, json={"neighbors": [], "resolution": None})

    limits = []
    for timeout in (60, 5):
        transport = httpx.MockTransport(respond)
        with Client("http://service", timeout=timeout, transport=transport) as client:
            assert client.neighbors("bank") == []
    assert limits == [
        {"connect": 10, "read": 60, "write": 60, "pool": None},
        {"connect": 5, "read": 5, "write": 5, "pool": None},
    ]


@pytest.mark.parametrize(
    ("method", "args", "options", "fields"),
    [
        ("encode", (["bank"],), {}, {"input": ["bank"]}),
        ("encode", (["a"],), {"phrases": True, "heads": "all"}, {"input": ["a"], "phrases": True}),
        ("compare", (PAIRS,), {"neighbors": np.int64(5)}, {"occurrences": OCCURRENCES}),
        (
            *("senses", ("bank", ["bank"]), {"senses": None}),
            {"word": "bank", "texts": ["bank"], "inventory": True},
        ),
        ("neighbors", ("bank",), {}, {"word": "bank"}),
    ],
    ids=str,
)
def test_only_fields_that_differ_from_their_defaults_are_sent(method, args, options, fields):
    """Earlier services reject fields that they do not know."""
    with scripted_server(ScriptedResponse(404)) as server, pytest.raises(AnswerError):
        call(Client, server.url, method, *args, **options)
    assert orjson.loads(server.requests[0].body) == fields
