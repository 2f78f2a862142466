"""The context of one request: its ID, timing and details.

Logs, metrics and traces use only this context. It contains no text of the request except a valid
X-Request-ID and the trace ID of a valid traceparent: `route` is the URL rule instead of the path,
and `method` is a known method or `other`.
"""

import time
from contextvars import ContextVar
from typing import Any

from flask import request

from polyseme.operations.encode import TokenCounts
from polyseme.stages import Stages

UNMATCHED = "unmatched"
"""The route of a request that matches no rule."""
PROBES = frozenset({"/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
"""Routes for monitoring, which are logged at debug level and not traced."""
CONTEXT = "polyseme.context"
"""The key of the context in the WSGI environment."""
arrival: ContextVar[float] = ContextVar("polyseme_arrival")
"""When the request of this thread arrived, by `time.perf_counter`; a worker sets it."""


class RequestContext:
    """The data of one request for logs, metrics and traces."""

    def __init__(self, request_id: str, method: str, address: str) -> None:
        self.request_id, self.method, self.address = request_id, method, address
        self.route = UNMATCHED
        self.started = time.perf_counter()
        self.arrived = arrival.get(self.started)
        """when the worker could read the first byte"""
        self.stages: Stages = {}
        if self.arrived < self.started:
            self.stages["wait"] = self.arrived, self.started, self.started - self.arrived
        self.seconds = 0.0
        """the time from its arrival until the response was sent or aborted"""
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
        """the processor time of a request with a body, in milliseconds"""
        self.budget: Any = None
        """the `RequestBudget` of a request with a body"""
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

    def end_parsing(self) -> None:
        """Record the stage `parse`, which begins with the request."""
        now = time.perf_counter()
        self.stages["parse"] = self.started, now, now - self.started


def current_context() -> RequestContext:
    """Return the context of the current request."""
    context: RequestContext = request.environ[CONTEXT]
    return context
