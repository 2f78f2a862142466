"""The context of one request: its ID, timing and details, and the supervision of its work.

Logs, metrics and traces use only this context. It contains no text of the request except a valid
X-Request-ID and the trace ID of a valid traceparent: `route` is the URL rule instead of the path,
and `method` is a known method or `other`.
"""

import math
import select
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from flask import Flask, request
from werkzeug.wsgi import get_content_length

from polyseme.errors import AbortedError, DeadlineError, OverloadedError
from polyseme.operations.encode import TokenCounts
from polyseme.operations.options import Limits
from polyseme.operations.work import BYTE, supervise
from polyseme.settings import Settings
from polyseme.stages import Stages

UNMATCHED = "unmatched"
"""The route of a request that matches no rule."""
PROBES = frozenset({"/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
"""Routes for monitoring, which are logged at debug level and not traced."""
CONTEXT = "polyseme.context"
"""The key of the context in the WSGI environment."""
_SHORT = 50
"""A request with at most 1/50 of `max_work` is always admitted."""
_FIRST_CHECK, _PAUSE = 1.0, 0.05
"""Seconds until the connection is looked at, and between two looks. A client that has only ended
its sending side looks like one that left; it gets responses that take less."""
_GONE = select.POLLERR | select.POLLHUP | getattr(select, "POLLRDHUP", 0)


class RequestContext:
    """The data of one request for logs, metrics and traces."""

    def __init__(self, request_id: str, method: str, address: str) -> None:
        self.request_id, self.method, self.address = request_id, method, address
        self.route = UNMATCHED
        self.started = time.perf_counter()
        self.stages: Stages = {}
        self.seconds = 0.0
        """the time until the response was sent or aborted"""
        self.status = 0
        self.code: str | None = None
        """the error code of the response"""
        self.response_bytes = 0
        """the size of the body"""
        self.aborted = False
        """whether the client disconnected before the end of a stream"""
        self.model: str | None = None
        self.counts: TokenCounts | None = None
        self.work = 0.0
        """the estimated work of the request, in milliseconds of one processor"""
        self.supervisor: RequestSupervisor | None = None
        """the supervisor of a request with a body"""
        self.caller: str | None = None
        """the name of the caller's key"""
        self.unauthorized = False
        """whether a required key is missing or wrong"""
        self.rate_limited = True
        """whether the request counts towards the rate limit"""
        self.span: Any = None
        """the OpenTelemetry span, if the request is traced"""
        self.trace_id: str | None = None
        self.clock_offset = 0
        """the zero of `time.perf_counter`, in nanoseconds since 1970"""


def current_context() -> RequestContext:
    """Return the context of the current request."""
    context: RequestContext = request.environ[CONTEXT]
    return context


class WorkInProgress:
    """The work that the requests of one process have been admitted with.

    The sum stays within `max_work`, so that threads and processor time are left for short requests,
    which are always admitted.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._total, self._lock = limit, 0.0, Lock()

    def add(self, work: float) -> bool:
        """Add work and return True, unless it has to wait for other requests."""
        if work * _SHORT <= self._limit:
            return False
        with self._lock:
            if self._total and self._total + work > self._limit:
                seconds = math.ceil(self._total / 1000)
                detail = "The process is busy with long requests."
                raise OverloadedError(detail, retry_after=seconds)
            self._total += work
        return True

    def remove(self, work: float) -> None:
        """Remove work that is done."""
        with self._lock:
            self._total -= work


class RequestSupervisor:
    """The `Supervisor` of one request."""

    def __init__(
        self,
        context: RequestContext,
        environ: dict[str, Any],
        limits: Limits,
        seconds: float,
        in_progress: WorkInProgress,
        charge: Callable[[float], None] | None,
    ) -> None:
        self._context, self._limits, self._in_progress = context, limits, in_progress
        self._charge = charge
        self._deadline = context.started + seconds
        self._next_check = context.started + _FIRST_CHECK
        self._socket: Any = environ.get("gunicorn.socket")
        self._added = 0.0
        context.work = BYTE * (get_content_length(environ) or 0)

    def admit(self, work: float) -> None:
        """Add work; raise TooLargeError, OverloadedError, or RateLimitedError."""
        self._limits.check("max_work", self._context.work + work)
        if self._charge:
            self._charge(work)
        if self._in_progress.add(work):
            self._added += work
        self._context.work += work

    def check(self) -> None:
        """Raise DeadlineError after the deadline, AbortedError once the client has left."""
        now = time.perf_counter()
        if now < self._next_check:
            return
        self._next_check = now + _PAUSE
        if now > self._deadline:
            raise DeadlineError
        if self._socket is not None:
            poll = select.poll()
            poll.register(self._socket, _GONE)
            if poll.poll(0):
                self._context.aborted = True
                raise AbortedError

    def extend(self, seconds: float) -> None:
        """Move the deadline: a client that reads a stream slowly does not use the processor."""
        self._deadline += seconds

    def close(self) -> None:
        """End the supervision; nothing happens if it has ended."""
        supervise(None)
        if self._added:
            self._in_progress.remove(self._added)
            self._added = 0.0


def supervise_requests(
    app: Flask, settings: Settings, limits: Limits, charge: Callable[[float], None] | None
) -> None:
    """Supervise every POST request; `charge` counts its work towards the rates of the caller."""
    in_progress = WorkInProgress(settings.max_work)

    @app.before_request
    def start() -> None:
        environ = request.environ
        if environ["REQUEST_METHOD"] == "POST":
            context: RequestContext = environ[CONTEXT]
            context.supervisor = RequestSupervisor(
                context, environ, limits, settings.request_seconds, in_progress, charge
            )
            supervise(context.supervisor)
