"""SIGTERM, recycling and kill -9: what was begun is answered."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import orjson
import pytest

from tests.conftest import ROOT
from tests.http.sockets import LONG, LONGER, SHORT, TRACE, TRACES, Caller, connections_of, posted
from tests.http.versions import WAIT, service, until, workers_of

READY = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"
REQUEST = posted(SHORT)
STREAMED = posted({"input": ["the river bank is near"] * 600})


def ended(pid):
    """The exit code of a child that has ended."""
    end = time.monotonic() + WAIT
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        assert time.monotonic() < end
        time.sleep(0.02)


def refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionError:
        return True
    return False


TIMES = """
from polyseme.http import serving
print(serving.graceful_timeout, serving.max_requests, serving.max_requests_jitter)
"""


@pytest.mark.parametrize(("together", "drain", "left"), [(45, 10, 35), (5, 10, 0)])
def test_answers_have_the_time_that_draining_leaves(together: int, drain: int, left: int) -> None:
    given = {"GRACEFUL_TIMEOUT": together, "DRAIN_SECONDS": drain, "MAX_REQUESTS": 1000}
    done = subprocess.run(
        [sys.executable, "-c", TIMES],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **{f"POLYSEME_{name}": str(value) for name, value in given.items()}},
    )
    assert done.stdout.split() == [str(left), "1000", "100"]


def test_sigterm_first_says_not_ready_then_takes_no_more_and_ends_with_the_last_answer(tmp_path):
    with service(tmp_path, drain_seconds=2, threads=1, workers=1) as (pid, port):
        with Caller(port) as idle, Caller(port) as busy, Caller(port) as late:
            assert idle.ask(READY)[0] == 200
            os.kill(pid, signal.SIGTERM)
            until(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz").status_code, 503)
            status, headers, body = idle.ask(READY)
            document = orjson.loads(body)
            assert (status, document["code"]) == (503, "draining")
            assert headers["retry-after"] == "5"
            assert headers["connection"] == "close"
            assert [one["status"] for one in document["models"]] == ["loaded"]
            # Who has not heard is answered all the same, and told to go.
            status, headers, _ = late.ask(REQUEST)
            assert (status, headers["connection"]) == (200, "close")
            assert late.closed
            busy.send(posted(LONGER))
            time.sleep(0.5)
            os.kill(pid, signal.SIGTERM)  # a second one ends the waiting
            until(lambda: refused(port), True)
            status, headers, _ = busy.answer()
            assert (status, headers["connection"]) == (200, "close")
        assert ended(pid) == 0


def test_requests_that_are_on_their_way_are_answered_when_the_door_closes(tmp_path) -> None:
    with service(tmp_path, drain_seconds=0, threads=1, workers=1) as (pid, port):
        with Caller(port) as busy, Caller(port) as half, Caller(port) as kept:
            assert kept.ask(REQUEST)[0] == 200
            busy.send(posted(LONG))
            half.send(REQUEST[:-5])
            time.sleep(0.3)
            waiting = [Caller(port) for _ in range(5)]
            for caller in waiting:
                caller.send(REQUEST)
            os.kill(pid, signal.SIGTERM)
            half.send(REQUEST[-5:])
            kept.send(REQUEST)
            for caller in (busy, half, kept, *waiting):
                assert caller.answer()[0] == 200
                caller.socket.close()
        assert ended(pid) == 0


def test_a_client_that_never_finishes_does_not_keep_the_service_from_ending(tmp_path) -> None:
    settings = {"drain_seconds": 1, "graceful_timeout": 3, "request_timeout": 600}
    with service(tmp_path, **settings) as (pid, port), Caller(port) as half:
        half.send(REQUEST[:-5])
        os.kill(pid, signal.SIGTERM)
        assert ended(pid) == 0
        assert half.closed


def test_a_client_that_sends_nothing_does_not_keep_the_service_from_ending(tmp_path) -> None:
    settings = {"drain_seconds": 0, "graceful_timeout": 3600, "request_timeout": 3600}
    with service(tmp_path, **settings) as (pid, port), Caller(port) as silent:
        workers = workers_of(pid)
        until(lambda: sum(connections_of(one, port) for one in workers), 1)
        os.kill(pid, signal.SIGTERM)
        assert ended(pid) == 0
        assert silent.closed


@pytest.fixture
def folders(tmp_path):
    """Folders for as many tries as it takes, within reason.

    A worker that writes a large answer hears a signal when that is written, and may then have said
    that the connection is kept: which is kept long enough to ask once more.
    """
    for number in range(8):
        (tmp_path / str(number)).mkdir()
    return sorted(tmp_path.iterdir())


def test_an_answer_that_began_before_the_worker_leaves_says_that_it_does(folders) -> None:
    settings = {"drain_seconds": 0, "workers": 1, **TRACES}
    for folder in folders:
        with service(folder, **settings) as (pid, port), Caller(port) as busy:
            busy.send(posted(TRACE, path="/v1/trace"))
            time.sleep(0.5)
            os.kill(pid, signal.SIGTERM)
            status, headers, _ = busy.answer()
            assert status == 200
            assert ended(pid) == 0
        if headers["connection"] == "close":
            return
    pytest.fail("it never said so")


def test_who_was_told_that_the_connection_is_kept_may_ask_once_more(tmp_path) -> None:
    settings = {"drain_seconds": 0, "stream_bytes": 1, "workers": 1}
    with service(tmp_path, **settings) as (pid, port), Caller(port, 4096) as slow:
        slow.send(STREAMED)
        assert slow.socket.recv(1, socket.MSG_PEEK)
        os.kill(pid, signal.SIGTERM)
        until(lambda: refused(port), True)
        time.sleep(2.5)  # longer than a connection that is idle is kept
        status, headers, _ = slow.answer()
        assert (status, headers["connection"]) == (200, "keep-alive")
        status, headers, _ = slow.ask(REQUEST)
        assert (status, headers["connection"]) == (200, "close")
        assert ended(pid) == 0


def test_a_worker_whose_master_is_killed_finishes_in_order(folders) -> None:
    for folder in folders:
        with service(folder, threads=1, workers=1, **TRACES) as (pid, port):
            with Caller(port) as busy, Caller(port) as waiting:
                assert waiting.ask(REQUEST)[0] == 200
                busy.send(posted(TRACE, path="/v1/trace"))
                time.sleep(0.5)
                waiting.send(REQUEST)
                os.kill(pid, signal.SIGKILL)
                assert busy.answer()[0] == 200
                status, headers, _ = waiting.answer()
                assert status == 200
            until(lambda log=folder / "log": "Worker exiting" in log.read_text(), True)
            assert "Exception" not in (folder / "log").read_text()
        if headers["connection"] == "close":
            return
    pytest.fail("it never said that it leaves")


def test_sigint_ends_it_without_waiting(tmp_path) -> None:
    with service(tmp_path, drain_seconds=3600, graceful_timeout=3600) as (pid, port):
        assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
        os.kill(pid, signal.SIGINT)
        assert ended(pid) == 0


class Asking(threading.Thread):
    """Asks without pause, on a new connection where the service says that it closes the old."""

    def __init__(self, port, enough):
        super().__init__()
        self.port, self.enough = port, enough
        self.bodies, self.lost = [], []

    def run(self):
        caller = Caller(self.port)
        while not self.enough.is_set():
            try:
                status, headers, body = caller.ask(REQUEST)
            except Exception as error:  # noqa: BLE001 - it is counted
                self.lost.append(repr(error))
                return
            assert status == 200
            self.bodies.append(body)
            if headers.get("connection") == "close":
                caller.socket.close()
                caller = Caller(self.port)
        caller.socket.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_are_replaced_after_enough_requests_and_none_is_lost(tmp_path, workers) -> None:
    with service(tmp_path, workers=workers, max_requests=100) as (pid, port):
        seen, enough = set(workers_of(pid)), threading.Event()
        clients = [Asking(port, enough) for _ in range(6)]
        for client in clients:
            client.start()
        end = time.monotonic() + WAIT
        while len(seen) < 4 * workers and time.monotonic() < end:
            seen |= set(workers_of(pid))
            time.sleep(0.02)
        enough.set()
        for client in clients:
            client.join()
        assert len(seen) >= 4 * workers
        assert [client.lost for client in clients] == [[]] * 6
        assert len({body for client in clients for body in client.bodies}) == 1
        until(lambda: len(workers_of(pid)), workers)


def test_a_worker_that_is_replaced_has_all_the_time_though_draining_would_take_it(tmp_path):
    settings = {"workers": 1, "max_requests": 5, "drain_seconds": 30, "graceful_timeout": 30}
    with service(tmp_path, **settings) as (pid, port), Caller(port) as busy:
        busy.send(posted(LONGER))
        time.sleep(0.5)
        for _ in range(3):  # beside the one that begins, and the one that saw the service start
            with Caller(port) as caller:
                assert caller.ask(REQUEST)[0] == 200
        assert busy.answer()[0] == 200
        os.kill(pid, signal.SIGINT)


def test_a_worker_that_is_killed_is_replaced(tmp_path) -> None:
    with service(tmp_path) as (pid, port):
        before = set(workers_of(pid))
        os.kill(min(before), signal.SIGKILL)
        until(lambda: len(set(workers_of(pid)) - before), 1)
        until(lambda: len(workers_of(pid)), 2)
        with Caller(port) as caller:
            assert caller.ask(REQUEST)[0] == 200
