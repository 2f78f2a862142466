"""Middleware around every request: its context, response headers, log line, metrics and trace."""

import secrets
import time
from collections.abc import Iterable
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Any

import regex
from flask import Flask, request
from werkzeug.wsgi import ClosingIterator

from polyseme.http import metrics
from polyseme.http.context import CONTEXT, PROBES, RequestContext
from polyseme.http.logs import log_request
from polyseme.settings import Settings
from polyseme.stages import record

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # API responses load and embed nothing; the pages of `pages.py` set their own policies.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    # API responses are for one caller; the static files of `pages.py` allow caching.
    "Cache-Control": "no-store",
}
"""Headers of every response whose route does not set them."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_ID = regex.compile(r"[A-Za-z0-9._-]{1,128}")
_SECURITY_ITEMS = tuple(SECURITY_HEADERS.items())


def init_app(app: Flask, settings: Settings) -> None:
    """Create a context for each request; log, count and trace it when the response is sent."""
    tracer = None
    if settings.otlp_endpoint:
        from polyseme.http.tracing import Tracer

        tracer = app.extensions["polyseme-tracer"] = Tracer(settings.otlp_endpoint)

    @app.before_request
    def routed() -> None:
        context: RequestContext = request.environ[CONTEXT]
        rule = request.url_rule
        if rule:
            context.route = rule.rule
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
        record(context)
        if self._counted:
            metrics.IN_PROGRESS.inc()

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            context.status = int(status[:3])
            present = {name.lower(): value for name, value in headers}
            if context.supervisor and "content-length" in present:
                context.supervisor.close()  # a client that reads slowly does not use the processor
                context.supervisor = None
            if method != "HEAD":  # a stream has no Content-Length and counts its bytes itself
                context.response_bytes = int(present.get("content-length", 0))
            timing = "".join(
                f"{stage};dur={seconds * 1000:.3f}, "
                for stage, (_start, _end, seconds) in context.stages.items()
            )
            total = (time.perf_counter() - context.started) * 1000
            headers.append(("X-Request-ID", context.request_id))
            headers.append(("Server-Timing", f"{timing}total;dur={total:.3f}"))
            headers.extend(pair for pair in _SECURITY_ITEMS if pair[0].lower() not in present)
            return start_response(status, headers, exc_info)

        try:
            body = self._wsgi_app(environ, start)
        except BaseException:
            self._finish(context)
            raise
        return ClosingIterator(body, partial(self._finish, context))

    def _finish(self, context: RequestContext) -> None:
        """Log, count and trace a request whose response was sent or aborted."""
        context.seconds = time.perf_counter() - context.started
        record(None)
        if context.supervisor:
            context.supervisor.close()
        if self._counted:
            metrics.IN_PROGRESS.dec()
            metrics.observe(context)
        if self._tracer and context.span:
            self._tracer.end_span(context)
        log_request(context)


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
