"""More than the service can do is refused at once; what was taken is answered."""

import sys
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import orjson
import pytest
from polyseme.http.connection import State
from polyseme.http.traffic import Traffic

from polyseme.settings import Settings
from tests.conftest import ROOT, start
from tests.http.numbers import numbers_in, total
from tests.http.problem import expect_problem
from tests.http.sockets import LONG, LONGER, SHORT, Caller, connections_of, posted
from tests.http.versions import WAIT, service, until, workers_of

FAULTY = """
import sys
sys.path.insert(0, {root!r})
from polyseme.__main__ import main
from polyseme.http import watching

begin = watching.begin

def begin_with_faults(worker):
    # Not before: the metrics have to be made after their files.
    from polyseme.http.connection import Connection
    from polyseme.http.traffic import Traffic

    receive, work = Connection.receive, Traffic._work

    def receive_or_fail(one):
        receive(one)
        if b"/in-the-loop" in one.received:
            raise MemoryError

    def work_or_fail(traffic, one):
        if b"/in-a-thread" in one.received:
            raise MemoryError
        return work(traffic, one)

    Connection.receive, Traffic._work = receive_or_fail, work_or_fail
    begin(worker)

watching.begin = begin_with_faults
main()
"""
LIVE = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


def test_one_more_than_may_wait_is_refused_with_a_time_to_come_back(tmp_path) -> None:
    settings = {"workers": 1, "threads": 1, "max_waiting": 3}
    with service(tmp_path, **settings) as (pid, port), ExitStack() as stack:
        callers = [stack.enter_context(Caller(port)) for _ in range(10)]
        for caller in callers:
            caller.send(posted(LONG))
        answers = [caller.answer() for caller in callers]
        statuses = [status for status, _, _ in answers]
        assert set(statuses) == {200, 503}
        assert statuses.count(200) == 4
        for status, headers, body in answers:
            if status == 503:
                document = orjson.loads(body)
                assert document["code"] == "overloaded"
                assert headers["retry-after"] == "1"
                assert headers["content-type"] == "application/problem+json"
                assert headers["x-request-id"] == document["request_id"]
                assert headers["connection"] == "close"
        assert len(workers_of(pid)) == 1
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/encode", json=SHORT)
        assert answer.status_code == 200


def test_a_request_that_has_waited_too_long_is_refused(tmp_path) -> None:
    settings = {"workers": 1, "threads": 1, "queue_timeout": 1}
    with service(tmp_path, **settings) as (_, port), ExitStack() as stack:
        callers = [stack.enter_context(Caller(port)) for _ in range(12)]
        for caller in callers:
            caller.send(posted(LONG))
        statuses = [caller.answer()[0] for caller in callers]
        assert set(statuses) == {200, 503}
        problem = httpx.get(f"http://127.0.0.1:{port}/v1/nothing")
        expect_problem(problem, 404, "unknown_route")


def test_nobody_is_left_in_the_system_s_queue_while_all_threads_are_busy(tmp_path) -> None:
    settings = {"workers": 1, "threads": 1, "max_waiting": 0}
    with service(tmp_path, **settings) as (_, port), Caller(port) as busy, Caller(port) as other:
        busy.send(posted(LONGER))
        statuses = []
        while 503 not in statuses and len(statuses) < 50:
            time.sleep(0.1)  # its request may not be in the thread yet
            with Caller(port) as caller:
                statuses.append(caller.ask(LIVE)[0])
        assert statuses[-1] == 503
        assert busy.answer()[0] == 200
        # The thread is free a moment after its answer has come.
        until(lambda: other.ask(LIVE)[0], 200)


def test_a_long_answer_lets_short_ones_in_between(tmp_path) -> None:
    settings = {"workers": 1, "threads": 1, "stream_bytes": 1}
    with service(tmp_path, **settings) as (_, port), Caller(port) as bulk, Caller(port) as other:
        bulk.send(posted({"input": ["the river bank is near the money bank"] * 1000}))
        done = []
        reading = threading.Thread(target=lambda: done.append(bulk.answer()))
        reading.start()
        answered = 0
        while reading.is_alive() and answered < 1000:
            assert other.ask(posted(SHORT))[0] == 200
            answered += 1
        reading.join()
        assert done[0][0] == 200
        assert len(orjson.loads(done[0][2])["results"]) == 1000
        assert answered > 3


def test_requests_that_are_sent_all_at_once_are_answered_in_their_order(client, tmp_path) -> None:
    inputs = ["Apple", "river", "bank", "money bank", "the bank"]
    wanted = [client.post("/v1/encode", json={"input": one}).json() for one in inputs]
    with service(tmp_path) as (_, port), Caller(port) as caller:
        caller.send(b"".join(posted({"input": one}) for one in inputs))
        for document in wanted:
            status, _, body = caller.answer()
            assert (status, orjson.loads(body)) == (200, document)


