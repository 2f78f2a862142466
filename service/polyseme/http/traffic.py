"""The connections of a worker: requests come in, threads answer them, answers go out.

All of it but `_work` is done by the thread of the worker's loop, and none of it waits.
"""

import secrets
import selectors
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn import http

from polyseme.errors import MalformedError, OverloadedError, PolysemeError
from polyseme.http import tally
from polyseme.http.answering import answering, refusal
from polyseme.http.connection import Connection, State
from polyseme.http.problems import log_fault
from polyseme.settings import Settings

_TURN = 0.1
"""Seconds that a thread works at one answer while others wait."""
_MOST_RECEIVED = 16
"""How many bodies of the largest size all connections together may have received in part."""
_MOST_HELD = 32 << 20
"""Bytes of answers that are held for clients that do not read them."""
_STALLED = 1.0
"""Seconds without a byte read, after which a client may be cut off to make room."""
_BEGINNING = 16
"""Bytes of a request that tell which API it is meant for."""


class Traffic:
    """Every connection of a worker, and what it waits for."""

    def __init__(self, worker: Any, settings: Settings) -> None:
        self.connections: set[Connection] = set()
        self.busy = 0
        """requests that a thread works at, or that wait for one"""
        self.in_progress = 0
        """requests that are being answered: these, and those whose client does not read"""
        self.finished = 0
        """requests that were answered since this was set to nothing"""
        self.finished_at = 0.0
        """when the last of them was, by the monotonic clock"""
        self._worker, self._settings = worker, settings
        self._threads: int = worker.cfg.threads

    def take(self, sock: Any, client: Any, server: Any) -> None:
        """Begin with a connection."""
        one = Connection(self._settings, self._worker.cfg, sock, client, server)
        self.connections.add(one)
        self._heed(self._begin, one)

    def _begin(self, one: Connection) -> None:
        self._watch(one, selectors.EVENT_READ)
        self._receive(one)

    def _watch(self, one: Connection, events: int) -> None:
        heed = self._receive if events == selectors.EVENT_READ else self._send
        self._worker.poller.register(one.sock, events, partial(self._heed, heed, one))

    def _unwatch(self, one: Connection) -> None:
        with suppress(KeyError, ValueError):
            self._worker.poller.unregister(one.sock)

    def _heed(self, heed: Any, one: Connection, _sock: Any = None) -> None:
        """Do what an event asks for; one of a turn in which the connection was closed is none.

        What goes wrong, a lack of memory for one, is this connection's end and no other's.
        """
        try:
            if one.state is not State.CLOSED:
                heed(one)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            log_fault(error, "the worker", "")
            self.drop(one)

    def _receive(self, one: Connection) -> None:
        """Take what a client has sent, and hand it to a thread when it is whole."""
        if one.state is State.LINGERING:
            if one.discard():
                self.drop(one)
            return
        try:
            one.receive()
            if not one.ready and one.take_leave_to_send():
                one.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                one.flush()
        except OSError:
            self.drop(one)
            return
        if one.ready:
            self._unwatch(one)
            self._hand_over(one)
        elif one.ended:
            self.drop(one)
        elif len(one.received) > self._share and self._received > self._most_received:
            self._refuse(one, OverloadedError())

    @property
    def _most_received(self) -> int:
        return _MOST_RECEIVED * self._settings.max_body_bytes

    @property
    def _share(self) -> int:
        return self._most_received // self._settings.max_connections

    @property
    def _received(self) -> int:
        return sum(len(one.received) for one in self.connections)

    def _hand_over(self, one: Connection) -> None:
        """Let a thread begin with a request, or go on with an answer."""
        begins = one.work is None
        if begins and self.busy - self._threads >= self._settings.max_waiting:
            self._refuse(one, OverloadedError())
            return
        one.turn(State.WORKING)
        self.busy += 1
        if begins:
            self.in_progress += 1
            tally.IN_PROGRESS.set(self.in_progress)
            self._worker.count_request()
        one.job = self._worker.tpool.submit(self._work, one)
        one.job.add_done_callback(
            lambda job: self._worker.method_queue.defer(
                self._heed, lambda one: self._take_back(one, job), one
            )
        )

    def _work(self, one: Connection) -> bool | None:
        """Answer, in a thread: whether the connection is kept, or None where the answer pauses."""
        one.taken_up = time.monotonic()
        if one.work is None:
            one.work = answering(self._worker, one, self.closes, self.turn_is_over)
        try:
            next(one.work)
        except StopIteration as done:
            return bool(done.value)
        except OSError:
            return False  # the client is gone, or is told so
        except http.errors.NoMoreData:
            if not one.ended:
                self._answer_unread(one, MalformedError())
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are answered
            unread = type(error).__module__.startswith("gunicorn.http")
            if not unread:
                log_fault(error, "the worker", "")
            self._answer_unread(one, MalformedError() if unread else PolysemeError())
            return False
        return None

    def closes(self) -> bool:
        """Whether connections end with their answer: the worker leaves, or has too many."""
        few = len(self.connections) < self._settings.max_connections
        return not (self._worker.stays and few and self._settings.keep_alive)

    def turn_is_over(self, one: Connection) -> bool:
        """Whether others wait, and a thread was at an answer for a while."""
        return self.busy > self._threads and time.monotonic() - one.taken_up > _TURN

    def _take_back(self, one: Connection, job: "Future[bool | None]") -> None:
        """Take a connection back from a thread."""
        self.busy -= 1
        self.finished_at = time.monotonic()
        if not job.cancelled() and not job.exception() and job.result() is None:
            self._pause(one)
            return
        self.in_progress -= 1
        one.work = None
        if job.cancelled():
            self._refuse(one, OverloadedError())
            return
        kept = job.result()  # or what went wrong, which is this connection's end
        self.finished += 1
        if not kept:
            self._say_goodbye(one)
        elif one.ready:
            self._hand_over(one)
        else:
            one.turn(State.RECEIVING if one.received else State.KEPT)
            self._watch(one, selectors.EVENT_READ)

    def _pause(self, one: Connection) -> None:
        """Wait until the client has read, or behind the requests that wait."""
        if one.blocked:
            one.turn(State.SENDING)
            self._watch(one, selectors.EVENT_WRITE)
        else:
            self._hand_over(one)

    def _let_go(self, now: float) -> None:
        """Cut off whoever has not read for the longest, while too much is held."""
        sending = [one for one in self.connections if one.state is State.SENDING]
        sending.sort(key=lambda one: one.progressed)
        held = sum(one.held for one in sending)
        for one in sending:
            if held <= _MOST_HELD or now - one.progressed < _STALLED:
                break
            held -= one.held
            self._worker.log.cut("out_of_room")
            self.drop(one)

    def _send(self, one: Connection) -> None:
        """Send what a client now takes, and go on with its answer."""
        try:
            done = one.flush()
        except OSError:
            self.drop(one)
            return
        if done:
            self._unwatch(one)
            self._hand_over(one)

    # The end of a connection

    def _answer_unread(self, one: Connection, error: PolysemeError) -> None:
        """Answer what no route has seen, unless an answer has begun."""
        if not one.begun:
            request_id = secrets.token_hex(16)
            address = one.client[0] if isinstance(one.client, tuple) else None
            self._worker.log.unread(error, request_id, address)
            one.sendall(refusal(error, request_id, bytes(one.received[:_BEGINNING])))
            with suppress(OSError):
                one.flush()

    def _refuse(self, one: Connection, error: PolysemeError) -> None:
        """Answer from the loop, and close."""
        one.begun = False
        self._answer_unread(one, error)
        self._say_goodbye(one)

    def _say_goodbye(self, one: Connection) -> None:
        """Close in order: a client that is still sending would else never see the answer."""
        self._unwatch(one)
        try:
            one.begin_to_close()
        except OSError:
            self.drop(one)
        else:
            self._watch(one, selectors.EVENT_READ)

    def drop(self, one: Connection) -> None:
        """Close at once."""
        self.connections.discard(one)
        self._unwatch(one)
        if one.state is State.SENDING:
            self.in_progress -= 1
        try:
            if one.work is not None:
                one.work.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            log_fault(error, "the worker", "")
        one.close()

    def sweep(self, now: float) -> None:
        """End what takes too long."""
        for one in list(self.connections):
            if one.state is State.WORKING:
                if one.work is None and now - one.since > self._settings.queue_timeout and one.job:
                    one.job.cancel()
            elif now > one.deadline():
                self._cut(one)
        self._let_go(now)

    def _cut(self, one: Connection) -> None:
        if one.state is State.RECEIVING:
            self._worker.log.cut("slow_request" if one.received else "silent")
        elif one.state is State.SENDING:
            self._worker.log.cut("slow_reader")
        self.drop(one)
