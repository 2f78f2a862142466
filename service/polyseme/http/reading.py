"""Reading a request: what it is declared as, what it accepts, and what its body says."""

import io
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import orjson
import regex
from flask import current_app, request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header, parse_options_header

from polyseme.encoding.limits import Limits
from polyseme.errors import (
    MOST_ERRORS,
    FieldError,
    InvalidError,
    NotAcceptableError,
    NotJsonError,
    TooLargeError,
    UnsupportedMediaError,
)
from polyseme.http.requests import TAGS, of_query

JSON, NDJSON, NPZ = "application/json", "application/x-ndjson", "application/x-npz"
BINARY = "application/octet-stream"
_Body = TypeVar("_Body", bound=BaseModel)
_NAME = regex.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_SIZE = regex.compile(r"[0-9]{1,15}")
_ALTERNATIVES = frozenset({"input", "layers", "data"})
"""Fields that may be one thing or another."""
_LARGEST = (1 << 53) - 1
"""The largest size that is repeated: what every reader of JSON has exactly."""


def accepted(*offered: str) -> str:
    """Which of the offered types the client likes best; raise NotAcceptableError for none."""
    sent = request.environ.get("HTTP_ACCEPT", "")
    best = _best(sent, offered)
    if best is None and sent:
        raise NotAcceptableError
    return best or offered[0]


# Clients send the same few headers again and again, and werkzeug parses them at some length.
@lru_cache(256)
def _best(sent: str, offered: tuple[str, ...]) -> str | None:
    return parse_accept_header(sent, MIMEAccept).best_match(offered)


def declares(media: str) -> bool:
    """Whether the body is declared as a type."""
    return _declared(request.environ.get("CONTENT_TYPE", "")) == media


@lru_cache(256)
def _declared(sent: str) -> str:
    return parse_options_header(sent)[0].lower()


def read_body(schema: type[_Body]) -> _Body:
    """Parse and check the body.

    Raises UnsupportedMediaError, TooLargeError, NotJsonError or InvalidError.
    """
    if not declares(JSON):
        raise UnsupportedMediaError
    return _checked(schema, _parsed(_content()))


def read_lines(schema: type[_Body]) -> _Body:
    """Parse and check a body whose lines are the entries of `input`; the query has the rest.

    Raises as `read_body` does. Pointers are those of the same request in JSON.
    """
    content = _content().rstrip(b" \t\r\n")
    limits: Limits = current_app.extensions["polyseme-limits"]
    limits.sentences(content.count(b"\n") + 1)
    lines = io.BytesIO(content)
    fields = {name: of_query(name, sent) for name, sent in request.args.lists()}
    if "input" in fields:
        raise InvalidError([FieldError("/input", "its entries are the lines of the body")])
    return _checked(schema, {**fields, "input": [_parsed(line) for line in lines]})


def read_headed(schema: type[_Body], header: str) -> tuple[_Body, bytes]:
    """Parse and check a body that goes on after its JSON, where a header says how long that is.

    Clients of the protocol that has such bodies declare them as bytes, or as nothing. Raises as
    `read_body` does.
    """
    if _declared(request.environ.get("CONTENT_TYPE", "")) not in {"", JSON, BINARY}:
        hint = f"Send the header `Content-Type: {JSON}`, or `{BINARY}` where bytes follow the JSON."
        raise UnsupportedMediaError(f"The Content-Type header is not {JSON} or {BINARY}.", hint)
    content = _content()
    said = request.headers.get(header, str(len(content)))
    if not _SIZE.fullmatch(said) or int(said) > len(content):
        hint = "Leave the header out where no bytes follow the JSON."
        raise NotJsonError(f"The header {header} is not a number of bytes that the body has.", hint)
    return _checked(schema, _parsed(content[: int(said)])), content[int(said) :]


def _content() -> bytes:
    """The body; raise UnsupportedMediaError where it is encoded."""
    if request.environ.get("HTTP_CONTENT_ENCODING", "") not in {"", "identity"}:
        raise UnsupportedMediaError("The body has a Content-Encoding, and none is understood.")
    return _bytes()


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NotJsonError from None


def _checked(schema: type[_Body], value: Any) -> _Body:
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    raise InvalidError([FieldError(_pointer(one), _message(one)) for one in found[:MOST_ERRORS]])


def _bytes() -> bytes:
    """The body, whole.

    Raises NotJsonError where it ends too soon or its chunks are not well-formed, TooLargeError
    where it is over the limit.
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
    if declared is None:
        # In chunks, of which the server sees the end; other servers give nothing without a length.
        body = b"".join(_raw(limit + 1 if request.environ.get("wsgi.input_terminated") else 0))
    else:
        body = b"".join(_raw(declared if declared <= limit else 0))
        if len(body) < declared <= limit:
            raise EOFError
    if len(body) > limit or (declared and declared > limit):
        size = declared if declared and declared <= _LARGEST else f"more than {limit}"
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
    for before, part in pairwise(("", *error["loc"])):
        if isinstance(part, str) and part in TAGS and before in _ALTERNATIVES:
            continue
        if isinstance(part, str) and not _NAME.fullmatch(part):
            break
        pointer += f"/{part}"
    return pointer


def _message(error: Any) -> str:
    """Pydantic's sentence, which names what is allowed and not what was sent."""
    return str(error["msg"]).removeprefix("Value error, ")
