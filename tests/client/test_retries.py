"""Temporary failures are retried as the service asks; permanent ones are not."""

import asyncio
import socket
import threading
import time
from functools import partial

import httpx
import pytest

from polyseme.client import AnswerError, AsyncClient, Client, ClientError, UnreachableError
from polyseme.errors import InvalidError, OverloadedError, PolysemeError, RateLimitedError
from tests.client.conftest import call
from tests.client.scripted_server import ScriptedResponse, scripted_server
from tests.conftest import free_port
from tests.http.service import until

NEIGHBORS = ScriptedResponse(
    body=b'{"neighbors": [{"word": "bank", "similarity": 0.5}], "resolution": null}'
)
RESET = ScriptedResponse(body=b"", cut=True)
CUT_OFF = ScriptedResponse(body=NEIGHBORS.body, cut=True)


def problem(status, code, wait=None):
    """An error response; `wait` is its Retry-After."""
    document = b'{"code": "%b", "detail": "No.", "hint": "Wait.", "request_id": "r1"}' % code
    headers = {} if wait is None else {"Retry-After": wait}
    return ScriptedResponse(status, "application/problem+json", document, headers)


limited = partial(problem, 429, b"rate_limited")
OVERLOADED = problem(503, b"overloaded")
BAD_GATEWAY = ScriptedResponse(502, "text/html", b"<html>Bad gateway</html>")


@pytest.fixture(params=[Client, AsyncClient])
def ask(request):
    """Ask a client of each kind with some options for neighbors."""
    return lambda url, **options: call(request.param, url, "neighbors", "bank", client=options)


NOT_POLYSEME = ScriptedResponse(404, "text/html", b"<html>")
ATTEMPTS = {
    "overloaded": ([OVERLOADED] * 2, {}, None, 3),
    "bad gateway": ([BAD_GATEWAY] * 2, {}, None, 3),
    "reset": ([RESET] * 2, {}, None, 3),
    "cut off": ([CUT_OFF] * 2, {}, None, 3),
    "Retry-After is no number": ([limited("soon")], {}, None, 2),
    "Retry-After is negative": ([limited("-1")], {}, None, 2),
    "Retry-After is past": ([limited("Fri, 01 Jan 2000 00:00:00 GMT")], {}, None, 2),
    "Retry-After is no date": ([limited(f"Fri, 01 Jan {'9' * 20} 00:00:00 GMT")], {}, None, 2),
    "no wait is allowed": ([OVERLOADED] * 2, {"longest_wait": 0}, None, 3),
    "no second is allowed": ([limited("1")], {"longest_wait": 0}, RateLimitedError, 1),
    "overloaded every time": ([OVERLOADED] * 2, {"retries": 1}, OverloadedError, 2),
    "reset every time": ([RESET] * 2, {"retries": 1}, UnreachableError, 2),
    "cut off every time": ([CUT_OFF] * 2, {"retries": 1}, UnreachableError, 2),
    "internal": ([problem(500, b"internal")], {}, PolysemeError, 1),
    "invalid": ([problem(422, b"invalid")], {}, InvalidError, 1),
    "another server": ([NOT_POLYSEME], {}, AnswerError, 1),
}
"""Responses before one that succeeds, options, the error, and the number of requests."""


@pytest.mark.parametrize(("failures", "options", "error", "count"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_temporary_failures_are_retried_unchanged(ask, failures, options, error, count):
    with scripted_server(*failures, NEIGHBORS) as server:
        if error:
            with pytest.raises(error) as caught:
                ask(server.url, **options)
            if isinstance(caught.value, PolysemeError):
                assert (caught.value.request_id, str(caught.value)[:4]) == ("r1", "No. ")
        else:
            assert [one.word for one in ask(server.url, **options)] == ["bank"]
    assert len(server.requests) == count
    assert len({request.body for request in server.requests}) == 1


def test_a_retry_after_is_awaited_up_to_the_longest_wait(ask):
    with scripted_server(limited("1"), NEIGHBORS) as server:
        started = time.monotonic()
        ask(server.url)
        assert time.monotonic() - started >= 1
    far = "Fri, 01 Jan 2100 00:00:00 GMT"
    for wait, shortest in {"3600": 3600, "9" * 400: 10**9, far: 10**8}.items():
        with scripted_server(limited(wait)) as server, pytest.raises(RateLimitedError) as caught:
            ask(server.url)
        assert len(server.requests) == 1
        assert caught.value.seconds >= shortest


def test_a_refused_connection_is_reported_with_its_cause(ask):
    with pytest.raises(ConnectionError, match=r"\(ConnectError: .*polyseme serve") as caught:
        ask(f"http://127.0.0.1:{free_port()}", retries=1)
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_a_failed_tls_handshake_is_not_retried(ask):
    with scripted_server(NEIGHBORS) as server:
        address = server.url.replace("http:", "https:")
        with pytest.raises(UnreachableError, match="SSL"):
            ask(address, retries=50)  # so many retries would take minutes


def test_a_closed_client_is_a_client_error():
    async def call_closed():
        client = AsyncClient("http://127.0.0.1:9")
        await client.close()
        await client.neighbors("bank")

    client = Client("http://127.0.0.1:9")
    client.close()
    for closed in (lambda: client.encode(["bank"]), lambda: asyncio.run(call_closed())):
        with pytest.raises(ClientError, match="The client is closed"):
            closed()


def test_a_host_that_does_not_exist_is_reported(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UnreachableError, match="Name or service not known"):
        call(Client, "http://no-such-host.invalid", "neighbors", "bank", client={"retries": 0})


def test_a_silent_service_ends_in_a_timeout(ask):
    given_up = threading.Event()

    def silent(_):
        given_up.wait(30)
        return NEIGHBORS

    with scripted_server(silent) as server:
        with pytest.raises(UnreachableError, match="ReadTimeout"):
            ask(server.url, timeout=0.2)
        given_up.set()
        # The server may read a request after its client has given up.
        until(lambda: server.requests)
        # A retry would take as long again.
        assert len(server.requests) == 1


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
