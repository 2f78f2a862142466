"""The exceptions of the clients.

    ClientError
        UnreachableError        also a ConnectionError
        AnswerError
        NoSuchTokenError        also a KeyError
        NotRequestedError       also an AttributeError

Errors that a service reports are raised as the same classes of `polyseme.errors` as in process.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from polyseme.errors import (
    MAX_ERRORS,
    FieldError,
    InvalidError,
    PolysemeError,
    TooLargeError,
    UnknownWordError,
)

if TYPE_CHECKING:
    import httpx

_MAX_CHARACTERS = 2000
"""Longer strings of an error document are ignored, except unknown words."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_MAX_WORDS = 10_000
_MAX_PROBLEM_BYTES = 1 << 20


class ClientError(Exception):
    """The base class. The message says what is wrong and what to do."""


class UnreachableError(ClientError, ConnectionError):
    """The connection fails after all retries, the TLS handshake fails, or a timeout is exceeded."""


class AnswerError(ClientError):
    """The response is malformed or not from Polyseme, for example a page of a proxy."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """the status if it is not 200; None for a malformed response"""


class NoSuchTokenError(ClientError, KeyError):
    """No token of a sentence has this text, or `nth` is out of range."""

    __str__ = Exception.__str__  # KeyError's would put the message in quotation marks


class NotRequestedError(ClientError, AttributeError):
    """The sentence was encoded without this array, so `hasattr` returns False for it."""


def malformed_response() -> AnswerError:
    """Return the error for a response that does not have the expected form."""
    return AnswerError(
        "The response does not have the expected form: the server at this address is not Polyseme,"
        " or is another version of it."
    )


def media_type_of(response: "httpx.Response") -> str:
    """Return the Content-Type of a response, without its parameters."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def error_of_response(response: "httpx.Response", first: int = 0) -> Exception:
    """Return the error for a complete response whose status is not 200.

    `first` is the index of the batch's first text; it is added to the indices in paths.
    """
    status, document = response.status_code, None
    is_problem = media_type_of(response) == "application/problem+json"
    if is_problem and len(response.content) <= _MAX_PROBLEM_BYTES:
        with suppress(orjson.JSONDecodeError):
            document = orjson.loads(response.content)
    if isinstance(document, dict) and isinstance(document.get("code"), str):
        error: Any = _error_of_problem(status, document)
        if hasattr(error, "retry_after"):
            error.seconds = int(response.headers.get("Retry-After", error.retry_after))
        if error.request_id:
            error.add_note(f"Request {error.request_id}")
        return shift_paths(error, first)
    if 300 <= status < 400:
        sentence = (
            f"The server responds with {status}, a redirect. The client does not follow it, because"
            " the key is meant for this address only: use the address that it redirects to."
        )
    else:
        sentence = (
            f"The server responds with {status} and no error document of Polyseme: it may be a"
            " proxy or another service."
        )
    return AnswerError(sentence, status)


def shift_paths(error: PolysemeError, first: int) -> PolysemeError:
    """Add `first`, the index of a batch's first text, to the paths of texts; return the error."""
    errors = [*error.errors]
    for i, field in enumerate(errors):
        match field.path:
            case ("input", int(index), *rest):
                errors[i] = FieldError(("input", index + first, *rest), field.message)
    error.errors = errors
    return error


def _subclasses(root: type[PolysemeError]) -> Iterator[type[PolysemeError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _subclasses(kind)


def _error_of_problem(status: int, document: dict[str, Any]) -> PolysemeError:
    """Return an error with the members of a problem document.

    Its class is the one with the code of the document, else the first with the status.
    """
    classes = list(_subclasses(PolysemeError))
    same_code = (kind for kind in classes if kind.code == document["code"])
    same_status = (kind for kind in classes if kind.status == status)
    kind = next(same_code, None) or next(same_status, PolysemeError)
    error = kind.__new__(kind)
    PolysemeError.__init__(error, _text(document.get("detail")), _text(document.get("hint")))
    error.request_id = _text(document.get("request_id"))
    error.errors = []
    for entry in _list(document.get("errors"))[:MAX_ERRORS]:
        if isinstance(entry, dict) and (message := _text(entry.get("message"))):
            parts = (_text(entry.get("pointer")) or "").split("/")[1:]
            path = tuple(int(part) if _INDEX.fullmatch(part) else part for part in parts)
            error.errors.append(FieldError(path, message))
    if error.errors and isinstance(error, InvalidError):
        error.detail = kind.detail  # the detail of the document repeats the first field
    if isinstance(error, TooLargeError):
        limit, size = document.get("limit"), document.get("size")
        error.extra = {
            "limit": limit if isinstance(limit, int) else 0,
            "size": size if isinstance(size, int) else "unknown",
            "setting": _text(document.get("setting")) or "unknown",
        }
    if isinstance(error, UnknownWordError):
        words = _list(document.get("words"))[:_MAX_WORDS]
        error.words = [word for word in words if isinstance(word, str)]
    return error


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    """Return the value if it is a printable string, neither empty nor too long, else None."""
    fits = isinstance(value, str) and value.isprintable() and len(value) <= _MAX_CHARACTERS
    return value if fits and value else None
