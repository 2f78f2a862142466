"""The measured budget of a request, and what the requests of one process share.

A request has a deadline from its arrival and a limit on the processor time of its thread. Both are
checked wherever work is repeated (`operations.limits.check_budget`). Parsing and tokenizing may use
`_READING` of the processor time, so that a request that is rejected for its content or its size
costs less than one that is computed.
"""

import select
import time
from collections.abc import Callable
from threading import Condition
from typing import Any, TypeAlias

from flask import Flask, request

from polyseme.errors import (
    AbortedError,
    DeadlineError,
    OverloadedError,
    RateLimitedError,
    TooLargeError,
)
from polyseme.http.context import CONTEXT, RequestContext
from polyseme.operations.limits import set_budget
from polyseme.settings import Settings

_READING, _LONG = 0.16, 0.02
"""The shares of `max_work` that parsing and tokenizing may use, and that make a request long."""
_INTERVAL, _DISCONNECT_AFTER = 0.01, 1.0
"""Minimum seconds between two checks, and seconds until the connection is checked. A client that
has only ended its sending side looks like one that left; it gets responses that take less."""
Charge: TypeAlias = Callable[[RequestContext, float], RateLimitedError | None]
"""Counts processor seconds towards the rates of the caller; returns an error if one is exceeded."""
_GONE = select.POLLERR | select.POLLHUP | getattr(select, "POLLRDHUP", 0)
_HINT = (
    "Send less in one request: fewer or shorter texts, fewer arrays, occurrences or neighbors."
    " `polyseme bulk` and `polyseme senses` read files of any size."
)


class Capacity:
    """The permits for long requests and the room for large responses of one process.

    A quarter of the threads compute long requests. As many more may wait for a permit or for room;
    the other half of the threads is left for short requests.
    """

    def __init__(self, threads: int, room: int) -> None:
        self.permits, self.room = max(threads // 4, 1), room
        self._size, self._waiting = room, 0
        self._max_waiting = max(threads // 2 - self.permits, 0)
        self._changed = Condition()

    def take_permit(self, deadline: float, *, is_admitted: bool = False) -> None:
        """Take a permit for a long request; an admitted one always waits."""
        with self._changed:
            self._wait(lambda: self.permits > 0, deadline, is_admitted)
            self.permits -= 1

    def take_room(self, size: int, deadline: float) -> int:
        """Take room for a response, all of it for a larger one; return the size."""
        size = min(size, self._size)
        with self._changed:
            self._wait(lambda: self.room >= size, deadline)
            self.room -= size
        return size

    def give_back(self, *, permits: int = 0, room: int = 0) -> None:
        """Give back a permit or room."""
        with self._changed:
            self.permits += permits
            self.room += room
            self._changed.notify_all()

    def _wait(
        self, is_ready: Callable[[], bool], deadline: float, is_admitted: bool = False
    ) -> None:
        """Wait for a condition. Raises DeadlineError, or OverloadedError if too many wait."""
        if is_ready():
            return
        if self._waiting >= self._max_waiting and not is_admitted:
            raise OverloadedError("The process is busy with long requests.")
        self._waiting += 1
        try:
            if not self._changed.wait_for(is_ready, max(deadline - time.perf_counter(), 0)):
                raise DeadlineError
        finally:
            self._waiting -= 1


class RequestBudget:
    """The `Budget` of one request, in its thread."""

    def __init__(
        self,
        context: RequestContext,
        settings: Settings,
        capacity: Capacity,
        charge: Charge | None,
        socket: Any,
    ) -> None:
        self._context, self._capacity, self._charge = context, capacity, charge
        self._max_work, self._socket = settings.max_work, socket
        self._deadline = context.arrived + settings.request_seconds
        self._next_check = 0.0
        self._started = time.thread_time()
        self._charged = 0.0
        self._room = 0
        self.has_permit = False
        """whether it has a permit for long requests"""

    def check(self) -> None:
        """Raise an error if the request must end; wait for a permit once it is long."""
        now = time.perf_counter()
        if now < self._next_check:
            return
        self._next_check = now + _INTERVAL
        used = time.thread_time() - self._started
        reading = "tokens" not in self._context.stages
        limit = self._max_work * _READING if reading else self._max_work
        if used > limit:
            what = "Reading and tokenizing the request" if reading else "Computing the request"
            detail = f"{what} takes too many seconds of a processor"
            raise TooLargeError(detail, round(used, 3), "max_work", limit, _HINT)
        if now > self._deadline:
            raise DeadlineError
        if self._socket is not None and now - self._context.started > _DISCONNECT_AFTER:
            poll = select.poll()
            poll.register(self._socket, _GONE)
            if poll.poll(0):
                self._context.aborted = True
                raise AbortedError
        if used > self._max_work * _LONG:
            if error := self.charge(used):
                raise error
            self.take_permit()

    def reserve(self, size: int) -> None:
        """Take room for a large response; raise DeadlineError or OverloadedError."""
        self._room += self._capacity.take_room(size, self._deadline)

    def pause(self) -> float:
        """Give back the permit while the client receives a part; return the time."""
        self.leave()
        return time.perf_counter()

    def resume(self, paused: float) -> None:
        """Move the deadline by the time of the client, and take a permit again."""
        self._deadline += time.perf_counter() - paused
        if time.thread_time() - self._started > self._max_work * _LONG:
            self.take_permit(is_admitted=True)

    def leave(self) -> None:
        """Give back the permit of a request whose result is computed."""
        if self.has_permit:
            self.has_permit = False
            self._capacity.give_back(permits=1)

    def close(self) -> None:
        """End the budget; record the processor time, and give back the room of the response."""
        set_budget(None)
        if self.has_permit:
            self.leave()
        used = time.thread_time() - self._started
        self._context.work = used * 1000
        if self._room:
            self._capacity.give_back(room=self._room)
            self._room = 0
        if self._charge:
            self.charge(used)

    def take_permit(self, *, is_admitted: bool = False) -> None:
        """Take a permit for a long request; raise DeadlineError or OverloadedError."""
        if not self.has_permit:
            self._capacity.take_permit(self._deadline, is_admitted=is_admitted)
            self.has_permit = True

    def charge(self, used: float) -> RateLimitedError | None:
        """Charge seconds to the rates of the caller; return an error if one is exceeded."""
        if self._charge is None:
            return None
        new, self._charged = used - self._charged, used
        return self._charge(self._context, new)


def init_app(app: Flask, settings: Settings, charge: Charge | None) -> None:
    """Give every POST request a budget."""
    capacity = Capacity(settings.threads, settings.max_concurrent_answer_bytes)

    @app.before_request
    def start() -> None:
        environ = request.environ
        if environ["REQUEST_METHOD"] == "POST":
            context = environ[CONTEXT]
            socket = environ.get("gunicorn.socket")
            budget = context.budget = RequestBudget(context, settings, capacity, charge, socket)
            set_budget(budget)
            if charge and (error := budget.charge(0.0)):
                raise error
            budget.check()
