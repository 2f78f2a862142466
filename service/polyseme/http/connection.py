"""A connection of the worker's loop: what came of a request, what is to go of an answer.

Its socket never blocks. What comes is kept here until a request is whole: only then does a thread
take it. What the client does not read yet is kept here too, and the thread is free meanwhile.
"""

import socket
import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from typing import Any

from gunicorn import http
from gunicorn.http.unreader import Unreader

from polyseme.http.framing import Framing
from polyseme.settings import Settings

_PIECE = 1 << 16
_SYSTEM_HOLDS = 1 << 18
"""Bytes that the system holds for a client that does not read; left alone, it takes megabytes."""
_SLOWEST = 8192
"""Bytes a second that come or go at least, beside the time that each request and answer has."""
_MOST_AT_ONCE = 64
"""Pieces of an answer that are given to the system at once."""
_LINGERING = 2.0
"""Seconds that the client has to close the connection after the last answer (RFC 9112, §9.6)."""
_MOST_DISCARDED = 64 << 20
"""Bytes that are thrown away after the last answer: a client that sends more does not listen."""


class State(Enum):
    """What a connection waits for."""

    RECEIVING = "the rest of a request"
    KEPT = "the next request"
    WORKING = "a thread"
    SENDING = "the client, to read"
    LINGERING = "the client, to close"
    CLOSED = "nothing"


class _Fed(Unreader):  # type: ignore[misc]
    """What gunicorn's parser reads from: bytes that have come, and then the end."""

    dry = False
    """whether more was asked for than there is: then nothing is known of what follows"""

    def chunk(self, _size_hint: int | None = None) -> bytes:
        self.dry = True
        return b""

    def feed(self, data: bytes) -> None:
        self.buf.seek(0, 2)
        self.buf.write(data)


class Connection:
    """One client."""

    def __init__(
        self, settings: Settings, cfg: Any, sock: socket.socket, client: Any, server: Any
    ) -> None:
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SYSTEM_HOLDS)
        self.sock, self.client, self.server = sock, client, server
        self.state = State.RECEIVING
        self.received = bytearray()
        self.since = time.monotonic()
        """when the state began, or the first byte of the request came"""
        self.work: Generator[None, None, bool] | None = None
        """the answer that is being made"""
        self.job: Future[bool | None] | None = None
        """what a thread does with it, or will"""
        self.taken_up = 0.0
        """when a thread last took it up, by the monotonic clock"""
        self.begun = False
        """whether an answer has begun"""
        self.source = _Fed()
        self.parser = http.get_parser(cfg, [], client)
        self.parser.unreader = self.source
        self.ended = False
        """whether the client sends no more"""
        self._settings = settings
        self._framing = Framing(settings.max_body_bytes)
        self._unsent: deque[memoryview] = deque()
        self._sent = 0
        """bytes of the answer that is being sent"""
        self._sending_since: float | None = None
        self.progressed = self.since
        """when the client last took bytes of an answer"""
        self._discarded = 0
        self.due = 0
        """bytes of a whole answer, for those that are still held"""

    # What comes

    def receive(self) -> None:
        """Take what has come, without waiting; raise OSError where the connection is broken."""
        if self.state is State.KEPT:
            self.turn(State.RECEIVING)
        try:
            data = self.sock.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        self.ended = self.ended or not data
        self.received += data

    @property
    def ready(self) -> bool:
        """Whether a thread should take what came: a request, or what has to be refused."""
        return self._framing.enough(self.received) or (self.ended and bool(self.received))

    @property
    def idle(self) -> bool:
        """Whether nothing of a request has come."""
        new = self.state is State.RECEIVING and not self.received
        return new or self.state is State.KEPT

    def take_leave_to_send(self) -> bool:
        """Whether the client waits to be told that it may send the body; true once."""
        expects, self._framing.expects = self._framing.expects, False
        return expects

    def feed(self) -> bool:
        """Give the parser the request, and not a byte of the next one; say whether it is whole."""
        framing, data = self._framing, self.received
        end = framing.end if framing.whole(data) else None
        self.source.feed(bytes(data[:end]))
        del data[:end]
        self._framing = Framing(self._settings.max_body_bytes)
        self._sent, self._sending_since, self.due = 0, None, 0
        self.begun = False
        return end is not None

    @property
    def clean(self) -> bool:
        """Whether the parser read all of the request and no more: what follows is the next one."""
        return not self.source.dry and not self.source.buf.getvalue() and not self.ended

    # What goes

    def sendall(self, data: bytes) -> None:
        """Put bytes of the answer behind those that wait; gunicorn's response writes here."""
        self.begun = True
        if data:
            self._unsent.append(memoryview(data))

    def flush(self) -> bool:
        """Send what the system takes, and say whether that was all; raise OSError."""
        unsent = self._unsent
        while unsent:
            pieces = [piece for piece, _ in zip(unsent, range(_MOST_AT_ONCE), strict=False)]
            try:
                sent = self.sock.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                return False
            self._sent += sent
            self.progressed = time.monotonic()
            while sent:
                first = unsent.popleft()
                if sent < len(first):
                    unsent.appendleft(first[sent:])
                sent = max(sent - len(first), 0)
        return True

    @property
    def blocked(self) -> bool:
        """Whether bytes wait for the client to read."""
        return bool(self._unsent)

    @property
    def held(self) -> int:
        """The bytes of the answer that are kept for a client that does not read them."""
        return max(sum(map(len, self._unsent)), self.due - self._sent)

    # Time

    def turn(self, state: State) -> None:
        """Wait for something else from now on."""
        self.state, self.since = state, time.monotonic()
        if state is State.SENDING and self._sending_since is None:
            self._sending_since = self.since

    def deadline(self) -> float:
        """Until when the client may let us wait, by the monotonic clock."""
        if self.state is State.KEPT:
            return self.since + self._settings.keep_alive
        if self.state is State.RECEIVING:
            return self.since + self._settings.request_timeout + len(self.received) / _SLOWEST
        if self.state is State.SENDING:
            # What the system holds counts as read: hence the time of the last byte as well.
            began = self._sending_since or self.since
            patience = self._settings.send_timeout
            return min(self.progressed, began + self._sent / _SLOWEST) + patience
        if self.state is State.LINGERING:
            return self.since + _LINGERING + self._discarded / _SLOWEST
        return float("inf")

    # The end

    def begin_to_close(self) -> None:
        """Say that nothing more comes; what the client still sends is thrown away."""
        self.received.clear()
        self._unsent.clear()
        self.turn(State.LINGERING)
        self.sock.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Throw away what has come, and say whether that was the last of it."""
        try:
            discarded = len(self.sock.recv(_PIECE))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        self._discarded += discarded
        return not discarded or self._discarded > _MOST_DISCARDED

    def close(self) -> None:
        """Close it, whatever is lost."""
        self.state = State.CLOSED
        self.received.clear()
        self._unsent.clear()
        self.sock.close()
