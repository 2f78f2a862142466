"""Reading a request: what it is declared as, what it accepts, and what its body says."""

from collections.abc import Iterator
from typing import Any, TypeVar

import orjson
import regex
from flask import current_app, request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.errors import (
    MOST_ERRORS,
    FieldError,
    InvalidError,
    NotAcceptableError,
    NotJsonError,
    TooLargeError,
    UnsupportedMediaError,
)
from service.http.requests import TAGS

JSON, NPZ = "application/json", "application/x-npz"
_Body = TypeVar("_Body", bound=BaseModel)
_NAME = regex.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_DRAIN = 16 << 20
"""How much of a body that is too large is read and thrown away before it is refused: a client that
is still sending when the connection closes never sees the answer."""


def accepted(*offered: str) -> str:
    """Which of the offered types the client likes best; raise NotAcceptableError for none."""
    best = request.accept_mimetypes.best_match(offered)
    if best is None and request.accept_mimetypes.provided:
        raise NotAcceptableError
    return best or offered[0]


def read_body(schema: type[_Body]) -> _Body:
    """Parse and check the body.

    Raises UnsupportedMediaError, TooLargeError, NotJsonError or InvalidError.
    """
    if request.mimetype != JSON:
        raise UnsupportedMediaError
    if request.content_encoding not in {None, "", "identity"}:
        raise UnsupportedMediaError("The body has a Content-Encoding, and none is understood.")
    try:
        return schema.model_validate(orjson.loads(_bytes()))
    except orjson.JSONDecodeError:
        raise NotJsonError from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    raise InvalidError([FieldError(_pointer(one), _message(one)) for one in found[:MOST_ERRORS]])


def _bytes() -> bytes:
    """The body, whole.

    Raises NotJsonError where it ends too soon or its chunks are not well-formed, TooLargeError,
    having read some more, where it is over the limit.
    """
    try:
        return _whole()
    except TooLargeError:
        raise
    except Exception:  # noqa: BLE001 - each server has its own exceptions for a body that breaks off
        raise NotJsonError("The body breaks off or is not well-formed HTTP.") from None


def _whole() -> bytes:
    limit = current_app.config["MAX_CONTENT_LENGTH"]
    declared = request.content_length
    if declared is None and request.environ.get("wsgi.input_terminated"):
        # In chunks. Werkzeug would cut the body at its limit without a word.
        body = b"".join(_raw(limit + 1))
    else:
        body = b"" if declared and declared > limit else request.get_data(cache=False)
    if len(body) > limit or (declared and declared > limit):
        for _ in _raw(limit + _DRAIN):
            pass
        size = declared or f"more than {limit}"
        raise TooLargeError("The body has too many bytes", size, "max_body_bytes", limit)
    return body


def _raw(most: int) -> Iterator[bytes]:
    """Yield the raw body up to a number of bytes."""
    stream = request.environ["wsgi.input"]
    while most > 0 and (chunk := stream.read(min(most, 1 << 16))):
        most -= len(chunk)
        yield chunk


def _pointer(error: ErrorDetails) -> str:
    """The JSON pointer of an error; it ends before a name that is not one a field could have."""
    pointer = ""
    for part in error["loc"]:
        if isinstance(part, str) and part in TAGS and error["loc"][0] in {"input", "layers"}:
            continue
        if isinstance(part, str) and not _NAME.fullmatch(part):
            break
        pointer += f"/{part}"
    return pointer


def _message(error: Any) -> str:
    """Pydantic's sentence, which names what is allowed and not what was sent."""
    return str(error["msg"]).removeprefix("Value error, ")
