"""What an error says besides, where a route speaks the API of others: their members beside ours.

A problem (RFC 9457) may have members that a reader does not know, so that one document answers both
the clients of that API and everybody else.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import regex

from polyseme.errors import FieldError, InvalidError, PolysemeError, UnknownRouteError

Dialect: TypeAlias = Callable[[PolysemeError], dict[str, Any]]

_CODES = {
    "unknown_model": "model_not_found",
    "unauthorised": "invalid_api_key",
    "rate_limited": "rate_limit_exceeded",
}
"""OpenAI's names of codes, where they are not ours."""
_TYPES = {429: "rate_limit_error"}
_SERVER = 500
_INDEX = regex.compile(r"/(\d+)")


def openai(error: PolysemeError) -> dict[str, Any]:
    """The `error` of OpenAI's API: its sentence is all that most of its users get to see."""
    ours = "invalid_request_error" if error.status < _SERVER else "server_error"
    errors = error.errors if isinstance(error, InvalidError) else ()
    param = _parameter(errors[0].pointer) if errors else None
    return {
        "error": {
            "message": f"{_sentence(param, errors) if errors else error.sentence} {error.advice}",
            "type": _TYPES.get(error.status, ours),
            "param": param,
            "code": _CODES.get(error.code, error.code),
        }
    }


def _sentence(param: str | None, errors: Sequence[FieldError]) -> str:
    """What is wrong with the first field, and how many more there are."""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    place = f"`{param}`{more}: " if param else ""
    return f"{place}{errors[0].message}."


def inference(error: PolysemeError) -> dict[str, Any]:
    """The `error` of the Open Inference Protocol: one text."""
    return {"error": openai(error)["error"]["message"]}


def _parameter(pointer: str) -> str | None:
    """A JSON pointer as OpenAI names a place: `/input/3` is `input[3]`."""
    return _INDEX.sub(r"[\1]", pointer).lstrip("/").replace("/", ".") or None


_DIALECTS: tuple[tuple[str, Dialect], ...] = (
    ("/v1/embeddings", openai),
    ("/v1/models", openai),
    ("/v2", inference),
)
"""Which paths, with all that is below them, speak what; the first that fits."""


def spoken(error: PolysemeError, path: str) -> dict[str, Any]:
    """The members that an error at a path has besides those of every problem.

    Where there is no route, the client may have been given an address without its /v1: OpenAI's own
    client then tells nothing but what is in `error`.
    """
    for prefix, dialect in _DIALECTS:
        if path == prefix or path.startswith(f"{prefix}/"):
            return dialect(error)
    return openai(error) if isinstance(error, UnknownRouteError) else {}
