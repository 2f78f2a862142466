"""What a service refuses, as the error of `service/polyseme/errors.py` that says it."""

from collections.abc import Iterator
from typing import Any

import orjson

from polyseme.client.errors import AnswerError
from polyseme.errors import (
    MOST_ERRORS,
    FieldError,
    InvalidError,
    MethodNotAllowedError,
    PolysemeError,
    TooLargeError,
    UnknownWordError,
)

_LONGEST = 2000
"""Characters of a sentence that are repeated."""
_MOST_WORDS = 10_000
_LARGEST = 1 << 20
"""Bytes of a problem that are read."""


def problem_of(
    status: int, media: str, content: bytes, retry_after: int | None, first: int = 0
) -> Exception:
    """The error that an answer with another status than 200 is.

    Where it points to a text of a batch, `first` is the number of the batch's first one.
    """
    document = _document(content) if media == "application/problem+json" else None
    code = document.get("code") if document else None
    if document is None or not isinstance(code, str):
        return AnswerError(_foreign(status), status)
    error: Any = _made(_kind(code, status), document)
    if hasattr(error, "retry_after"):
        error.seconds = error.retry_after if retry_after is None else retry_after
    if isinstance(error, InvalidError):
        shifted(error, first)
    for note in _notes(error, document):
        error.add_note(note)
    raised: PolysemeError = error
    return raised


def shifted(error: InvalidError, first: int) -> InvalidError:
    """Point to the texts among all of them, not among those of a batch. Returns the error."""
    error.errors = [FieldError(_shifted(e.pointer, first), e.message) for e in error.errors]
    return error


def _shifted(pointer: str, first: int) -> str:
    parts = pointer.split("/")
    if len(parts) > 2 and parts[1] == "input" and parts[2].isdecimal():  # noqa: PLR2004
        parts[2] = str(int(parts[2]) + first)
    return "/".join(parts)


def _document(content: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(content) if len(content) <= _LARGEST else None
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _foreign(status: int) -> str:
    if 300 <= status < 400:  # noqa: PLR2004 - a class of statuses
        return (
            f"The address answers {status}, a redirection, which is not followed, because the key"
            " is for this address: give the address it leads to."
        )
    return (
        f"The address answers {status} and does not say why as Polyseme does: it may be a proxy,"
        " or not Polyseme at all."
    )


def _kind(code: str, status: int) -> type[PolysemeError]:
    """The class that has the code; else, of a newer service, the first that has the status."""
    kinds = list(_kinds(PolysemeError))
    named = (kind for kind in kinds if kind.code == code)
    alike = (kind for kind in kinds if kind.status == status)
    return next(named, None) or next(alike, PolysemeError)


def _kinds(root: type[PolysemeError]) -> Iterator[type[PolysemeError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


def _made(kind: type[PolysemeError], document: dict[str, Any]) -> PolysemeError:
    """An error with what its document says."""
    error = kind.__new__(kind)
    PolysemeError.__init__(error, _said(document.get("detail")), _said(document.get("hint")))
    error.request_id = _said(document.get("request_id"))
    if isinstance(error, TooLargeError):
        limit, size = document.get("limit"), document.get("size")
        error.extra = {
            "limit": limit if isinstance(limit, int) else 0,
            "size": size if isinstance(size, int) else "unknown",
            "setting": _said(document.get("setting")) or "unknown",
        }
    if isinstance(error, InvalidError):
        error.errors = list(_fields(document.get("errors")))
    if isinstance(error, UnknownWordError):
        words = document.get("words")
        listed = words[:_MOST_WORDS] if isinstance(words, list) else []
        error.words = [word for word in listed if isinstance(word, str)]
    if isinstance(error, MethodNotAllowedError):
        error.allowed = ()
    return error


def _fields(given: Any) -> Iterator[FieldError]:
    for one in given[:MOST_ERRORS] if isinstance(given, list) else ():
        if isinstance(one, dict):
            pointer, message = _said(one.get("pointer")), _said(one.get("message"))
            if message is not None:
                yield FieldError(pointer or "", message)


def _notes(error: PolysemeError, document: dict[str, Any]) -> Iterator[str]:
    """What a traceback shows below the sentence."""
    if isinstance(error, InvalidError):
        yield from (f"{one.pointer or '/'}: {one.message}" for one in error.errors)
    yield error.advice
    if request_id := _said(document.get("request_id")):
        yield f"Request {request_id}"


def _said(value: Any) -> str | None:
    """A string that can be shown at a terminal; None for anything else."""
    fits = isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST
    return value if fits and value else None