def test_no_more_connections_are_kept_than_there_may_be(tmp_path) -> None:
    settings = {"workers": 1, "max_connections": 5, "keep_alive": 60, "request_timeout": 2}
    with service(tmp_path, **settings) as (pid, port), ExitStack() as stack:
        (worker,) = workers_of(pid)
        silent = [stack.enter_context(Caller(port)) for _ in range(8)]
        until(lambda: connections_of(worker, port), 5)
        with Caller(port) as caller:
            assert caller.ask(LIVE)[0] == 200
        assert silent[0].closed


def test_what_goes_wrong_with_one_connection_ends_no_other(tmp_path) -> None:
    command = (sys.executable, "-c", FAULTY.format(root=str(ROOT)))
    process, address = start(tmp_path / "log", command, workers=1, threads=1, max_waiting=1)
    port = int(address.rpartition(":")[2])
    try:
        (worker,) = workers_of(process.pid)
        with Caller(port) as other:
            for path in (b"in-the-loop", b"in-a-thread") * 4:
                with Caller(port) as caller:
                    caller.send(LIVE.replace(b"livez", path))
                    assert caller.closed
                assert other.ask(LIVE)[0] == 200
            until(lambda: connections_of(worker, port), 1)
            metrics = other.ask(LIVE.replace(b"livez", b"metrics"))[2].decode()
            assert total(numbers_in(metrics), "requests_in_progress") == 1
        assert workers_of(process.pid) == [worker]
    finally:
        process.terminate()
        process.wait(WAIT)
    assert (tmp_path / "log").read_text().count("MemoryError in the worker") == 8


class Sending:
    """A connection whose client has not read for some seconds."""

    state, held = State.SENDING, 20 << 20

    def __init__(self, seconds):
        self.progressed = 100.0 - seconds

    def deadline(self):
        return 200.0


def test_no_more_are_cut_off_than_make_room_and_first_who_has_not_read_for_longest(monkeypatch):
    log = SimpleNamespace(cut=lambda _why: None)
    traffic = Traffic(SimpleNamespace(cfg=SimpleNamespace(threads=1), log=log), Settings())
    dropped = []
    monkeypatch.setattr(traffic, "drop", dropped.append)
    one, two, three, four = (Sending(seconds) for seconds in (5, 9, 7, 0.1))
    traffic.connections = {one, two, three, four}
    traffic.sweep(100.0)
    assert dropped == [two, three, one]
    traffic.connections, dropped[:] = {one, two, three}, []
    traffic.sweep(100.0)
    assert dropped == [two, three]


@pytest.mark.parametrize(("busy", "since", "over"), [(2, 9, True), (1, 9, False), (2, 0, False)])
def test_a_thread_gives_an_answer_up_after_a_while_and_for_others(busy, since, over) -> None:
    traffic = Traffic(SimpleNamespace(cfg=SimpleNamespace(threads=1)), Settings())
    traffic.busy = busy
    assert traffic.turn_is_over(SimpleNamespace(taken_up=time.monotonic() - since)) is over


def test_where_nothing_is_kept_every_answer_is_the_last(tmp_path) -> None:
    with service(tmp_path, keep_alive=0) as (_, port), Caller(port) as caller:
        status, headers, _ = caller.ask(LIVE)
        assert (status, headers["connection"]) == (200, "close")
        assert caller.closed


def test_who_asks_before_sending_is_told_to_send_or_refused_at_once(tmp_path) -> None:
    with service(tmp_path, max_body_bytes=1000) as (_, port):
        with Caller(port) as caller:
            request = posted(SHORT, extra="Expect: 100-continue\r\n")
            head, body = request.split(b"\r\n\r\n")
            caller.send(head + b"\r\n\r\n")
            assert caller.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.send(body)
            assert caller.answer()[0] == 200
        with Caller(port) as caller:
            request = posted({"input": "a" * 2000}, extra="Expect: 100-continue\r\n")
            head, _ = request.split(b"\r\n\r\n")
            status, headers, _ = caller.ask(head + b"\r\n\r\n")
            assert (status, headers["connection"]) == (413, "close")


def test_a_body_that_is_refused_unread_never_becomes_a_request(tmp_path) -> None:
    with service(tmp_path, max_body_bytes=1000) as (_, port):
        hidden = LIVE * 100
        for length in (b"Content-Length: 2600", b"Content-Length: 5\r\nContent-Length: 6"):
            with Caller(port) as caller:
                head = b"POST /v1/encode HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                status, headers, _ = caller.ask(head + length + b"\r\n\r\n" + hidden)
                assert status in {400, 413}
                assert headers["connection"] == "close"
                assert caller.closed
