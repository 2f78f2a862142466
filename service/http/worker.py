"""Gunicorn's threaded worker: its own errors are problems like all others, SIGHUP is upkeep."""

import queue
import signal
import threading
import time
import uuid
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson
from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from service.errors import MalformedError, PolysemeError
from service.http.problems import problem_document
from service.http.upkeep import refresh, registry_of

_SLOW = 0.1
"""Seconds without an answer after which all threads seem to wait."""
_ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}


class Worker(ThreadWorker):  # type: ignore[misc]
    """Answers what is not well-formed HTTP with a problem instead of a page.

    Gunicorn's page repeats what the client sent, and has neither request id nor code.
    """

    # Those that gunicorn resets to their default action. That of SIGHUP is to die, and one may
    # come before its handler stands; until then the master's handler does, which is harmless.
    SIGNALS = tuple(one for one in ThreadWorker.SIGNALS if one != signal.SIGHUP)

    heard: queue.SimpleQueue[int] | None = None
    """the signals that came before this worker could handle any (`serving.py`)"""

    _busy = 0
    """requests that a thread works at, or that wait for one"""
    _finished = 0
    """requests that were answered since a connection was accepted"""
    _finished_at = 0.0
    """when the last of them was, by the monotonic clock"""

    @property
    def _willing(self) -> bool:
        """Whether to accept a connection: with a thread free, or while answers come one by one.

        Gunicorn's worker takes all that come, and of many that come at once the first to wake takes
        most and keeps them, while the others have nothing to do. A worker that is busy takes one
        after as many answers as it has threads, else connections that are kept would never let
        others in; but none while its threads wait for slow clients.
        """
        threads: int = self.cfg.threads
        if self._busy < threads:
            return True
        return self._finished >= threads and time.monotonic() - self._finished_at < _SLOW

    def enqueue_req(self, conn: Any) -> None:
        """Hand a request to a thread."""
        super().enqueue_req(conn)
        self._busy += 1
        if not self._willing:
            super().set_accept_enabled(False)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Take a connection back from a thread."""
        self._busy -= 1
        self._finished += 1
        self._finished_at = time.monotonic()
        super().finish_request(conn, fs)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept connections while willing; gunicorn's loop asks for it again and again."""
        super().set_accept_enabled(enabled and self._willing)

    def accept(self, listener: Any) -> None:
        """Accept a connection, unless something has happened since the listener was asked for."""
        if self._willing:
            self._finished = 0
            super().accept(listener)
        else:
            super().set_accept_enabled(False)

    def init_signals(self) -> None:
        """Take SIGHUP as well; its handler may interrupt anything, so it only puts into a queue."""
        self._hangups: queue.SimpleQueue[int] = queue.SimpleQueue()
        signal.signal(signal.SIGHUP, lambda number, _frame: self._hangups.put(number))
        signal.siginterrupt(signal.SIGHUP, False)
        super().init_signals()
        self._heed_what_came_before()

    def _heed_what_came_before(self) -> None:
        """End where a signal to end came between the fork and now.

        The master's handler, which stood until now, put it into a copy of the master's queue, where
        it would be lost, and the master would wait for this worker as long as it waits for answers.
        """
        with suppress(queue.Empty):
            while self.heard:
                if self.heard.get_nowait() in _ENDS:
                    self.alive = False

    def run(self) -> None:
        """Answer requests, and refresh the models beside that."""
        threading.Thread(target=self._keep_models, name="upkeep", daemon=True).start()
        super().run()

    def _keep_models(self) -> None:
        """Refresh the models on each SIGHUP, and once before: one may have come with the fork."""
        while True:
            refresh(registry_of(self.wsgi))
            self._hangups.get()
            while not self._hangups.empty():
                self._hangups.get()

    def handle_error(self, _req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that could not be read; gunicorn closes the connection then."""
        self.log.warning("%s from %s", type(exc).__name__, addr[0] if addr else "a local socket")
        unread = type(exc).__module__.startswith("gunicorn.http")
        error = MalformedError() if unread else PolysemeError()
        request_id = uuid.uuid4().hex
        body = orjson.dumps(problem_document(error, request_id))
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nConnection: close\r\n"
            f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
            f"X-Request-ID: {request_id}\r\nServer-Timing: total;dur=0\r\n\r\n"
        )
        try:
            util.write_nonblock(client, head.encode("ascii") + body)
        except OSError:
            self.log.debug("the client is gone")
