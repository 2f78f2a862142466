"""Hostile requests, reproducible from a seed, and the check that responses fit the contract."""

import io
import math
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import h11
import numpy as np
import orjson

from polyseme.errors import PolysemeError
from tests.conftest import ROOT
from tests.http.hostile_bodies import (
    BODY_MAKERS,
    LARGE,
    MARK,
    TENSORS,
    VALUES,
    Hostile,
    posted,
)
from tests.http.hostile_http import FRAMING, LINES, PATH_MAKERS

KINDS = {
    maker.__name__: maker
    for maker in (*VALUES, *BODY_MAKERS, *PATH_MAKERS, *FRAMING, *LINES, *TENSORS)
}
RARE = {maker.__name__: maker for maker in LARGE}
"""Requests of megabytes, or as expensive for the service as hundreds of others."""
RARITY = 400
"""One in this many requests is a rare one."""


def hostile(seed: int, number: int) -> Hostile:
    """Return a request. The kinds take turns, also those of rare requests."""
    rng = Random(f"{seed} {number}")
    if number % RARITY == 0:
        kinds, turn = RARE, number // RARITY
    else:
        kinds, turn = KINDS, number
    name = list(kinds)[turn % len(kinds)]
    return kinds[name](rng)._replace(kind=name)


PROBLEM = "application/problem+json"
_MEMBERS = {"type": str, "title": str, "status": int, "detail": str, "code": str, "hint": str}
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_STAGE = re.compile(r"[a-z_]+;dur=(\d+(?:\.\d+)?)")
_POINTER = re.compile(r"(/(\d{1,9}|[A-Za-z_][A-Za-z0-9_]{0,31}))*")
_INTERNALS = re.compile(
    rb"Traceback|\.py\b|File \\?\"|site-packages|/proc/|/home/|/root/|/tmp/|"
    + re.escape(str(ROOT).encode())
)
_SUCCESSES = {200, 204, 206, 304}


def _codes(error: type[PolysemeError] = PolysemeError) -> set[tuple[int, str]]:
    subclasses = [_codes(one) for one in error.__subclasses__()]
    return {(error.status, error.code)}.union(*subclasses)


CODES = _codes()
"""Every status and code of an error."""


class Response(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Reader:
    """Reads the responses of a connection; raises h11.RemoteProtocolError if they are not HTTP."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 17)

    def expect(self, method: str = "GET") -> None:
        """Begin the next response."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        self._http.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        self._http.send(h11.EndOfMessage())
        self._head: h11.Response | None = None
        self._body: list[bytes] = []

    def feed(self, received: bytes) -> Response | None:
        """Take received bytes, `b""` for the end; return the response once it is complete."""
        self._http.receive_data(received)
        return self._next()

    def _next(self) -> Response | None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return self._response()
            elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed | h11.PAUSED):
                return None

    def _response(self) -> Response:
        assert self._head is not None
        names = [name.decode().lower() for name, _ in self._head.headers]
        assert len(set(names)) == len(names), f"repeated headers: {names}"
        values = [value.decode("ascii") for _, value in self._head.headers]
        headers = dict(zip(names, values, strict=True))
        return Response(self._head.status_code, headers, b"".join(self._body))

    @property
    def begun(self) -> bool:
        """Whether a part of a response has arrived."""
        return self._head is not None or bool(self.left)

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self._http.their_state is h11.DONE and self._http.our_state is h11.DONE

    @property
    def left(self) -> bytes:
        """The bytes after the response."""
        return self._http.trailing_data[0]


def all_responses(received: bytes, *, head: bool = False) -> list[Response]:
    """Every response in the bytes of a connection."""
    found = []
    while received:
        reader = Reader()
        reader.expect("HEAD" if head else "GET")
        response = reader.feed(received) or reader.feed(b"")
        assert response is not None, "an incomplete response"
        found.append(response)
        received = reader.left
    return found


