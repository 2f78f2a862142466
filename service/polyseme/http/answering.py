"""Answering one request on a connection, with a pause wherever the client has to read first."""

import secrets
import time
from collections.abc import Callable, Generator
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import orjson
from gunicorn.http import wsgi

from polyseme.errors import PolysemeError
from polyseme.http.connection import Connection
from polyseme.http.dialects import inference, openai
from polyseme.http.headers import SECURITY_HEADERS
from polyseme.http.problems import problem_document


def answering(
    worker: Any,
    connection: Connection,
    closes: Callable[[], bool],
    over: Callable[[Connection], bool],
) -> Generator[None, None, bool]:
    """Answer a request; say at the end whether the connection can be kept.

    It pauses while the client does not read, and where its turn is `over`; whoever goes on with it
    may be another thread. `closes` says whether the connection ends with this answer.
    """
    whole = connection.feed()
    request = next(connection.parser, None)
    if request is None:
        return False
    request._expected_100_continue = False  # the loop has told the client  # noqa: SLF001
    started = time.monotonic()
    response, environ = wsgi.create(
        request, connection, connection.client, connection.server, worker.cfg
    )
    environ["wsgi.multithread"] = True
    made = worker.wsgi(environ, response.start_response)
    # Asked late: the worker may have begun to leave while most of the answer was computed.
    if not whole or closes():
        response.force_close()
    connection.due = response.response_length or 0
    try:
        for piece in made:
            response.write(piece)
            # One that is made already is better sent than held behind others.
            if not connection.flush() or (not connection.due and over(connection)):
                yield
        response.close()
        while not connection.flush():
            yield
    except (GeneratorExit, OSError):
        environ["polyseme.cut"] = True
        raise
    finally:
        took = timedelta(seconds=time.monotonic() - started)
        worker.log.access(response, request, environ, took)
        made.close()
    return not response.should_close() and connection.parser.finish_body() and connection.clean


def refusal(error: PolysemeError, request_id: str = "", received: bytes = b"") -> bytes:
    """The whole answer to what no route has seen; the connection ends with it.

    It may have been meant for any, so that OpenAI's `error` is there, unless what was received
    begins as a request of the Open Inference Protocol, whose clients break at all but a text.
    """
    told = inference if received.partition(b" ")[2].startswith(b"/v2/") else openai
    request_id = request_id or secrets.token_hex(16)
    body = orjson.dumps(problem_document(error, request_id) | told(error))
    fields = {
        "Connection": "close",
        "Content-Type": "application/problem+json",
        "Content-Length": str(len(body)),
        "X-Request-ID": request_id,
        "Server-Timing": "total;dur=0",
        **error.headers(),
        **SECURITY_HEADERS,
    }
    head = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body
