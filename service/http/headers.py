"""The headers every answer carries: a request id, and how long each stage took."""

import secrets
import time

import regex
from flask import Flask, Response, g, request

from service.encoding.stages import Stages

_SANE = regex.compile(r"[A-Za-z0-9._-]{1,128}")


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
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
