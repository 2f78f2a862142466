"""Reading a request: what it is declared as, what it accepts, and what its body says."""

from typing import Any, TypeVar

import regex
from flask import request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from werkzeug.exceptions import RequestEntityTooLarge

from service.errors import (
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
_DRAIN = 4
"""How many times the largest body is read and thrown away before a refusal is sent: a client that
is still sending when the connection closes may never see the answer."""


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
    if request.mimetype != JSON or request.content_encoding not in {None, "", "identity"}:
        raise UnsupportedMediaError
    try:
        return schema.model_validate_json(_bytes())
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=True)
    if any(one["type"] == "json_invalid" for one in found):
        raise NotJsonError
    raise InvalidError([FieldError(_pointer(one), _message(one)) for one in found[:100]])


def _bytes() -> bytes:
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge:
        limit = request.max_content_length or 0
        size = request.content_length or f"more than {limit}"
        _drain(limit * _DRAIN)
        raise TooLargeError("The body has too many bytes", size, "max_body_bytes", limit) from None


def _drain(most: int) -> None:
    stream = request.environ["wsgi.input"]
    while most > 0 and (chunk := stream.read(min(most, 1 << 16))):
        most -= len(chunk)


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
