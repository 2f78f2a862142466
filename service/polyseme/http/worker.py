"""gunicorn's threaded worker with a bounded queue of requests and errors in JSON."""

import select
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from selectors import EVENT_READ
from socket import MSG_DONTWAIT, MSG_PEEK, SHUT_WR
from typing import Any

from gunicorn.http.errors import ParseException
from gunicorn.http.unreader import SocketUnreader
from gunicorn.workers.gthread import DEFAULT_WORKER_DATA_TIMEOUT, ThreadWorker

from polyseme.errors import MalformedError, OverloadedError
from polyseme.http import metrics
from polyseme.http.admission import address_name
from polyseme.http.errors import raw_response
from polyseme.http.middleware import arrival
from polyseme.operations.limits import current_budget

_FILES = 16
"""File descriptors that are reserved for loading the files of a model."""
_PAUSE = 0.01
"""Seconds between two attempts to accept."""
_DISCARD = 0.5
"""Seconds in which the rest of the body of a rejected request is discarded."""
_MAX_HEADERS = 32 << 10
"""Maximum characters of the names and values of all headers of a request."""


class QueueWorker(ThreadWorker):  # type: ignore[misc]
    """A threaded worker in which a connection waits for a request without a thread.

    Requests wait for a thread in a queue; more than it has room for are rejected.
    """

    busy = 0
    """requests in the queue or in progress"""

    def init_process(self) -> None:
        """Start the worker; accept only connections that the limit of open files has room for."""
        limit = getrlimit(RLIMIT_NOFILE)[0]
        if limit != RLIM_INFINITY:
            # Each thread may have a connection to Redis.
            used = len(list(Path("/dev/fd").iterdir()))
            room = max(limit - used - self.cfg.threads - _FILES, 1)
            self.worker_connections: int = min(self.cfg.worker_connections, room)
            self.max_keepalived = self.worker_connections - self.cfg.threads
        self.service = self.app.wsgi().extensions["polyseme"]
        self.max_busy = self.cfg.threads + self.service.settings.max_waiting
        super().init_process()

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept or ignore new connections; when stopping, accept all pending ones.

        The listeners are then closed, so that later connections are refused instead of reset.
        """
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                while select.select([listener], [], [], 0)[0]:
                    self.accept(listener)
                listener.close()

    def accept(self, listener: Any) -> None:
        """Accept a connection; pause if that is not possible, for lack of a file descriptor."""
        try:
            super().accept(listener)
        except OSError:
            time.sleep(_PAUSE)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Dispatch events. gunicorn calls this at least once a second."""
        metrics.CONNECTIONS.set(self.nr_conns)
        metrics.WAITING.set(max(self.busy - self.cfg.threads, 0))
        super().wait_for_and_dispatch_events(timeout)

    def murder_pending(self) -> None:
        """Close expired connections, and the oldest idle one if there is room for no other."""
        if self.nr_conns >= self.worker_connections:
            idle = [conns[0] for conns in (self.keepalived_conns, self.pending_conns) if conns]
            if idle:
                min(idle, key=lambda conn: conn.timeout).timeout = 0.0
                self.murder_keepalived()
        super().murder_pending()

    def enqueue_req(self, conn: Any) -> None:
        """Queue a request that has begun to arrive; reject it if the queue is full."""
        if not conn.data_ready:
            conn.sock.setblocking(False)
            conn.timeout = time.monotonic() + max(self.cfg.keepalive, DEFAULT_WORKER_DATA_TIMEOUT)
            self.pending_conns.append(conn)
            callback = partial(self.on_pending_socket_readable, conn)
            self.poller.register(conn.sock, EVENT_READ, callback)
        elif not has_request(conn):
            self.close(conn)
        elif self.busy < self.max_busy:
            self.busy += 1
            conn.arrived = time.perf_counter()
            super().enqueue_req(conn)
        else:
            self.handle_error(None, conn.sock, conn.client, OverloadedError())
            self.linger(conn)

    def handle(self, conn: Any) -> Any:
        """Handle a request in a thread."""
        arrival.set(conn.arrived)
        if not conn.initialized:
            conn.init()
            conn.parser.unreader = BudgetedUnreader(conn.sock)
        return super().handle(conn)

    def _keepalive_after(self, conn: Any, keepalive: Any) -> Any:
        """Discard the rest of the body of a request, or close the connection if it is long."""
        return keepalive and conn.parser.finish_body(deadline=time.monotonic() + _DISCARD)

    def finish_request(self, conn: Any, future: Any) -> None:
        """Keep the connection for its next request, or close it."""
        self.busy -= 1
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
        self.close(conn)  # the client has gone

    def on_lingering(self, conn: Any, sock: Any) -> None:
        """Discard received bytes, or close the connection if the client has closed it.

        Closing with unread bytes would reset the connection.
        """
        with suppress(OSError):
            if sock.recv(1 << 16):
                return
        self.poller.unregister(sock)
        self.pending_conns.remove(conn)
        self.close(conn)

    def close(self, conn: Any) -> None:
        """Close a connection that nothing waits for."""
        self.nr_conns -= 1
        conn.close()

    def handle_error(self, req: Any, sock: Any, address: Any, error: Exception) -> None:
        """Send an error as the last response, without text of the request."""
        malformed = isinstance(error, ParseException)
        # With `req`, the rest of a body is malformed, which gunicorn reads after the response.
        if malformed and req:
            return
        if malformed:
            error = self.service.rate_limits.hit(address_name(address[0])) or MalformedError()
        with suppress(OSError):  # the client has gone
            sock.sendall(raw_response(error, address[0]))


class BudgetedUnreader(SocketUnreader):  # type: ignore[misc]
    """Receives a body within the budget of its request.

    A client may send a body in chunks of one byte, each of which takes about 2 µs, or 1 ms with
    extensions.
    """

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Receive some bytes; raise the errors of the request's budget."""
        current_budget().check()
        received: bytes = super().chunk(size_hint)
        return received


def has_request(conn: Any) -> bool:
    """Return whether a readable connection has bytes; if not, the client has closed it."""
    if conn.parser and conn.parser.unreader.buf.getvalue():
        return True
    try:
        return bool(conn.sock.recv(1, MSG_PEEK | MSG_DONTWAIT))
    except OSError:
        return False


def require_short_headers(_worker: Any, request: Any) -> None:
    """Raise MalformedError if the headers are too long together; gunicorn limits each of them."""
    if sum(len(name) + len(value) for name, value in request.headers) > _MAX_HEADERS:
        raise MalformedError
