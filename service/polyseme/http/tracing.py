"""OpenTelemetry traces, sent by OTLP: a span for each request except probes, and for each stage.

OpenTelemetry's instrumentation of Flask records the path and the query; these spans do not. Each
worker starts an exporter thread, because threads do not survive a fork.
"""

import threading
import time
import uuid

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from polyseme import __version__
from polyseme.http.middleware import UNMATCHED, RequestContext

_PATH = "/v1/traces"
_LAST_SECONDS = 3.0
"""Maximum seconds that a worker waits for the collector before it exits."""
_FAULT = 500
_OTHER = "_OTHER"
"""The method of a request with an unknown method, as in OpenTelemetry's semantic conventions."""
_SECOND = 10**9


class Tracer:
    """A tracer that creates and exports the spans of one process."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint.rstrip("/") + _PATH
        self._parents = TraceContextTextMapPropagator()
        self._lock = threading.Lock()
        self._provider: TracerProvider | None = None

    def start(self) -> trace.Tracer:
        """Return the tracer of this process; create its provider at the first call."""
        with self._lock:
            if self._provider is None:
                self._provider = _provider(self._endpoint)
        return self._provider.get_tracer("polyseme", __version__)

    def start_span(self, context: RequestContext, traceparent: str) -> None:
        """Start the span of a request, as a child of the caller's span if it sends one."""
        method = _OTHER if context.method == "other" else context.method
        attributes = {"http.request.method": method, "polyseme.request_id": context.request_id}
        matched = context.route != UNMATCHED
        if matched:
            attributes["http.route"] = context.route
        context.clock_offset = time.time_ns() - int(time.perf_counter() * _SECOND)
        context.span = self.start().start_span(
            f"{method} {context.route}" if matched else method,
            self._parents.extract({"traceparent": traceparent}),
            SpanKind.SERVER,
            attributes=attributes,
            start_time=_nanoseconds(context, context.arrived),
        )
        context.trace_id = format(context.span.get_span_context().trace_id, "032x")

    def end_span(self, context: RequestContext) -> None:
        """Create the spans of the stages, and end the span of the request."""
        span = context.span
        if span.is_recording():
            span.set_attribute("http.response.status_code", context.status)
            if context.code:
                span.set_attribute("error.type", context.code)
            if context.model:
                span.set_attribute("polyseme.model", context.model)
            if context.counts:
                span.set_attribute("polyseme.tokens", context.counts.tokens)
            if context.status >= _FAULT:
                span.set_status(StatusCode.ERROR)
            parent = set_span_in_context(span)
            for name, (start, end, seconds) in context.stages.items():
                spent = {"polyseme.milliseconds": seconds * 1000}
                began = _nanoseconds(context, start)
                stage = self.start().start_span(name, parent, attributes=spent, start_time=began)
                stage.end(_nanoseconds(context, end))
        span.end(_nanoseconds(context, context.arrived + context.seconds))

    def close(self) -> None:
        """Send the remaining spans, for at most a few seconds if the collector does not respond."""
        if self._provider is not None:
            closing = threading.Thread(target=self._provider.shutdown, daemon=True)
            closing.start()
            closing.join(_LAST_SECONDS)


def _provider(endpoint: str) -> TracerProvider:
    """Return a provider; OpenTelemetry's environment variables configure sampling and export."""
    detected = OTELResourceDetector().detect().attributes
    own = {
        "service.name": "polyseme",
        "service.version": __version__,
        "service.instance.id": str(uuid.uuid4()),
    }
    resource = Resource.create({**own, **detected})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return provider


def _nanoseconds(context: RequestContext, counter: float) -> int:
    """Convert a time of `time.perf_counter` to nanoseconds since 1970."""
    return context.clock_offset + int(counter * _SECOND)
