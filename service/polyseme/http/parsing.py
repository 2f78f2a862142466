"""Request parsing: media types and bodies."""

import io
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import orjson
import regex
from flask import current_app, request
from pydantic import BaseModel, ValidationError
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header
from werkzeug.wsgi import get_content_length

from polyseme.errors import (
    FieldError,
    InvalidError,
    NotAcceptableError,
    NotJsonError,
    PolysemeError,
    TooLargeError,
    UnsupportedMediaError,
)
from polyseme.http.middleware import CONTEXT
from polyseme.operations.schema import invalid_fields

JSON, NDJSON, NPZ = "application/json", "application/x-ndjson", "application/x-npz"
_Body = TypeVar("_Body", bound=BaseModel)
_NUMBER = regex.compile(r"-?[0-9]{1,9}")
_DECIMAL = regex.compile(r"[0-9]{1,9}(?:\.[0-9]{1,18})?")
_MAX_ACCEPT = 1024
"""Maximum length of an Accept header; browsers send about 130 characters."""
_SMALL_BODY = 1 << 20
"""A larger body takes long to parse, so its request needs a permit for long requests."""
_LARGEST = (1 << 53) - 1
"""The largest declared size that an error reports: JSON parsers represent it exactly."""


# Cached, because few different headers are sent.
@lru_cache(256)
def negotiate_media_type(sent: str | None, *offered: str) -> str:
    """Return the offered media type that an Accept header prefers; the first without a header.

    Parameters of the types, such as `charset`, are ignored. Raises NotAcceptableError if the client
    accepts none of them.
    """
    if not sent:
        return offered[0]
    if len(sent) > _MAX_ACCEPT:
        raise NotAcceptableError
    # Java's HttpURLConnection sends `*; q=.2, */*; q=.2`, which is not in the grammar of RFC 9110.
    accepted = parse_accept_header(sent.replace("q=.", "q=0."), MIMEAccept)
    kinds = [(value.partition(";")[0].strip(), quality) for value, quality in accepted]
    best = MIMEAccept(kinds).best_match(offered)
    if best is None:
        raise NotAcceptableError
    return best


def read_json(schema: type[_Body]) -> _Body:
    """Parse and validate a JSON body.

    Raises UnsupportedMediaError, TooLargeError, NotJsonError or InvalidError.
    """
    if request.mimetype != JSON:
        raise UnsupportedMediaError
    return validate_json(schema, read_body())


def read_ndjson(schema: type[_Body], check_lines: Callable[[int], None]) -> _Body:
    """Parse and validate an NDJSON body of entries of `input`, with other fields in the query.

    `check_lines` raises TooLargeError for too many lines; other errors are those of `read_json`.
    Paths of errors are the same as for a JSON body.
    """
    content = read_body(query=True).removeprefix(BOM_UTF8).rstrip(b" \t\r\n")
    check_lines(content.count(b"\n") + 1)
    fields = {name: parse_query_value(schema, name, sent) for name, sent in request.args.lists()}
    if "input" in fields:
        raise InvalidError([FieldError(("input",), "must be in the body, one entry per line")])
    entries = []
    for row, line in enumerate(io.BytesIO(content), 1):
        try:
            entries.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise NotJsonError(_not_json(f"Line {row} of the body", line, error)) from None
    try:
        return schema.model_validate({**fields, "input": entries})
    except ValidationError as error:
        raise invalid_fields(schema, error) from None


def parse_query_value(schema: type[BaseModel], name: str, sent: Sequence[str]) -> Any:
    """Convert a query parameter to the JSON value of a field; commas separate list items.

    Invalid values are not rejected here but by validation.
    """
    if name in {"include", "layers"}:
        texts = ",".join(sent).split(",") if any(sent) else []
        parts = [int(text) if _NUMBER.fullmatch(text) else text for text in texts]
        named = name == "layers" and len(parts) == 1 and isinstance(parts[0], str)
        return parts[0] if named else parts
    value = sent[0] if len(sent) == 1 else list(sent)
    if name == "share" and isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    field = schema.model_fields.get(name)
    flag = field is not None and field.annotation is bool and value in ("true", "false")
    return value == "true" if flag else value


def read_body(*, query: bool = False) -> bytes:
    """Return the whole body; raise UnsupportedMediaError, NotJsonError or TooLargeError.

    Raises InvalidError for a query string, unless `query` says that the request may have one.
    """
    if request.environ.get("QUERY_STRING") and not query:
        error = FieldError((), "has a query string, which is not read")
        hint = f"Send all fields in the body. /v1/encode reads the query of {NDJSON} bodies only."
        raise InvalidError([error], hint)
    environ = request.environ
    if environ.get("HTTP_CONTENT_ENCODING", "") not in {"", "identity"}:
        raise UnsupportedMediaError("The body has a Content-Encoding; none is supported.")
    limit: int = current_app.config["MAX_CONTENT_LENGTH"]
    declared = get_content_length(environ)
    most = limit + 1 if declared is None else declared
    # A chunked body declares no length; with `wsgi.input_terminated`, the server detects its end.
    readable = environ.get("wsgi.input_terminated") if declared is None else declared <= limit
    try:
        body: bytes = environ["wsgi.input"].read(most) if readable else b""
    except PolysemeError:  # of the budget
        raise
    except Exception:  # noqa: BLE001 - each server has its own exceptions for a broken body
        raise NotJsonError("The body is incomplete or not well-formed HTTP.") from None
    if len(body) > limit or (declared or 0) > limit:
        # Read the rest: a client that is still sending would miss the response.
        rest = min(declared or limit, 4 * limit)
        with suppress(Exception):
            while rest > 0 and (read := len(environ["wsgi.input"].read(min(rest, 1 << 16)))):
                rest -= read
        size = declared if declared and declared <= _LARGEST else f"more than {limit}"
        raise TooLargeError("The body has too many bytes", size, "max_body_bytes", limit)
    if declared is not None and len(body) < declared:
        raise NotJsonError("The body is incomplete or not well-formed HTTP.")
    budget = environ[CONTEXT].budget
    budget.is_received = True
    if len(body) > _SMALL_BODY:
        budget.take_permit()
    return body


def _not_json(what: str, text: bytes, error: orjson.JSONDecodeError) -> str:
    """Return why a text is not JSON, with the position and without any part of the text."""
    if not text.strip():
        return f"{what} is empty."
    try:
        text.decode()
    except UnicodeDecodeError as invalid:
        return f"{what} is not UTF-8 at byte {invalid.start}."
    if error.msg.startswith("depth limit"):
        return f"{what} is nested too deeply."
    line = "" if what.startswith("Line") else f"line {error.lineno}, "
    return f"{what} is not well-formed JSON at {line}column {error.colno}."


def validate_json(schema: type[_Body], content: bytes) -> _Body:
    """Return a valid body; raise NotJsonError or InvalidError.

    orjson parses it, because pydantic's parser would describe each of a million unknown fields.
    """
    try:
        document = orjson.loads(content.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as error:
        raise NotJsonError(_not_json("The body", content, error)) from None
    try:
        return schema.model_validate(document)
    except ValidationError as error:
        raise invalid_fields(schema, error) from None
