"""The headers every answer carries: a request id, how long each stage took, what browsers may."""

import secrets
import time

import regex
from flask import Flask, Response, g, request

from polyseme.encoding.stages import Stages

_SANE = regex.compile(r"[A-Za-z0-9._-]{1,128}")
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Nothing of an answer is run or shown; the pages say what they need (`page.py`).
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    # An answer is made for one caller; what browsers may keep says so (`page.py`).
    "Cache-Control": "no-store",
}
"""What an answer says to browsers and caches unless its route says something else."""

_BY_NAME = tuple(SECURITY_HEADERS.items())


def init_app(app: Flask) -> None:
    """Begin each request with an id and a clock, and end it with their headers."""
    app.before_request(_begin)
    app.after_request(_end)


def _begin() -> None:
    sent = request.environ.get("HTTP_X_REQUEST_ID", "")
    g.request_id = sent if _SANE.fullmatch(sent) else secrets.token_hex(16)
    g.stages = Stages()
    g.started = time.perf_counter()


def _end(response: Response) -> Response:
    total = (time.perf_counter() - g.started) * 1000
    spent = {**g.stages.milliseconds, "total": total}
    response.headers["X-Request-ID"] = g.request_id
    response.headers["Server-Timing"] = ", ".join(f"{n};dur={ms:.3f}" for n, ms in spent.items())
    # Not by `setdefault`, which takes twelve millionths of a second for them.
    said = {name.lower() for name, _ in response.headers}
    response.headers.extend(pair for pair in _BY_NAME if pair[0].lower() not in said)
    return response
