"""Traces of requests: a span for each, and one for each of its stages, sent to a collector.

Neither a path nor a query nor anything else that a caller wrote is in a span; OpenTelemetry's own
instrumentation of Flask records the address. A thread of each worker sends them, begun with
the worker: threads do not survive a fork.
"""

import threading
import time
import uuid

from flask import g, request
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from polyseme import __version__
from polyseme.http.accounts import QUIET, UNMATCHED, Account

_PATH = "/v1/traces"
_LAST_SECONDS = 3.0
"""How long the end of a worker waits for the collector."""
_FAULT = 500
_OTHER = "_OTHER"
"""What the conventions call a method that is not known."""
_SECOND = 10**9


class Traces:
    """The spans of one process."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint.rstrip("/") + _PATH
        self._parents = TraceContextTextMapPropagator()
        self._making = threading.Lock()
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def start(self) -> Tracer:
        """What makes spans: made at its first use in a process."""
        if self._tracer is None:
            with self._making:
                if self._provider is None:
                    self._provider = _provider(self._endpoint)
                self._tracer = self._provider.get_tracer("polyseme", __version__)
        return self._tracer

    def begin(self) -> None:
        """Begin the span of a request, under that of the caller where there is one."""
        account: Account = g.account
        if account.route in QUIET:
            return
        account.offset = time.time_ns() - int(time.perf_counter() * _SECOND)
        method = _OTHER if account.method == "other" else account.method
        known = account.route != UNMATCHED
        attributes = {"http.request.method": method, "polyseme.request_id": account.request_id}
        if known:
            attributes["http.route"] = account.route
        account.span = self.start().start_span(
            f"{method} {account.route}" if known else method,
            self._parents.extract({"traceparent": request.environ.get("HTTP_TRACEPARENT", "")}),
            SpanKind.SERVER,
            attributes=attributes,
            start_time=_moment(account, account.started),
        )
        account.trace_id = format(account.span.get_span_context().trace_id, "032x")

    def end(self, account: Account) -> None:
        """End it, and make those of its stages."""
        span = account.span
        if span is None:
            return
        if span.is_recording():
            span.set_attributes(_attributes(account))
            if account.status >= _FAULT:
                span.set_status(StatusCode.ERROR)
            context = set_span_in_context(span)
            for name, (start, end) in account.stages.places.items():
                spent = {"polyseme.milliseconds": account.stages.milliseconds[name]}
                began = _moment(account, start)
                stage = self.start().start_span(name, context, attributes=spent, start_time=began)
                stage.end(_moment(account, end))
        span.end(_moment(account, account.started + account.seconds))

    def close(self) -> None:
        """Send what waits, for a moment: a collector that hangs does not keep the process."""
        if self._provider is not None:
            closing = threading.Thread(target=self._provider.shutdown, daemon=True)
            closing.start()
            closing.join(_LAST_SECONDS)


def _provider(endpoint: str) -> TracerProvider:
    """The standard variables say how spans are sampled and sent; they may name the service."""
    given = OTELResourceDetector().detect().attributes
    own = {
        "service.name": "polyseme",
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
    }
    resource = Resource.create({**own, **given})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return provider


def _attributes(account: Account) -> dict[str, str | int]:
    """What is known at the end."""
    known: dict[str, str | int] = {"http.response.status_code": account.status}
    if account.code:
        known["error.type"] = account.code
    if account.model:
        known["polyseme.model"] = account.model
    if account.counts:
        known["polyseme.tokens"] = account.counts.tokens
    return known


def _moment(account: Account, counted: float) -> int:
    """A time of the clock that stages are taken with, in nanoseconds since 1970."""
    return account.offset + int(counted * _SECOND)
