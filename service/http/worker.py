"""Gunicorn's threaded worker, whose own errors are problems like all others."""

import uuid
from http import HTTPStatus
from typing import Any

import orjson
from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from service.errors import MalformedError, PolysemeError
from service.http.problems import problem_document


class Worker(ThreadWorker):  # type: ignore[misc]
    """Answers what is not well-formed HTTP with a problem instead of a page.

    Gunicorn's page repeats what the client sent, and has neither request id nor code.
    """

    def handle_error(self, _req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that could not be read; gunicorn closes the connection then."""
        self.log.warning("%s from %s", type(exc).__name__, addr[0] if addr else "a local socket")
        unread = type(exc).__module__.startswith("gunicorn.http")
        error = MalformedError() if unread else PolysemeError()
        request_id = uuid.uuid4().hex
        body = orjson.dumps(problem_document(error, request_id))
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nConnection: close\r\n"
            f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
            f"X-Request-ID: {request_id}\r\nServer-Timing: total;dur=0\r\n\r\n"
        )
        try:
            util.write_nonblock(client, head.encode("ascii") + body)
        except OSError:
            self.log.debug("the client is gone")
