"""Middleware around every request: its context, response headers, log line, metrics and trace.

Logs, metrics and traces use only the context. It contains no text of the request except a valid
X-Request-ID and the trace ID of a valid traceparent: `route` is the URL rule instead of the path,
and `method` is a known method or `other`.
"""

import logging
import secrets
import time
from collections.abc import Iterable
from contextvars import ContextVar
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from typing import Any

import regex
from flask import Flask, request
from werkzeug.wsgi import ClosingIterator

from polyseme.errors import UnknownHostError
from polyseme.http import metrics
from polyseme.operations.encode import TokenCounts
from polyseme.operations.limits import Stages, set_record
from polyseme.settings import Settings

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # API responses load and embed nothing; the pages of `routes.py` set their own policies.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    # API responses are for one caller; the static files of `routes.py` allow caching.
    "Cache-Control": "no-store",
}
"""Headers of every response whose route does not set them."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EVERY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
_MAX_HOST = 255
_HOST = regex.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A name or an address, and a port (RFC 9110, §7.2)."""
ADMIN = "polyseme.admin"
"""The key of the WSGI environment that requests on the port for probes and metrics have."""
_REQUEST_ID = regex.compile(r"[A-Za-z0-9._-]{1,128}")
_SECURITY_ITEMS = tuple(SECURITY_HEADERS.items())
UNMATCHED = "unmatched"
"""The route of a request that matches no rule."""
PROBES = frozenset({"/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
"""Routes for monitoring, which are logged at debug level and not traced."""
CONTEXT = "polyseme.context"
"""The key of the context in the WSGI environment."""
arrival: ContextVar[float] = ContextVar("polyseme_arrival")
"""When the request of this thread arrived, by `time.perf_counter`; a worker sets it."""
_log = logging.getLogger("polyseme.requests")


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
        self.span: Any = None
        """the OpenTelemetry span, if the request is traced"""
        self.trace_id: str | None = None
        self.clock_offset = 0
        """the zero of `time.perf_counter`, in nanoseconds since 1970"""


def current_context() -> RequestContext:
    """Return the context of the current request."""
    context: RequestContext = request.environ[CONTEXT]
    return context


def init_app(app: Flask, settings: Settings, tracer: Any) -> None:
    """Create a context for each request; log, count and trace it when the response is sent."""

    @app.before_request
    def routed() -> None:
        environ = request.environ
        context: RequestContext = environ[CONTEXT]
        rule = request.url_rule
        if rule:
            context.route = rule.rule
        is_health = context.route in PROBES and context.route != "/metrics"
        host, bound = environ.get("HTTP_HOST"), environ["SERVER_NAME"]
        if not (host is None or ADMIN in environ or is_health) and (
            len(host) > _MAX_HOST or not is_allowed(host, bound, settings.hosts)
        ):
            raise UnknownHostError
        if tracer and context.route not in PROBES:
            tracer.start_span(context, request.environ.get("HTTP_TRACEPARENT", ""))

    app.wsgi_app = Middleware(app.wsgi_app, settings, tracer)  # type: ignore[method-assign]


class Middleware:
    """WSGI middleware that creates the contexts; it is three times as fast as Flask's hooks."""

    def __init__(self, wsgi_app: Any, settings: Settings, tracer: Any) -> None:
        self._wsgi_app, self._tracer, self._proxies = wsgi_app, tracer, settings.proxies
        self._counted = settings.metrics != "off"

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Handle a request; its context exists until the response is closed."""
        sent, method = environ.get("HTTP_X_REQUEST_ID", ""), environ["REQUEST_METHOD"]
        address = environ.get("REMOTE_ADDR", "")
        if self._proxies:
            # Split at every comma: Werkzeug's ProxyFix respects quotes, so a quote opened by the
            # client would hide the entries that the proxies append.
            entries = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
            if len(entries) >= self._proxies:
                address = parse_address(entries[-self._proxies]) or address
        context = environ[CONTEXT] = RequestContext(
            sent if _REQUEST_ID.fullmatch(sent) else secrets.token_hex(16),
            method if method in _METHODS else "other",
            address,
        )
        set_record(context)
        if self._counted:
            metrics.IN_PROGRESS.inc()

        length: str | None = None

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            nonlocal length
            context.status = int(status[:3])
            present = {name.lower(): value for name, value in headers}
            length = present.get("content-length")
            if context.budget and context.budget.has_permit:
                context.budget.give_back_permit()
            if method != "HEAD":
                context.response_bytes = int(length or 0)
            timing = "".join(
                f"{stage};dur={seconds * 1000:.3f}, "
                for stage, (_start, _end, seconds) in context.stages.items()
            )
            total = (time.perf_counter() - context.arrived) * 1000
            headers.append(("X-Request-ID", context.request_id))
            headers.append(("Server-Timing", f"{timing}total;dur={total:.3f}"))
            headers.extend(pair for pair in _SECURITY_ITEMS if pair[0].lower() not in present)
            return start_response(status, headers, exc_info)

        try:
            body = self._wsgi_app(environ, start)
        except BaseException:
            self._finish(context)
            raise
        finish = partial(self._finish, context)
        if length is not None:
            return ClosingIterator(body, finish)

        def count(part: bytes) -> bytes:
            context.response_bytes += len(part)
            return part

        return ClosingIterator(map(count, body), [body.close, finish])

    def _finish(self, context: RequestContext) -> None:
        """Log, count and trace a request whose response was sent or aborted."""
        context.seconds = time.perf_counter() - context.arrived
        set_record(None)
        if context.budget:
            context.budget.close()
        if self._counted:
            metrics.IN_PROGRESS.dec()
            observe(context)
        if self._tracer and context.span:
            self._tracer.end_span(context)
        log_request(context)


def observe(context: RequestContext) -> None:
    """Count a finished request."""
    requests, duration, size = metrics.route_metrics(context.route, context.method, context.status)
    requests.inc()
    duration.observe(context.seconds)
    size.inc(context.response_bytes)
    if context.code:
        metrics.error_counter(context.code).inc()
    for stage, (_start, _end, seconds) in context.stages.items():
        metrics.stage_histogram(stage).observe(seconds)
    if context.counts and context.model:
        for name, counter in metrics.model_counters(context.model).items():
            if count := getattr(context.counts, name):
                counter.inc(count)
    if context.aborted:
        metrics.ABORTED.labels("client_gone").inc()


def log_request(context: RequestContext) -> None:
    """Log a request."""
    level = logging.DEBUG if context.route in PROBES else logging.INFO
    if not _log.isEnabledFor(level):
        return
    fields = {
        "event": "request",
        "request_id": context.request_id,
        "route": context.route,
        "method": context.method,
        "status": context.status,
        "code": context.code,
        "ms": round(context.seconds * 1000, 3),
        "wait_ms": round((context.started - context.arrived) * 1000, 3) or None,
        "bytes": context.response_bytes,
        "tokens": context.counts.tokens if context.counts else None,
        "work_ms": round(context.work, 3) or None,
        "model": context.model,
        "caller": context.caller,
        "address": context.address,
        "trace_id": context.trace_id,
        "aborted": context.aborted or None,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    _log.log(level, "request", extra={"fields": known})


@lru_cache(256)
def is_allowed(host: str, bound: str, allowed: tuple[str, ...]) -> bool:
    """Return whether requests with a Host header are answered.

    A page of another site could make its name point to this machine (DNS rebinding), and a browser
    would then send its requests here. Without a list, a service that listens on one address allows
    that address, localhost and the loopback addresses.
    """
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].strip("[]").lower()
    if allowed:
        return name in allowed or "*" in allowed
    if bound in _EVERY_ADDRESS or bound.startswith("/"):  # a Unix socket
        return True
    try:
        return name in {bound, "localhost"} or ip_address(name).is_loopback
    except ValueError:
        return False


def parse_address(entry: str) -> str | None:
    """Return the IP address in an entry of X-Forwarded-For without its port, None if invalid."""
    host = entry.strip()
    if host.startswith("[") and "]" in host:
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
