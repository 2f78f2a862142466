"""Error responses: `application/problem+json` (RFC 9457) with the members of compatible APIs.

Clients ignore unknown members of a problem document, so one document serves the clients of this
API, of OpenAI's API and of the Open Inference Protocol.
"""

import logging
import secrets
from http import HTTPStatus
from typing import Any

import orjson
from flask import Flask, Response, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, SecurityError

from polyseme.engine import NonFiniteError
from polyseme.errors import (
    InvalidError,
    MalformedError,
    MethodNotAllowedError,
    OutOfMemoryError,
    OutOfRangeError,
    PolysemeError,
    UnknownHostError,
    UnknownRouteError,
    subscripted,
    with_period,
)
from polyseme.http import metrics
from polyseme.http.middleware import SECURITY_HEADERS, RequestContext, current_context, log_request

PROBLEM = "application/problem+json"
_OPENAI_PATHS = ("/v1/embeddings/", "/v1/models/")
_OPENAI_CODES = {
    "unknown_model": "model_not_found",
    "unauthorised": "invalid_api_key",
    "rate_limited": "rate_limit_exceeded",
}
"""OpenAI's error codes that differ from ours."""
_SERVER_ERROR = 500
_log = logging.getLogger("polyseme")


def init_app(app: Flask) -> None:
    """Convert every exception of a request to a problem response."""
    app.register_error_handler(
        Exception, lambda raised: problem(error_of(raised, current_context().request_id))
    )


def problem(error: PolysemeError, **members: Any) -> Response:
    """Return the problem response of an error, with additional `members`.

    The error forgets its traceback: the frames refer to the error, so that the body of the request
    would stay in memory until garbage is collected.
    """
    error.__traceback__ = error.__context__ = None
    context = current_context()
    context.code = error.code
    document = problem_document(error, context.request_id, request.path) | members
    return Response(orjson.dumps(document), error.status, error.headers(), content_type=PROBLEM)


def problem_document(error: PolysemeError, request_id: str, path: str = "") -> dict[str, Any]:
    """Return the problem document of an error, with `error` for paths of compatible APIs.

    An unknown route gets the `error` of OpenAI's API: OpenAI's client shows only this member, and
    may be configured with a base URL without /v1.
    """
    document = {
        "type": f"urn:polyseme:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": _detail(error),
        "code": error.code,
        "hint": error.hint,
        "request_id": request_id,
        **error.members(),
    }
    start = f"{path}/"
    if start.startswith("/v2/"):
        document["error"] = _message(error)
    elif start.startswith(_OPENAI_PATHS) or isinstance(error, UnknownRouteError):
        document["error"] = _openai_error(error)
    return document


def raw_response(error: Exception, address: str) -> bytes:
    """Return the response to a request that does not reach the application; count and log it.

    The document has the `error` of OpenAI's API, because OpenAI's client shows only this member.
    """
    context = RequestContext(secrets.token_hex(16), "other", address)
    error = error_of(error, context.request_id)
    document = problem_document(error, context.request_id, "/v1/embeddings")
    body = orjson.dumps(document)
    headers = {
        "Connection": "close",
        "Content-Type": PROBLEM,
        "Content-Length": str(len(body)),
        "X-Request-ID": context.request_id,
        "Server-Timing": "total;dur=0",
        **SECURITY_HEADERS,
        **error.headers(),
    }
    context.status, context.code, context.response_bytes = error.status, error.code, len(body)
    metrics.count_refusal(error.code)
    log_request(context)
    status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"
    lines = [status, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _openai_error(error: PolysemeError) -> dict[str, Any]:
    """Return the `error` of OpenAI's API; most clients show only its message."""
    kind = "invalid_request_error" if error.status < _SERVER_ERROR else "server_error"
    return {
        "message": _message(error),
        "type": "rate_limit_error" if error.code == "rate_limited" else kind,
        "param": _parameter(error) or None,
        "code": _OPENAI_CODES.get(error.code, error.code),
    }


def _parameter(error: PolysemeError) -> str:
    """Return the first field of an error, such as `input[1]`, or nothing."""
    return subscripted(error.errors[0].path) if error.errors else ""


def _message(error: PolysemeError) -> str:
    """Return an error as one text, the `error` of the Open Inference Protocol.

    It consists of the first field, the detail and the hint.
    """
    parameter = _parameter(error)
    # The detail of invalid fields begins with the parameter.
    start = f"`{parameter}`: " if parameter and not isinstance(error, InvalidError) else ""
    return f"{start}{_detail(error)} {error.hint}"


def _detail(error: PolysemeError) -> str:
    """Return the detail; that of invalid fields names the first one, and how many more there are.

    In process and in the clients, the message of the exception lists the fields instead.
    """
    if not isinstance(error, InvalidError) or not error.errors:
        return error.detail
    first, *others = error.errors
    subject = f"`{subscripted(first.path)}`" if first.path else "The request"
    detail = with_period(f"{subject}: {first.message}")
    if not others:
        return detail
    more = "is one more error" if len(others) == 1 else f"are {len(others)} more errors"
    return f"{detail} There {more}."


def _path_hint(path: str) -> str | None:
    """Return that the path lacks a prefix if it leads to a route with it, else None."""
    if not current_app.url_map.bind("").allowed_methods(f"/v1{path}"):
        return None
    return "The path lacks the prefix `/v1`: add it to the client's base URL."


def error_of(raised: Exception, request_id: str) -> PolysemeError:
    """Return the error for an exception; log the type and the stack of an unexpected one."""
    match raised:
        case PolysemeError():
            return raised
        case NonFiniteError():
            return OutOfRangeError()
        case MemoryError():
            return OutOfMemoryError()
        case NotFound():
            return UnknownRouteError(hint=_path_hint(request.path))
        case MethodNotAllowed():
            return MethodNotAllowedError(list(raised.valid_methods or ()))
        case SecurityError():
            return UnknownHostError()
        # An invalid host, or an upgrade that no route supports.
        case HTTPException(code=int(code)) if 400 <= code < _SERVER_ERROR:
            return MalformedError()
    fields = {"event": "fault", "request_id": request_id}
    _log.error("the request failed", exc_info=raised, extra={"fields": fields})
    return PolysemeError()
