"""gunicorn's threaded worker with fair accepting, a bounded queue and errors in JSON."""

import heapq
import re
import select
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from selectors import EVENT_READ
from socket import MSG_DONTWAIT, MSG_PEEK, SHUT_WR
from termios import TIOCOUTQ
from typing import Any

from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import DEFAULT_WORKER_DATA_TIMEOUT, ThreadWorker

from polyseme.errors import MalformedError, OverloadedError
from polyseme.http import metrics
from polyseme.http.context import PROBES
from polyseme.http.errors import raw_response

_STALL = 0.1
"""Seconds after which a busy worker accepts connections that no other worker accepts."""
_PAUSE = 0.01
"""Seconds between two attempts to accept without a free file descriptor."""
_FILES = 16
"""File descriptors that are reserved for loading the files of a model."""
_SPARE = 8
"""Connections that waiting requests leave to probes."""
_IDLE_CLOSED = 32
"""Number of idle connections that are closed at once to accept others."""
_MAX_PROBES = 64
"""Maximum number of probes that wait for their thread; more wait like other requests."""
_MAX_SCRAPES = 2
"""The same for requests for metrics, which a client that reads slowly delays."""
_METRICS = b"/metrics"
_PEEKED = 4096
"""Maximum size of the head of a probe, in bytes."""
_PROBE = re.compile(
    rb"(?:GET|HEAD) (%b)(?:\?[^ \r\n]*)? HTTP/1\.[01]\r\n"
    # The whole head has been received, and announces no body.
    rb"(?:(?!(?i:content-length|transfer-encoding))[^\r\n]+\r\n)*\r\n"
    % b"|".join(re.escape(path.encode()) for path in sorted(PROBES))
)


