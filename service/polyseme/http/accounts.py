"""What is known of a request when it is over: for the log, the metrics and the traces.

Nothing of the caller's text is in it: a route is its rule, a method one of those that are known.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

from flask import Flask, Response, current_app, g, request

from polyseme.encoding.counts import Counts
from polyseme.encoding.stages import Stages

PLACE = "polyseme.account"
"""Where the account of a request is in its WSGI environment."""
UNMATCHED = "unmatched"
"""The route of a request that no route matches."""
QUIET = frozenset({"/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
"""Routes that machines ask all the time."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Account:
    """One request."""

    def __init__(self, request_id: str, stages: Stages, started: float) -> None:
        self.request_id, self.stages, self.started = request_id, stages, started
        self.route, self.method, self.address = UNMATCHED, "other", ""
        self.status = 0
        self.code: str | None = None
        """of the problem that was the answer"""
        self.model: str | None = None
        self.counts: Counts | None = None
        self.caller: str | None = None
        """the name of the key"""
        self.span: Any = None
        """of its trace, where it is traced"""
        self.trace_id: str | None = None
        self.offset = 0
        """nanoseconds from the clock that stages are taken with to the time since 1970"""
        self.bytes = 0
        """of the answer, without its headers"""
        self.seconds = 0.0
        """until the answer was sent, or given up"""

    def add(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Count the bytes of an answer that is sent as it is made."""
        for piece in pieces:
            self.bytes += len(piece)
            yield piece


Closer: TypeAlias = Callable[[Account], None]


def init_app(app: Flask) -> None:
    """Open an account of each request, and close it when its answer is sent."""
    app.extensions["polyseme-closers"] = []
    app.before_request(_open)
    app.after_request(_enter)


def at_the_end(app: Flask, closer: Closer) -> None:
    """Do something with every account when its answer is sent; the last to come is the first."""
    app.extensions["polyseme-closers"].insert(0, closer)


def _open() -> None:
    account = Account(g.request_id, g.stages, g.started)
    account.route = request.url_rule.rule if request.url_rule else UNMATCHED
    account.method = request.method if request.method in _METHODS else "other"
    g.account = request.environ[PLACE] = account


def _enter(response: Response) -> Response:
    """Enter what the answer tells. An answer without a length is counted as it is sent."""
    account: Account = g.account
    account.status = response.status_code
    account.code = g.get("code")
    account.caller = g.get("caller")
    account.address = request.remote_addr or ""
    if request.method != "HEAD":
        length = response.content_length
        if length is None and response.is_sequence:  # else it would be made whole to be measured
            length = response.calculate_content_length()
        account.bytes = length or 0
        if length is None:
            response.response = account.add(response.iter_encoded())
    response.call_on_close(partial(_close, account, current_app.extensions["polyseme-closers"]))
    return response


def _close(account: Account, closers: list[Closer]) -> None:
    account.seconds = time.perf_counter() - account.started
    for closer in closers:
        closer(account)
