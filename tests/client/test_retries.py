"""Temporary failures are retried as the service asks; permanent ones are not."""

import asyncio
import socket
import threading
import time

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


def problem(status, code, **headers):
    """An error response; `Retry_After` is the header Retry-After."""
    document = b'{"code": "%b", "detail": "No.", "hint": "Wait.", "request_id": "r1"}' % code
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return ScriptedResponse(status, "application/problem+json", document, headers)


OVERLOADED = problem(503, b"overloaded")
BAD_GATEWAY = ScriptedResponse(502, "text/html", b"<html>Bad gateway</html>")


@pytest.fixture(params=[Client, AsyncClient])
def ask(request):
    """Ask a client of each kind with some options for neighbors."""
    return lambda url, **options: call(request.param, url, "neighbors", "bank", client=options)


@pytest.mark.parametrize(
    "failing",
    [OVERLOADED, BAD_GATEWAY, RESET, CUT_OFF],
    ids=["overloaded", "bad gateway", "reset", "cut off"],
)
def test_a_request_that_fails_twice_is_retried_unchanged(ask, failing):
    with scripted_server(failing, failing, NEIGHBORS) as server:
        assert [one.word for one in ask(server.url)] == ["bank"]
    assert len(server.requests) == 3
    assert len({request.body for request in server.requests}) == 1


def test_a_retry_after_is_awaited(ask):
    waits = problem(429, b"rate_limited", Retry_After="1")
    with scripted_server(waits, NEIGHBORS) as server:
        started = time.monotonic()
        ask(server.url)
    assert time.monotonic() - started >= 1


def test_a_retry_after_beyond_the_limit_is_not_awaited(ask):
    for wait, shortest in {
        "3600": 3600,
        "9" * 400: 10**9,
        "Fri, 01 Jan 2100 00:00:00 GMT": 10**8,
    }.items():
        with scripted_server(problem(429, b"rate_limited", Retry_After=wait)) as server:
            with pytest.raises(RateLimitedError) as caught:
                ask(server.url)
            assert len(server.requests) == 1
        assert caught.value.seconds >= shortest


def test_an_invalid_or_past_retry_after_does_not_stop_retries(ask):
    far = f"Fri, 01 Jan {'9' * 20} 00:00:00 GMT"
    for wait in ("soon", "-1", "Fri, 01 Jan 2000 00:00:00 GMT", far):
        with scripted_server(problem(429, b"rate_limited", Retry_After=wait), NEIGHBORS) as server:
            assert [one.word for one in ask(server.url)] == ["bank"]


def test_with_a_longest_wait_of_0_only_retries_without_a_wait_are_made(ask):
    with scripted_server(OVERLOADED, OVERLOADED, NEIGHBORS) as server:
        assert [one.word for one in ask(server.url, longest_wait=0)] == ["bank"]
    with scripted_server(problem(503, b"overloaded", Retry_After="1")) as server:
        with pytest.raises(OverloadedError):
            ask(server.url, longest_wait=0)
        assert len(server.requests) == 1


def test_after_the_last_retry_the_error_of_the_service_is_raised(ask):
    with scripted_server(OVERLOADED) as server:
        with pytest.raises(OverloadedError, match=r"No\.") as caught:
            ask(server.url, retries=1)
        assert len(server.requests) == 2
    assert caught.value.request_id == "r1"


def test_permanent_errors_are_not_retried(ask):
    for response, error in (
        (problem(500, b"internal"), PolysemeError),
        (problem(422, b"invalid"), InvalidError),
        (ScriptedResponse(404, "text/html", b"<html>"), AnswerError),
    ):
        with scripted_server(response) as server:
            with pytest.raises(error):
                ask(server.url)
            assert len(server.requests) == 1


def test_a_connection_that_fails_every_time_is_unreachable(ask):
    for response in (RESET, CUT_OFF):
        with scripted_server(response) as server:
            with pytest.raises(UnreachableError, match="does not respond"):
                ask(server.url, retries=1)
            assert len(server.requests) == 2


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
