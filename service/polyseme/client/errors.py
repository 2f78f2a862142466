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
from typing import Any

import orjson

from polyseme.errors import (
    MAX_ERRORS,
    FieldError,
    MethodNotAllowedError,
    PolysemeError,
    TooLargeError,
    UnknownWordError,
)

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


def error_of_response(
    status: int, media_type: str, content: bytes, retry_after: int | None, first: int = 0
) -> Exception:
    """Return the error for a response whose status is not 200.

    `first` is the index of the batch's first text; it is added to the indices in paths.
    """
    document = None
    if media_type == "application/problem+json" and len(content) <= _MAX_PROBLEM_BYTES:
        try:
            document = orjson.loads(content)
        except orjson.JSONDecodeError:
            document = None
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        return AnswerError(_foreign_response(status), status)
    error: Any = _error_of_problem(_error_class(document["code"], status), document)
    if hasattr(error, "retry_after"):
        error.seconds = error.retry_after if retry_after is None else retry_after
    if error.request_id:
        error.add_note(f"Request {error.request_id}")
    return shift_paths(error, first)


def shift_paths(error: PolysemeError, first: int) -> PolysemeError:
    """Add `first`, the index of a batch's first text, to the paths of texts; return the error."""
    shifted = []
    for one in error.errors:
        match one.path:
            case ("input", int(number), *rest):
                shifted.append(FieldError(("input", number + first, *rest), one.message))
            case _:
                shifted.append(one)
    error.errors = shifted
    return error


def _foreign_response(status: int) -> str:
    if 300 <= status < 400:
        return (
            f"The server responds with {status}, a redirect. The client does not follow it, because"
            " the key is meant for this address only: use the address that it redirects to."
        )
    return (
        f"The server responds with {status} and no error document of Polyseme: it may be a proxy or"
        " another service."
    )


def _error_class(code: str, status: int) -> type[PolysemeError]:
    """Return the class with this code, else the first with this status, else PolysemeError."""
    classes = list(_subclasses(PolysemeError))
    same_code = (one for one in classes if one.code == code)
    same_status = (one for one in classes if one.status == status)
    return next(same_code, None) or next(same_status, PolysemeError)


def _subclasses(root: type[PolysemeError]) -> Iterator[type[PolysemeError]]:
    yield root
    for one in root.__subclasses__():
        yield from _subclasses(one)


def _error_of_problem(kind: type[PolysemeError], document: dict[str, Any]) -> PolysemeError:
    """Return an error with the members of a problem document."""
    error = kind.__new__(kind)
    PolysemeError.__init__(error, _text(document.get("detail")), _text(document.get("hint")))
    error.request_id = _text(document.get("request_id"))
    error.errors = list(_field_errors(document.get("errors")))
    if isinstance(error, TooLargeError):
        limit, size = document.get("limit"), document.get("size")
        error.extra = {
            "limit": limit if isinstance(limit, int) else 0,
            "size": size if isinstance(size, int) else "unknown",
            "setting": _text(document.get("setting")) or "unknown",
        }
    if isinstance(error, UnknownWordError):
        words = document.get("words")
        listed = words[:_MAX_WORDS] if isinstance(words, list) else []
        error.words = [word for word in listed if isinstance(word, str)]
    if isinstance(error, MethodNotAllowedError):
        error.allowed = ()
    return error


def _field_errors(given: Any) -> Iterator[FieldError]:
    for one in given[:MAX_ERRORS] if isinstance(given, list) else ():
        if isinstance(one, dict):
            pointer, message = _text(one.get("pointer")), _text(one.get("message"))
            if message is not None:
                parts = (pointer or "").split("/")[1:]
                yield FieldError(
                    tuple(int(part) if _INDEX.fullmatch(part) else part for part in parts), message
                )


def _text(value: Any) -> str | None:
    """Return the value if it is a printable string, neither empty nor too long, else None."""
    fits = isinstance(value, str) and value.isprintable() and len(value) <= _MAX_CHARACTERS
    return value if fits and value else None