def violation(response: Response, *, head: bool = False) -> str | None:
    """The violation of the contract by a response, or None."""
    try:
        _check_headers(response)
        if response.status in _SUCCESSES:
            if not head:
                _check_success(response)
        else:
            assert response.status < 500 or response.status == 503, f"status {response.status}"
            assert response.kind == PROBLEM, f"{response.status} as {response.kind!r}"
            if not head:
                _check_problem(response)
    except (AssertionError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _check_headers(response: Response) -> None:
    sent_id = response.headers["x-request-id"]
    assert _REQUEST_ID.fullmatch(sent_id), f"request id {sent_id!r}"
    for stage in response.headers["server-timing"].split(", "):
        found = _STAGE.fullmatch(stage)
        assert found and math.isfinite(float(found[1])), f"stage {stage!r}"
    others = [value for name, value in response.headers.items() if name != "x-request-id"]
    assert not any(MARK in value.lower() for value in others), "a header repeats the request"
    if response.status in {429, 503}:
        assert int(response.headers["retry-after"]) >= 1


def _check_success(response: Response) -> None:
    if response.kind == "application/json":
        orjson.loads(response.body)
    elif response.kind == "application/x-ndjson":
        assert all(map(_valid_line, response.body.splitlines()))
    elif response.kind == "application/x-npz":
        with np.load(io.BytesIO(response.body), allow_pickle=False) as arrays:
            assert all(np.isfinite(arrays[name]).all() for name in arrays)
    elif response.kind == "application/octet-stream":
        _check_tensors(response)


def _valid_line(line: bytes) -> bool:
    document = orjson.loads(line)
    return document.keys() >= {"tokens", "truncated"} or "complete" in document


def _check_tensors(response: Response) -> None:
    length = int(response.headers["inference-header-content-length"])
    outputs = orjson.loads(response.body[:length])["outputs"]
    sizes = [one.get("parameters", {}).get("binary_data_size", 0) for one in outputs]
    assert length + sum(sizes) == len(response.body), "bytes that no tensor has"


def _check_problem(response: Response) -> None:
    document = orjson.loads(response.body)
    for member, kind in _MEMBERS.items():
        assert type(document[member]) is kind, f"{member}: {document[member]!r}"
    assert document["status"] == response.status
    assert (response.status, document["code"]) in CODES, document["code"]
    assert document["type"] == f"urn:polyseme:error:{document['code']}"
    assert document["request_id"] == response.headers["x-request-id"]
    assert document["detail"].endswith(".") and document["hint"].endswith(".")
    if response.status == 422:
        assert all({"pointer", "message"} == set(one) for one in document["errors"])
    text = response.body.replace(document["request_id"].encode(), b"")
    for one in document.get("errors", ()):
        # A pointer may name an unknown field of the request, but only a plain name.
        assert _POINTER.fullmatch(one["pointer"]), one["pointer"]
        text = text.replace(b'"pointer":"%b"' % one["pointer"].encode(), b"")
    if isinstance(document.get("error"), dict) and document["error"]["param"]:
        # OpenAI's format repeats the first pointer in `param` and at the start of `message`.
        parameter = document["error"]["param"]
        first = document["errors"][0]["pointer"]
        assert re.split(r"\W+", parameter.rstrip("]")) == first.split("/")[1:]
        text = text.replace(b'"param":"%b"' % parameter.encode(), b"")
        text = text.replace(b'"message":"`%b`' % parameter.encode(), b"")
    if isinstance(document.get("error"), str) and document.get("errors"):
        # The Open Inference Protocol's format repeats it at the start of `error`.
        parameter = re.match(r"`([^`]*)`", document["error"])
        if parameter:
            first = document["errors"][0]["pointer"]
            assert re.split(r"\W+", parameter[1].rstrip("]")) == first.split("/")[1:]
            text = text.replace(b'"error":"%b' % parameter[0].encode(), b"")
    assert not _INTERNALS.search(text), "a path or a traceback"
    assert document["code"] == "unknown_word" or MARK.encode() not in text.lower(), "an echo"


WAIT = 60
THREADS = 4
_INTERVAL = 250
"""Number of hostile requests of a thread between two ordinary ones."""
_IDLE = 1.0
"""Seconds after which an idle connection is replaced: the service closes connections that are idle
for longer, and a request sent at that moment is lost."""
_MAX_FAULTS = 20
ORDINARY = posted("/v1/encode", b'{"input": "the bank of the river", "include": ["contextual"]}')
Address = tuple[str, int]


@dataclass
class Outcome:
    """The results of some requests."""

    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    """by status, and `ended` if the connection ended without a response"""
    kinds: Counter[str] = field(default_factory=Counter)
    """by kind and status"""
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.sent += other.sent
        self.statuses += other.statuses
        self.kinds += other.kinds
        self.faults += other.faults


def exchange(address: Address, sent: bytes, *, head: bool = False) -> list[Response]:
    """Send on a new connection, close the sending side, and read to the end."""
    received = []
    with socket.create_connection(address, WAIT) as connection:
        # A refusing service may close before all is sent; its response is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 18):
                received.append(chunk)
    return all_responses(b"".join(received), head=head)


class KeepAliveConnection:
    """A connection that is replaced after its end or when it has been idle."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._answered = 0.0

    def ask(self, sent: bytes, *, head: bool = False) -> list[Response]:
        """Send a request; return a list of its response, empty if the connection ended without."""
        if time.monotonic() > self._answered + _IDLE:
            self.close()
        try:
            response = self._ask(sent, head=head)
        except (BrokenPipeError, ConnectionResetError, h11.RemoteProtocolError):
            if self._reader.begun:
                raise
            response = None
        if response is None or not self._reader.reusable:
            self.close()
        self._answered = time.monotonic()
        return [response] if response else []

    def _ask(self, sent: bytes, *, head: bool) -> Response | None:
        if self._socket is None:
            self._socket, self._reader = socket.create_connection(self._address, WAIT), Reader()
        self._reader.expect("HEAD" if head else "GET")
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(sent)
        while True:
            chunk = self._socket.recv(1 << 18)
            response = self._reader.feed(chunk)
            if response or not chunk:
                return response

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def send(address: Address, seed: int, numbers: Iterable[int]) -> Outcome:
    """Send the requests of some numbers one by one, with ordinary ones in between."""
    outcome, connection = Outcome(), KeepAliveConnection(address)
    (expected,) = exchange(address, ORDINARY)
    for count, number in enumerate(numbers):
        one = hostile(seed, number)
        for fault in _faults(connection, address, one, outcome):
            outcome.faults.append(f"number {number}, {one.kind}: {fault}: {one.sent[:300]!r}")
        outcome.sent += 1
        if count % _INTERVAL == 0:
            bodies = [response.body for response in exchange(address, ORDINARY)]
            if bodies != [expected.body]:
                outcome.faults.append(f"after number {number}: another ordinary response")
        if len(outcome.faults) > _MAX_FAULTS:
            break
    connection.close()
    return outcome


def _faults(
    connection: KeepAliveConnection, address: Address, one: Hostile, outcome: Outcome
) -> Iterator[str]:
    try:
        if one.kept:
            responses = connection.ask(one.sent, head=one.head)
        else:
            responses = exchange(address, one.sent, head=one.head)
    except (OSError, h11.RemoteProtocolError, AssertionError) as error:
        yield f"{type(error).__name__}: {error}"
        connection.close()
        return
    statuses = [str(response.status) for response in responses] or ["ended"]
    outcome.statuses.update(statuses)
    outcome.kinds.update(f"{one.kind} {status}" for status in statuses)
    if one.kept and not responses:
        yield "no response to a request that is well-formed HTTP"
    if len(responses) > one.max_responses:
        yield f"{len(responses)} responses"
    yield from filter(None, (violation(response, head=one.head) for response in responses))


def send_all(address: Address, seed: int, numbers: Sequence[int]) -> Outcome:
    """Send the requests of some numbers from several threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [numbers[first::THREADS] for first in range(THREADS)]
        outcomes = list(pool.map(lambda part: send(address, seed, part), parts))
    total = Outcome()
    for outcome in outcomes:
        total.add(outcome)
    return total
