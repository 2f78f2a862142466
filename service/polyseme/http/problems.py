"""Every error as `application/problem+json` (RFC 9457), and nothing else."""

import logging
import traceback
from types import TracebackType
from typing import Any

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from polyseme.engine.arrays import NonFiniteError
from polyseme.errors import (
    MalformedError,
    MethodNotAllowedError,
    OutOfRangeError,
    PolysemeError,
    UnknownRouteError,
)
from polyseme.http.dialects import spoken

_log = logging.getLogger("polyseme")


def init_app(app: Flask) -> None:
    """Turn every exception of a request into a problem."""
    app.register_error_handler(PolysemeError, problem)
    app.register_error_handler(NonFiniteError, lambda _: problem(OutOfRangeError()))
    app.register_error_handler(HTTPException, _of_werkzeug)
    app.register_error_handler(Exception, _unforeseen)


def problem_document(error: PolysemeError, request_id: str) -> dict[str, Any]:
    """What is said of an error."""
    return {
        "type": f"urn:polyseme:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.sentence,
        "code": error.code,
        "hint": error.advice,
        "request_id": request_id,
        **error.members(),
    }


def problem(error: PolysemeError) -> Response:
    """Write an error down."""
    g.code = error.code
    document = problem_document(error, g.get("request_id", "")) | spoken(error, request.path)
    return Response(
        orjson.dumps(document),
        error.status,
        error.headers(),
        content_type="application/problem+json",
    )


def _of_werkzeug(error: HTTPException) -> Response:
    """The error of ours that says what Flask's does."""
    if isinstance(error, NotFound):
        return problem(UnknownRouteError())
    if isinstance(error, MethodNotAllowed):
        return problem(MethodNotAllowedError(list(error.valid_methods or ())))
    if error.code is not None and 400 <= error.code < 500:  # noqa: PLR2004 - the caller's fault
        # A host that is none, or an upgrade to what no route speaks.
        return problem(MalformedError())
    return _unforeseen(error)


def places(trace: TracebackType | None) -> list[str]:
    """Where an exception came through, the innermost place last."""
    frames = traceback.extract_tb(trace)
    return [f"{one.filename}:{one.lineno} in {one.name}" for one in frames]


def log_fault(error: Exception, where: str, request_id: str) -> None:
    """Log where a fault of ours happened; what it says may quote the caller and goes nowhere."""
    came = places(error.__traceback__)
    known = {"event": "fault", "error": type(error).__name__, "places": came}
    fields = known | ({"request_id": request_id} if request_id else {})
    _log.error("%s in %s %s", type(error).__name__, where, request_id, extra={"fields": fields})


def _unforeseen(error: Exception) -> Response:
    log_fault(error, "request", g.get("request_id", ""))
    return problem(PolysemeError())
