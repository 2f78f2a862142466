"""Sends hostile requests from several threads, and checks every response by the contract."""

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
from typing import NamedTuple

import h11
import numpy as np
import orjson

from polyseme.errors import PolysemeError
from tests.conftest import ROOT
from tests.server.hostile import Hostile, hostile
from tests.server.hostile_bodies import MARK, posted

PROBLEM = "application/problem+json"
_MEMBERS = {"type": str, "title": str, "status": int, "detail": str, "code": str, "hint": str}
_SANE = re.compile(r"[A-Za-z0-9._-]{1,128}")
_STAGE = re.compile(r"[a-z_]+;dur=(\d+(?:\.\d+)?)")
_POINTER = re.compile(r"(/(\d{1,9}|[A-Za-z_][A-Za-z0-9_]{0,31}))*")
_INSIDE = re.compile(
    rb"Traceback|\.py\b|File \\?\"|site-packages|/proc/|/home/|/root/|/tmp/|"
    + re.escape(str(ROOT).encode())
)
_ORDINARY = {200, 204, 206, 304}


def _codes(error: type[PolysemeError] = PolysemeError) -> set[tuple[int, str]]:
    below = [_codes(one) for one in error.__subclasses__()]
    return {(error.status, error.code)}.union(*below)


CODES = _codes()


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Reader:
    """Reads the answers of a connection; raises h11.RemoteProtocolError where they are no HTTP."""

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

    def feed(self, received: bytes) -> Answer | None:
        """Take received bytes, `b""` for the end; return the response once it is complete."""
        self._http.receive_data(received)
        return self.next()

    def next(self) -> Answer | None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return self._whole()
            elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed | h11.PAUSED):
                return None

    def _whole(self) -> Answer:
        assert self._head is not None
        names = [name.decode().lower() for name, _ in self._head.headers]
        assert len(set(names)) == len(names), f"headers that are there twice: {names}"
        values = [value.decode("ascii") for _, value in self._head.headers]
        headers = dict(zip(names, values, strict=True))
        return Answer(self._head.status_code, headers, b"".join(self._body))

    @property
    def begun(self) -> bool:
        """Whether a part of a response has arrived."""
        return self._head is not None or bool(self.left)

    @property
    def going_on(self) -> bool:
        """Whether the connection has room for another request."""
        return self._http.their_state is h11.DONE and self._http.our_state is h11.DONE

    @property
    def left(self) -> bytes:
        """The bytes after the response."""
        return self._http.trailing_data[0]


def all_answers(received: bytes, *, head: bool = False) -> list[Answer]:
    """Every response in the bytes of a connection."""
    found = []
    while received:
        reader = Reader()
        reader.expect("HEAD" if head else "GET")
        answer = reader.feed(received) or reader.feed(b"")
        assert answer is not None, "an answer that breaks off"
        found.append(answer)
        received = reader.left
    return found


