"""gunicorn's threaded worker with fair accepting, a bounded queue and errors in JSON."""

import secrets
import time
from http import HTTPStatus
from typing import Any

import orjson
from gunicorn.http.errors import ParseException
from gunicorn.util import close_graceful
from gunicorn.workers.gthread import ThreadWorker

from polyseme.api.errors import PROBLEM, problem_document
from polyseme.errors import MalformedError, OverloadedError, PolysemeError
from polyseme.observability import metrics

_STARVED = 0.2
"""Seconds without a new connection after which a busy worker accepts some, to queue or refuse."""


class FairWorker(ThreadWorker):  # type: ignore[misc]
    """Leaves new connections to workers with a free thread.

    gunicorn's worker accepts every connection: of a burst the first worker to wake takes nearly all,
    and the other processors idle. A busy worker accepts one connection after every `threads`
    responses, so kept connections do not starve new ones.
    """

    busy = finished = 0
    accepted_at = 0.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.max_waiting = self.app.wsgi().extensions["polyseme"].settings.max_waiting

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept while a thread is free, in turn with responses, or if it is time to refuse."""
        free = self.busy < self.cfg.threads or self.finished >= self.cfg.threads
        starved = time.monotonic() - self.accepted_at > _STARVED
        super().set_accept_enabled(enabled and (free or starved))
        metrics.CONNECTIONS.set(self.nr_conns)
        if not self.alive:
            self.close_listeners()

    def accept(self, listener: Any) -> None:
        """Accept one connection."""
        self.finished, self.accepted_at = 0, time.monotonic()
        super().accept(listener)
        self.set_accept_enabled(self.alive)

    def enqueue_req(self, conn: Any) -> None:
        """Queue a request, or refuse it if the queue is full."""
        if self.busy < self.cfg.threads + self.max_waiting:
            self.busy += 1
            super().enqueue_req(conn)
            return
        self.nr_conns -= 1
        self.refuse(conn.sock, OverloadedError())
        close_graceful(conn.sock, timeout=0)

    def finish_request(self, conn: Any, future: Any) -> None:
        """Count the response and accept again."""
        self.busy -= 1
        self.finished += 1
        super().finish_request(conn, future)
        self.set_accept_enabled(self.alive)

    def close_listeners(self) -> None:
        """Accept what waits in the queue and close it: a later connection is refused, not reset."""
        for listener in self.sockets:
            accepted = -1
            while listener.sock and accepted != self.nr_conns:
                accepted = self.nr_conns
                super().accept(listener)
            listener.close()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Answer a malformed request with a problem document that repeats nothing of it."""
        del req, addr
        malformed = isinstance(exc, ParseException)
        if not malformed:
            self.log.error("the worker failed", exc_info=exc)
        self.refuse(client, MalformedError() if malformed else PolysemeError())

    def refuse(self, sock: Any, error: PolysemeError) -> None:
        """Send an error as the last response of a connection."""
        metrics.refuse(error.code)
        # Clients of OpenAI's API show its `error` member only.
        body = orjson.dumps(problem_document(error, secrets.token_hex(16), "/v1/embeddings"))
        fields = {"Connection": "close", "Content-Type": PROBLEM, "Content-Length": str(len(body))}
        head = [f"{name}: {value}" for name, value in {**fields, **error.headers()}.items()]
        status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"
        sock.sendall("\r\n".join([status, *head, "", ""]).encode() + body)
