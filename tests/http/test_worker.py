"""The worker: a bounded queue, malformed requests, connections, deadlines, and clients that leave.

A real gunicorn computes requests of minutes.
"""

import json
import os
import signal
import time
from contextlib import ExitStack
from select import select
from socket import create_connection

import httpx
import pytest
from docs.openapi import OpenAIProblemResponse
from gunicorn.workers.gthread import DEFAULT_WORKER_DATA_TIMEOUT

from polyseme.http.middleware import SECURITY_HEADERS
from tests.http.conftest import SECRET, numbers_in, total
from tests.http.hostile import violation
from tests.http.service import (
    SHORT,
    Caller,
    Service,
    client_ports,
    get,
    posted,
    raw,
    responses_in,
    running,
    until,
)

LIVE = get("/livez")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One worker with one thread and room for three waiting requests; it closes no connection."""
    settings = {"workers": 1, "threads": 1, "max_waiting": 3, "max_body_bytes": 1 << 20}
    settings |= {"keep_alive": 3600}
    with running(tmp_path_factory.mktemp("service"), **settings) as made:
        yield made


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A service of one thread with few connections, little work, and a rate limit."""
    limits = {"max_connections": 12, "max_work": 0.1, "rate_limit": "12/hour"}
    folder = tmp_path_factory.mktemp("strict")
    with running(folder, workers=1, threads=1, keep_alive=3600, **limits) as made:
        yield made


def refused(service: Service) -> float:
    """The number of requests that were rejected because the queue was full."""
    metrics = numbers_in(httpx.get(f"{service.url}/metrics").text)
    return total(metrics, "refused_total", reason="overloaded")


def test_a_full_queue_responds_with_503_and_retry_after(service: Service) -> None:
    before = refused(service)
    # The end of a connection takes a place in the queue.
    until(lambda: client_ports(service, service.workers()[0]), set())
    with ExitStack() as stack:
        busy = stack.enter_context(Caller(service))
        busy.hold_thread()
        callers = [stack.enter_context(Caller(service)) for _ in range(10)]
        for caller in callers:
            caller.send(posted(SHORT))
        # Connections are accepted in order. The first three wait for the thread.
        responses = [caller.response() for caller in callers[3:]]
        assert [status for status, _, _ in responses] == [503] * 7
        assert busy.response()[0] == 200
        assert [caller.response()[0] for caller in callers[:3]] == [200] * 3
    assert violation(responses[0]) is None
    _, headers, body = responses[0]
    document = json.loads(body)
    OpenAIProblemResponse.model_validate(document)
    assert document["code"] == document["error"]["code"] == "overloaded"
    assert (headers["retry-after"], headers["connection"]) == ("1", "close")
    until(lambda: service.ask("POST", "/v1/encode", SHORT)[0], 200)
    assert refused(service) >= before + 7  # the last requests may have been rejected too
    assert '"code":"overloaded"' in service.log.read_text()


def test_a_client_that_does_not_close_does_not_delay_others(service: Service) -> None:
    def connections(caller: Caller) -> float:
        return total(numbers_in(caller.ask(get("/metrics"))[2].decode()), "connections")

    with ExitStack() as stack:
        kept = stack.enter_context(Caller(service))
        for _ in range(10):
            open_client = stack.enter_context(Caller(service))
            assert open_client.ask(get("/livez", "Connection: close\r\n"))[0] == 200
            assert open_client.closed
            assert kept.ask(LIVE)[0] == 200
        # gunicorn's own worker blocks until the client closes, or for 2 s, before the next request.
        assert connections(kept) > 5
    with Caller(service) as caller:
        until(lambda: connections(caller), 1)


def test_silent_and_idle_connections_delay_and_keep_out_no_request(service, strict) -> None:
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(Caller(service))
        with Caller(service) as caller:
            assert [caller.ask(posted(SHORT))[0] for _ in range(20)] == [200] * 20
        until(lambda: client_ports(strict, strict.workers()[0]), set())
        idle = [stack.enter_context(Caller(strict)) for _ in range(6)]
        assert [caller.ask(LIVE)[0] for caller in idle] == [200] * 6
        silent = [stack.enter_context(Caller(strict)) for _ in range(40)]
        with Caller(strict) as caller:
            assert caller.ask(posted(SHORT))[0] == 200
        closed = [one for one in (*idle, *silent) if select([one.socket], [], [], 0)[0]]
        assert len(closed) >= 46 - 12 and all(caller.closed for caller in closed)


def test_connections_that_close_without_a_request_do_not_fill_the_queue(service: Service) -> None:
    (worker,) = service.workers()
    with ExitStack() as stack:
        others = [stack.enter_context(Caller(service)) for _ in range(20)]
        with Caller(service) as caller:
            assert caller.ask(LIVE)[0] == 200
            os.kill(worker, signal.SIGSTOP)
            try:
                for other in others:
                    other.socket.close()
                caller.send(posted(SHORT))
            finally:
                os.kill(worker, signal.SIGCONT)
            assert caller.response()[0] == 200


