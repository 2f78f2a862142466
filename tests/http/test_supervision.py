"""Requests end at their deadline or when their client leaves, and long ones leave room for others.

A real gunicorn computes requests of minutes.
"""

import time

import orjson
import pytest

from tests.http.service import Caller, posted, running, until

TEXT = " ".join(["the river bank is near the money bank and the boats lie there"] * 70)
WHOLE = {"input": [TEXT] * 500, "include": ["queries"], "encoding": "base64"}
UNLIMITED = {
    "max_work": 3600,
    "max_pairs": 1 << 40,
    **dict.fromkeys(["max_answer_bytes", "max_concurrent_answer_bytes"], 1 << 32),
}


def codes_of_aborted_requests(service) -> list[str]:
    lines = map(orjson.loads, service.log.read_bytes().splitlines())
    return [line["code"] for line in lines if line.get("aborted")]


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A service of one thread, whose requests may take four seconds."""
    settings = {"workers": 1, "threads": 1, "request_seconds": 4, "log_format": "json"}
    with running(tmp_path_factory.mktemp("strict"), **settings, **UNLIMITED) as service:
        yield service


def test_a_slow_reader_of_a_stream_does_not_use_up_the_deadline(strict) -> None:
    # Each of the lines has 4 MB, more than the buffers of the sockets.
    body = {"input": [TEXT] * 8, "include": ["attention"], "encoding": "base64", "heads": "mean"}
    with Caller(strict) as caller:
        caller.send(posted(body, extra="Accept: application/x-ndjson\r\n"))
        time.sleep(4.5)
        _, _, received = caller.response()
    assert orjson.loads(received.splitlines()[-1])["complete"]


def test_the_service_stops_computing_when_the_client_leaves(strict) -> None:
    with Caller(strict) as caller:
        caller.send(posted(WHOLE))
        time.sleep(0.3)
    with Caller(strict) as caller:
        assert caller.ask(posted({"input": "bank"}))[0] == 200
    until(lambda: codes_of_aborted_requests(strict)[-1:], ["aborted"])


def test_time_in_the_queue_counts_towards_the_deadline(strict) -> None:
    with Caller(strict) as busy, Caller(strict) as waiting:
        stuck = posted({"input": "a"})
        busy.send(stuck[:-1])  # the only thread waits for the last byte
        time.sleep(0.5)
        waiting.send(posted({"input": "the river bank"}))
        time.sleep(4.1)
        busy.send(stuck[-1:])
        for status, headers, body in (busy.response(), waiting.response()):
            assert (status, orjson.loads(body)["code"]) == (503, "deadline")
            assert int(headers["retry-after"]) > 0
