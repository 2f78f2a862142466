"""Writing an answer to HTTP: whole, or as it is made."""

import errno
from collections.abc import Iterator
from typing import Any

import orjson
from flask import Response, request

from polyseme.encoding.chunks import chunks
from polyseme.encoding.limits import Limits
from polyseme.http.problems import log_fault
from polyseme.http.reading import JSON


def json_response(document: Any) -> Response:
    """Write a document; its arrays are finite and C-contiguous."""
    return Response(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), content_type=JSON)


def unless_kept(response: Response) -> Response:
    """Send a file, or 304 where the client has kept it.

    Its parts are not offered: a range that is not there would be a 416, a wish that cannot be met
    a 412, and neither is an error of the contract.
    """
    names = ("REQUEST_METHOD", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
    asked = {name: request.environ[name] for name in names if name in request.environ}
    response.make_conditional(asked)
    return response


def limited(response: Response, limits: Limits) -> Response:
    """Return the answer; raise TooLargeError where it is over the limit in spite of estimates."""
    limits.answer_bytes(len(response.get_data()))
    return response


def whole(pieces: Iterator[bytes], content_type: str, limits: Limits) -> Response:
    """Make the whole answer and send it; raise TooLargeError where it is over the limit.

    Its chunks are not joined: a second copy of some megabytes costs more than to send them singly.
    """
    made = list(chunks(pieces))
    size = sum(map(len, made))
    limits.answer_bytes(size)
    response = Response(_given_up(made), content_type=content_type)
    response.content_length = size
    return response


def _given_up(made: list[bytes]) -> Iterator[bytes]:
    """Pass chunks on without keeping them: a client that reads slowly has few left to wait for."""
    made.reverse()
    while made:
        yield made.pop()


def streamed(pieces: Iterator[bytes], content_type: str, request_id: str) -> Response:
    """Send an answer as it is made.

    Its beginning is made now, so that what fails at once is an error like all others.
    """
    made = chunks(pieces)
    return Response(_sent(next(made), made, request_id), content_type=content_type)


def _sent(first: bytes, rest: Iterator[bytes], request_id: str) -> Iterator[bytes]:
    """Pass chunks on, the last of them only where all went well.

    The client is told of a fault by the connection: as after a broken one, gunicorn closes it,
    without the mark that ends an answer.
    """
    yield first
    try:
        yield from rest
    except Exception as error:  # noqa: BLE001 - whatever it is, the answer has begun
        log_fault(error, "the middle of the answer to request", request_id)
        raise BrokenPipeError(errno.EPIPE, "the answer is broken off") from None