def fault_of(answer: Answer, *, head: bool = False) -> str | None:
    """The violation of the contract by a response, or None."""
    try:
        _judge_headers(answer)
        if answer.status in _ORDINARY:
            if not head:
                _judge_success(answer)
        else:
            assert answer.status < 500 or answer.status == 503, f"status {answer.status}"
            assert answer.kind == PROBLEM, f"{answer.status} as {answer.kind!r}"
            if not head:
                _judge_problem(answer)
    except (AssertionError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _judge_headers(answer: Answer) -> None:
    sent_id = answer.headers["x-request-id"]
    assert _SANE.fullmatch(sent_id), f"request id {sent_id!r}"
    for stage in answer.headers["server-timing"].split(", "):
        found = _STAGE.fullmatch(stage)
        assert found and math.isfinite(float(found[1])), f"stage {stage!r}"
    others = [value for name, value in answer.headers.items() if name != "x-request-id"]
    assert not any(MARK in value.lower() for value in others), "a header repeats the request"
    if answer.status in {429, 503}:
        assert int(answer.headers["retry-after"]) >= 1


def _judge_success(answer: Answer) -> None:
    if answer.kind == "application/json":
        orjson.loads(answer.body)
    elif answer.kind == "application/x-ndjson":
        assert all(map(_line_is_right, answer.body.splitlines()))
    elif answer.kind == "application/x-npz":
        with np.load(io.BytesIO(answer.body), allow_pickle=False) as arrays:
            assert all(np.isfinite(arrays[name]).all() for name in arrays)
    elif answer.kind == "application/octet-stream":
        _judge_tensors(answer)


def _line_is_right(line: bytes) -> bool:
    document = orjson.loads(line)
    return document.keys() >= {"tokens", "truncated"} or "complete" in document


def _judge_tensors(answer: Answer) -> None:
    length = int(answer.headers["inference-header-content-length"])
    outputs = orjson.loads(answer.body[:length])["outputs"]
    sizes = [one.get("parameters", {}).get("binary_data_size", 0) for one in outputs]
    assert length + sum(sizes) == len(answer.body), "bytes that no tensor has"


def _judge_problem(answer: Answer) -> None:
    document = orjson.loads(answer.body)
    for member, kind in _MEMBERS.items():
        assert type(document[member]) is kind, f"{member}: {document[member]!r}"
    assert document["status"] == answer.status
    assert (answer.status, document["code"]) in CODES, document["code"]
    assert document["type"] == f"urn:polyseme:error:{document['code']}"
    assert document["request_id"] == answer.headers["x-request-id"]
    assert document["detail"].endswith(".") and document["hint"].endswith(".")
    if answer.status == 422:
        assert all({"pointer", "message"} == set(one) for one in document["errors"])
    said = answer.body.replace(document["request_id"].encode(), b"")
    for one in document.get("errors", ()):
        # A pointer leads to a field that is not one; it ends before what is not a plain name.
        assert _POINTER.fullmatch(one["pointer"]), one["pointer"]
        said = said.replace(b'"pointer":"%b"' % one["pointer"].encode(), b"")
    if isinstance(document.get("error"), dict) and document["error"]["param"]:
        # The first of them once more, as OpenAI writes it: in a member, and before a sentence.
        parameter = document["error"]["param"]
        first = document["errors"][0]["pointer"]
        assert re.split(r"\W+", parameter.rstrip("]")) == first.split("/")[1:]
        said = said.replace(b'"param":"%b"' % parameter.encode(), b"")
        said = said.replace(b'"message":"`%b`' % parameter.encode(), b"")
    if isinstance(document.get("error"), str) and document.get("errors"):
        # The same as a text.
        parameter = re.match(r"`([^`]*)`", document["error"])
        if parameter:
            first = document["errors"][0]["pointer"]
            assert re.split(r"\W+", parameter[1].rstrip("]")) == first.split("/")[1:]
            said = said.replace(b'"error":"%b' % parameter[0].encode(), b"")
    assert not _INSIDE.search(said), "a path or a traceback"
    assert document["code"] == "unknown_word" or MARK.encode() not in said.lower(), "an echo"


WAIT = 60
THREADS = 4
_BETWEEN = 250
"""Hostile requests of a thread between two ordinary ones."""
_IDLE = 1.0
"""Seconds after which a connection is not asked on again: the service closes what is idle for
longer, and what is sent in that moment is lost."""
_MOST_FAULTS = 20
ORDINARY = posted("/v1/encode", b'{"input": "the bank of the river", "include": ["contextual"]}')
Address = tuple[str, int]


@dataclass
class Outcome:
    """The results of some requests."""

    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    """by status, and `ended` where the connection ended without an answer"""
    kinds: Counter[str] = field(default_factory=Counter)
    """by kind and status"""
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.sent += other.sent
        self.statuses += other.statuses
        self.kinds += other.kinds
        self.faults += other.faults


def converse(address: Address, sent: bytes, *, head: bool = False) -> list[Answer]:
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
    return all_answers(b"".join(received), head=head)


class Kept:
    """A connection that is kept if possible, and replaced after its end or when idle."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._answered = 0.0

    def ask(self, sent: bytes, *, head: bool = False) -> list[Answer]:
        """The response, or None if the connection ended."""
        if time.monotonic() > self._answered + _IDLE:
            self.close()
        try:
            answer = self._ask(sent, head=head)
        except (BrokenPipeError, ConnectionResetError, h11.RemoteProtocolError):
            if self._reader.begun:
                raise
            answer = None
        if answer is None or not self._reader.going_on:
            self.close()
        self._answered = time.monotonic()
        return [answer] if answer else []

    def _ask(self, sent: bytes, *, head: bool) -> Answer | None:
        if self._socket is None:
            self._socket, self._reader = socket.create_connection(self._address, WAIT), Reader()
        self._reader.expect("HEAD" if head else "GET")
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(sent)
        while True:
            chunk = self._socket.recv(1 << 18)
            answer = self._reader.feed(chunk)
            if answer or not chunk:
                return answer

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def send(address: Address, seed: int, numbers: Iterable[int]) -> Outcome:
    """Send some of the requests one after the other, with ordinary ones between."""
    outcome, kept = Outcome(), Kept(address)
    (wanted,) = converse(address, ORDINARY)
    for count, number in enumerate(numbers):
        one = hostile(seed, number)
        for fault in _faults(kept, address, one, outcome):
            outcome.faults.append(f"number {number}, {one.kind}: {fault}: {one.sent[:300]!r}")
        outcome.sent += 1
        if count % _BETWEEN == 0 and [a.body for a in converse(address, ORDINARY)] != [wanted.body]:
            outcome.faults.append(f"after number {number}: an ordinary request went wrong")
        if len(outcome.faults) > _MOST_FAULTS:
            break
    kept.close()
    return outcome


def _faults(kept: Kept, address: Address, one: Hostile, outcome: Outcome) -> Iterator[str]:
    try:
        if one.kept:
            answers = kept.ask(one.sent, head=one.head)
        else:
            answers = converse(address, one.sent, head=one.head)
    except (OSError, h11.RemoteProtocolError, AssertionError) as error:
        yield f"{type(error).__name__}: {error}"
        kept.close()
        return
    statuses = [str(answer.status) for answer in answers] or ["ended"]
    outcome.statuses.update(statuses)
    outcome.kinds.update(f"{one.kind} {status}" for status in statuses)
    if one.kept and not answers:
        yield "no answer to a request that is well-formed HTTP"
    if len(answers) > one.answers:
        yield f"{len(answers)} answers"
    yield from filter(None, (fault_of(answer, head=one.head) for answer in answers))


def send_all(address: Address, seed: int, numbers: Sequence[int]) -> Outcome:
    """Send the requests of these numbers from some threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [numbers[first::THREADS] for first in range(THREADS)]
        outcomes = list(pool.map(lambda part: send(address, seed, part), parts))
    whole = Outcome()
    for outcome in outcomes:
        whole.add(outcome)
    return whole