def test_pipelined_requests_get_responses_in_order(service: Service) -> None:
    inputs = ["Apple", "river", "money bank"]
    with Caller(service) as caller:
        wanted = [caller.ask(posted({"input": one}))[2] for one in inputs]
        caller.send(b"".join(posted({"input": one}) for one in inputs))
        assert [caller.response()[2] for _ in inputs] == wanted


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"s3cretqx" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/9.9\r\nHost: s3cretqx\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"s3cretqx" * 2000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n"
        + b"Accept: s3cretqx,%b\r\n" % (b"a" * 7000) * 6
        + b"\r\n",
        b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: s3cretqx\r\n\r\n",
    ],
)
def test_a_malformed_request_gets_a_problem_without_any_of_its_text(service, sent):
    (response,) = responses_in(raw(service.address, sent))
    assert violation(response) is None
    document = json.loads(response.body)
    OpenAIProblemResponse.model_validate(document)
    assert (document["code"], response.status) == ("malformed", 400)
    assert response.headers["server-timing"] == "total;dur=0"
    for name, value in SECURITY_HEADERS.items():
        assert response.headers[name.lower()] == value
    until(lambda: document["request_id"] in service.log.read_text())
    assert SECRET not in service.log.read_text()


def test_a_chunked_body_is_read_and_limited(service: Service) -> None:
    headers = {"Content-Type": "application/json"}
    for size, status in ((1000, 200), (3_000_000, 413)):
        chunks = [b'{"input": "', *[b"a" * 500] * (size // 500), b'"}']
        response = httpx.post(f"{service.url}/v1/encode", content=iter(chunks), headers=headers)
        assert response.status_code == status, response.text


POST = b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (CHUNKED + b"s3cretqx\r\n", "not_json"),
        (POST + b'Content-Length: 14\r\n\r\n{"input":"a"}', "not_json"),
        # A body that is not read is not parsed as requests.
        (POST + b"Content-Length: 5000000\r\n\r\n" + LIVE * 100, "too_large"),
        # Tiny chunks are within the budget.
        (CHUNKED + b"1\r\n \r\n" * 50_000, "too_large"),
        (CHUNKED + b"1%b\r\n \r\n" % (b";a" * 4000) * 500, "too_large"),
    ],
)
def test_a_broken_body_ends_the_connection_with_one_response(strict: Service, sent, code) -> None:
    received = raw(strict.address, sent)
    assert received.count(b"HTTP/1.1 ") == 1
    assert b'"code":"%b"' % code.encode() in received
    assert SECRET.encode() not in received


@pytest.mark.parametrize(("path", "status"), [("/v1/nothing", 404), ("/v1/encode", 415)])
def test_a_rejected_body_is_not_awaited_as_long_as_by_gunicorn(service, path, status) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with create_connection(service.address) as client:
        client.settimeout(DEFAULT_WORKER_DATA_TIMEOUT - 1)
        client.sendall(f"{head}1\r\na\r\n".encode())
        received = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert received.startswith(f"HTTP/1.1 {status} ".encode())


def test_malformed_requests_count_towards_the_rate_limit(strict: Service) -> None:
    statuses = [raw(strict.address, b"s3cretqx\r\n\r\n") for _ in range(20)]
    assert {one.split(b" ", 2)[1] for one in statuses} == {b"400", b"429"}
    assert b"\r\nretry-after: " in statuses[-1].lower()
    assert strict.ask("POST", "/v1/encode", SHORT)[0] == 429
    assert strict.ask("GET", "/livez")[0] == 200


LONG_TEXT = " ".join(["the river bank is near the money bank and the boats lie there"] * 70)
WHOLE = {"input": [LONG_TEXT] * 500, "include": ["queries"], "encoding": "base64"}
UNLIMITED = {
    "max_work": 3600,
    "max_pairs": 1 << 40,
    **dict.fromkeys(["max_answer_bytes", "max_concurrent_answer_bytes"], 1 << 32),
}


def codes_of_aborted_requests(service) -> list[str]:
    lines = map(json.loads, service.log.read_bytes().splitlines())
    return [line["code"] for line in lines if line.get("aborted")]


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """A service of one thread, whose requests may take four seconds."""
    settings = {"workers": 1, "threads": 1, "request_seconds": 4, "log_format": "json"}
    with running(tmp_path_factory.mktemp("brief"), **settings, **UNLIMITED) as service:
        yield service


def test_a_slow_reader_of_a_stream_does_not_use_up_the_deadline(brief) -> None:
    # Each of the lines has 4 MB; all together have more than the buffers of the sockets.
    body = {
        "input": [LONG_TEXT] * 8,
        "include": ["attention"],
        "encoding": "base64",
        "heads": "mean",
    }
    with Caller(brief) as caller:
        caller.send(posted(body, extra="Accept: application/x-ndjson\r\n"))
        time.sleep(4.5)
        _, _, received = caller.response()
    assert json.loads(received.splitlines()[-1])["complete"]


def test_the_service_stops_computing_when_the_client_leaves(brief) -> None:
    with Caller(brief) as caller:
        caller.send(posted(WHOLE))
        time.sleep(0.3)
    with Caller(brief) as caller:
        assert caller.ask(posted({"input": "bank"}))[0] == 200
    until(lambda: codes_of_aborted_requests(brief)[-1:], ["aborted"])


def test_time_in_the_queue_counts_towards_the_deadline(brief) -> None:
    with Caller(brief) as busy, Caller(brief) as waiting:
        stuck = posted({"input": "a"})
        busy.send(stuck[:-1])  # the only thread waits for the last byte
        time.sleep(0.5)
        waiting.send(posted({"input": "the river bank"}))
        time.sleep(4.1)
        busy.send(stuck[-1:])
        for status, headers, body in (busy.response(), waiting.response()):
            assert (status, json.loads(body)["code"]) == (503, "deadline")
            assert int(headers["retry-after"]) > 0
