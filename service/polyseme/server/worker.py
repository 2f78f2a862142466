"""gunicorn's threaded worker with fair accepting, a bounded queue and errors in JSON."""

import select
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from selectors import EVENT_READ
from socket import SHUT_WR
from typing import Any

from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from polyseme.api.errors import raw_response
from polyseme.errors import MalformedError, OverloadedError
from polyseme.observability import metrics

_STALL = 0.5
"""Seconds after which a busy worker accepts connections that no other worker accepts."""
_PAUSE = 0.01
"""Seconds between two attempts to accept without a free file descriptor."""
_FILES = 16
"""File descriptors that are reserved for loading the files of a model."""


class FairWorker(ThreadWorker):  # type: ignore[misc]
    """A threaded worker that leaves new connections to workers with a free thread.

    A worker without a free thread accepts one connection per `threads` responses.
    """

    busy = finished = 0
    """requests queued or in progress, and responses since the last accepted connection"""
    waiting_since = 0.0
    """monotonic time since which a connection waits without a free thread, 0 if none does"""

    def init_process(self) -> None:
        """Start the worker; accept only connections that the limit of open files has room for."""
        limit = getrlimit(RLIMIT_NOFILE)[0]
        if limit != RLIM_INFINITY:
            # Each thread opens a selector for the first request of a connection.
            used = len(list(Path("/dev/fd").iterdir()))
            room = max(limit - used - self.cfg.threads - _FILES, 1)
            self.worker_connections: int = min(self.cfg.worker_connections, room)
            self.max_keepalived = self.worker_connections - self.cfg.threads
        super().init_process()

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept or ignore new connections; when stopping, accept all pending ones.

        The listeners are then closed, so that later connections are refused instead of reset.
        """
        super().set_accept_enabled(enabled)
        if not self.alive:
            self.accept_waiting()
            for listener in self.sockets:
                listener.close()

    def accept_waiting(self) -> None:
        """Accept pending connections up to the worker's limit, all of them when stopping."""
        while not self.alive or self.nr_conns < self.worker_connections:
            listeners = self.waiting_listeners()
            if not listeners or not all(map(self.accept, listeners)):
                return

    def waiting_listeners(self) -> list[Any]:
        """Return the listeners with a pending connection."""
        open_ones = [listener for listener in self.sockets if listener.sock]
        return select.select(open_ones, [], [], 0)[0]

    def accept(self, listener: Any) -> bool:
        """Accept one connection; if no file descriptor is free, pause and return False."""
        self.finished = 0
        try:
            super().accept(listener)
        except OSError:
            time.sleep(_PAUSE)
            return False
        return True

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Dispatch events; accept connections as the class describes, and more after a stall.

        gunicorn calls this at least once a second.
        """
        self.app.wsgi().extensions["polyseme"].models.check()
        free = self.busy < self.cfg.threads or self.finished >= self.cfg.threads
        room = self.alive and self.nr_conns < self.worker_connections
        self.set_accept_enabled(free and room)
        metrics.CONNECTIONS.set(self.nr_conns)
        super().wait_for_and_dispatch_events(timeout if free else min(timeout, _STALL))
        waits = room and not free and self.waiting_listeners()
        self.waiting_since = (self.waiting_since or time.monotonic()) if waits else 0.0
        if waits and time.monotonic() - self.waiting_since > _STALL:
            self.accept_waiting()

    def enqueue_req(self, conn: Any) -> None:
        """Queue a request, or reject it if the queue is full."""
        settings = self.app.wsgi().extensions["polyseme"].settings
        if self.busy < settings.threads + settings.max_waiting:
            self.busy += 1
            super().enqueue_req(conn)
        else:
            self.handle_error(None, conn.sock, conn.client, OverloadedError())
            self.linger(conn)

    def finish_request(self, conn: Any, future: Any) -> None:
        """Count the response, and keep or close the connection."""
        self.busy, self.finished = self.busy - 1, self.finished + 1
        if future.cancelled() or future.exception() or future.result():
            super().finish_request(conn, future)
        else:
            self.linger(conn)

    def linger(self, conn: Any) -> None:
        """Close the connection when the client does, or after `keep_alive` seconds.

        gunicorn would block this loop for up to 2 s.
        """
        with suppress(OSError):
            conn.sock.shutdown(SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, EVENT_READ, partial(self.on_lingering, conn))
            conn.set_timeout()
            self.pending_conns.append(conn)
            return
        self.nr_conns -= 1  # the client has gone
        conn.close()

    def on_lingering(self, conn: Any, sock: Any) -> None:
        """Discard received bytes, or close the connection if the client has closed it.

        Closing with unread bytes would reset the connection.
        """
        with suppress(OSError):
            if sock.recv(1 << 16):
                return
        self.poller.unregister(sock)
        self.pending_conns.remove(conn)
        self.nr_conns -= 1
        conn.close()

    def handle_error(self, req: Any, sock: Any, address: Any, error: Exception) -> None:
        """Send an error as the last response, without text of the request."""
        malformed = isinstance(error, ParseException)
        # With `req`, the rest of a body is malformed, which gunicorn reads after the response.
        if not (malformed and req):
            with suppress(OSError):  # the client has gone
                sock.sendall(raw_response(MalformedError() if malformed else error, address[0]))