class FairWorker(ThreadWorker):  # type: ignore[misc]
    """A threaded worker that leaves new connections to workers with a free thread.

    A worker without a free thread accepts one connection per `threads` responses. A connection
    waits for the first byte of a request without a thread. While all threads are busy, one more
    thread responds to probes, and another to requests for metrics, which slow clients can block.
    """

    busy = finished = 0
    """requests queued or in progress, and responses since the last accepted connection"""
    waiting_since = 0.0
    """monotonic time since which a connection waits without a free thread, 0 if none does"""
    accepted_at = 0.0
    """monotonic time of the last accepted connection"""

    def init_process(self) -> None:
        """Start the worker; accept only connections that the limit of open files has room for."""
        limit = getrlimit(RLIMIT_NOFILE)[0]
        if limit != RLIM_INFINITY:
            # Each thread may have a connection to Redis.
            used = len(list(Path("/dev/fd").iterdir()))
            room = max(limit - used - self.cfg.threads - _FILES, 1)
            self.worker_connections: int = min(self.cfg.worker_connections, room)
            self.max_keepalived = self.worker_connections - self.cfg.threads
        threads, settings = self.cfg.threads, self.app.wsgi().extensions["polyseme"].settings
        most = max(self.worker_connections - _SPARE, threads)
        self.max_queued = min(threads + settings.max_waiting, most)
        self.probes, self.scrapes = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self.probing = {self.probes: 0, self.scrapes: 0}
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
        listeners = [listener for listener in self.sockets if listener.sock]
        return select.select(listeners, [], [], 0)[0]

    def accept(self, listener: Any) -> bool:
        """Accept one connection; if no file descriptor is free, pause and return False."""
        self.finished, self.accepted_at = 0, time.monotonic()
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
        free = self.busy + self.expected() < self.cfg.threads or self.finished >= self.cfg.threads
        room = self.alive and self.nr_conns < self.worker_connections
        self.set_accept_enabled(free and room)
        metrics.CONNECTIONS.set(self.nr_conns)
        super().wait_for_and_dispatch_events(timeout if free and room else min(timeout, _STALL))
        waits = self.alive and not (free and room) and self.waiting_listeners()
        self.waiting_since = (self.waiting_since or time.monotonic()) if waits else 0.0
        if waits and not room:
            self.close_idle()
        elif waits and time.monotonic() - self.waiting_since > _STALL:
            self.accept_waiting()

    def expected(self) -> int:
        """Return the number of new connections whose first request is probably on its way."""
        if time.monotonic() - self.accepted_at > _STALL:
            return 0
        newest = islice(reversed(self.pending_conns), self.cfg.threads)
        return sum(not conn.data_ready for conn in newest)

    def close_idle(self) -> None:
        """Close the connections that have been idle for the longest time."""
        idle = heapq.merge(self.keepalived_conns, self.pending_conns, key=attrgetter("timeout"))
        for conn in list(islice(idle, _IDLE_CLOSED)):
            conn.timeout = 0.0
        self.murder_keepalived()
        self.murder_pending()

    def enqueue_req(self, conn: Any) -> None:
        """Queue a request that has begun to arrive, or reject it if the queue is full."""
        busy = self.busy >= self.cfg.threads
        if busy or not conn.data_ready:
            if conn.parser and (buffered := conn.parser.unreader.buf.getvalue()):
                # gunicorn has read the next request with the previous one. It is queued like any
                # other, because the socket has its rest only.
                received = bytes(buffered[:1])
            else:
                try:
                    received = bytes(conn.sock.recv(_PEEKED, MSG_PEEK | MSG_DONTWAIT))
                except BlockingIOError:
                    self.wait_for_data(conn)
                    return
                except OSError:  # the connection was reset
                    received = b""
            conn.data_ready = True
            if busy and not received:  # the client has closed the connection
                self.nr_conns -= 1
                conn.close()
                return
            if busy and self.enqueue_probe(conn, received):
                return
        if self.busy < self.max_queued:
            self.busy += 1
            super().enqueue_req(conn)
        else:
            self.handle_error(None, conn.sock, conn.client, OverloadedError())
            self.linger(conn)

    def wait_for_data(self, conn: Any) -> None:
        """Wait for the first byte of a connection, without a thread."""
        conn.sock.setblocking(False)
        conn.timeout = time.monotonic() + max(self.cfg.keepalive, DEFAULT_WORKER_DATA_TIMEOUT)
        self.pending_conns.append(conn)
        callback = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, EVENT_READ, callback)

    def enqueue_probe(self, conn: Any, received: bytes) -> bool:
        """Queue a probe for its own thread; return False if it has to wait like other requests."""
        probe = _PROBE.match(received)
        if not probe:
            return False
        pool, most = self.probes, _MAX_PROBES
        if probe[1] == _METRICS:
            pool, most = self.scrapes, _MAX_SCRAPES
        # Unread responses could block the thread.
        if self.probing[pool] >= most or has_unread_responses(conn.sock):
            return False
        self.probing[pool] += 1
        future = pool.submit(self.handle, conn)
        future.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_probe, pool, conn, done)
        )
        return True

    def finish_probe(self, pool: ThreadPoolExecutor, conn: Any, future: Future[Any]) -> None:
        """Keep or close the connection of a probe."""
        self.probing[pool] -= 1
        self.keep_or_close(conn, future)

    def finish_request(self, conn: Any, future: Any) -> None:
        """Count the response, and keep or close the connection."""
        self.busy, self.finished = self.busy - 1, self.finished + 1
        self.keep_or_close(conn, future)

    def keep_or_close(self, conn: Any, future: Any) -> None:
        """Keep the connection for its next request, or close it."""
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
        if malformed and req:
            return
        if malformed:
            limits = self.app.wsgi().extensions["polyseme"].rate_limits
            error = limits.limit_malformed(address[0]) or MalformedError()
        with suppress(OSError):  # the client has gone
            sock.sendall(raw_response(error, address[0]))


def has_unread_responses(sock: Any) -> bool:
    """Return whether the client has not received all of the earlier responses."""
    return ioctl(sock.fileno(), TIOCOUTQ, b"\0" * 4) != b"\0" * 4
