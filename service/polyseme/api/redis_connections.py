"""Connections to Redis that keep no request waiting for more than a quarter of a second.

redis-py's `socket_timeout` limits each read, so a Redis that sends byte by byte could keep a
request waiting for minutes. On these connections, all operations of a request end at one deadline.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from redis import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.backoff import NoBackoff
from redis.retry import Retry

_SECONDS = 0.25
"""Maximum time that a request waits for Redis."""
_LEAST = 0.001
"""Time in which bytes that have arrived can still be read, after the deadline."""


class _Deadline(threading.local):
    time = 0.0
    """monotonic time of the deadline of this thread's request"""


_deadline = _Deadline()


def start_deadline() -> None:
    """Start the time in which the request of this thread may wait for Redis."""
    _deadline.time = time.monotonic() + _SECONDS


def connection_pool(uri: str) -> ConnectionPool:
    """Return a pool of connections for a URI."""
    pool = ConnectionPool.from_url(uri, retry=Retry(NoBackoff(), 1))
    pool.connection_class = _CLASSES[pool.connection_class]
    return pool


def _remaining() -> float:
    return max(_deadline.time - time.monotonic(), _LEAST)


class _Socket:
    """A socket on which each operation may take until the deadline."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._blocking = True

    def settimeout(self, seconds: float | None) -> None:
        """Ignore the time, unless it means that the socket does not block."""
        self._blocking = seconds != 0

    def recv(self, *arguments: Any) -> Any:
        """Receive bytes."""
        return self._limited(self._socket.recv, *arguments)

    def recv_into(self, *arguments: Any) -> Any:
        """Receive bytes into a buffer."""
        return self._limited(self._socket.recv_into, *arguments)

    def sendall(self, data: bytes) -> None:
        """Send all bytes."""
        self._limited(self._socket.sendall, data)

    def _limited(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        self._socket.settimeout(_remaining() if self._blocking else 0)
        return operation(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class _LimitedConnection:
    socket_timeout: float | None
    socket_connect_timeout: float | None

    def _connect(self) -> _Socket:
        self.socket_timeout = self.socket_connect_timeout = _remaining()
        return _Socket(super()._connect())  # type: ignore[misc]


class _LimitedTCP(_LimitedConnection, Connection):
    pass


class _LimitedTLS(_LimitedConnection, SSLConnection):
    pass


class _LimitedUnix(_LimitedConnection, UnixDomainSocketConnection):
    pass


_CLASSES = {
    Connection: _LimitedTCP,
    SSLConnection: _LimitedTLS,
    UnixDomainSocketConnection: _LimitedUnix,
}
