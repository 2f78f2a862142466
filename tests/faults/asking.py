"""Clients that ask without pause, know every answer beforehand, and count what is lost."""

import random
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import h11
import orjson

from tests.faults.answers import Answer, Reader
from tests.faults.processes import Service
from tests.faults.requests import NAME, headed, posted
from tests.faults.sending import converse

WAIT = 60
SENTENCE = "Apple launched a phone while I ate an apple by the river bank."
NPZ = ("Accept", "application/x-npz")
_LINES = ("Accept", "application/x-ndjson")


def _encode(*headers: tuple[str, str], **body: object) -> bytes:
    return posted("/v1/encode", orjson.dumps({"input": SENTENCE, **body}), *headers)


QUESTIONS = {
    "json": _encode(include=["static", "contextual"]),
    "base64": _encode(encoding="base64"),
    "float16": _encode(encoding="base64", dtype="float16", include=["contextual", "attention"]),
    "npz": _encode(NPZ),
    "lines": _encode(_LINES, input=[SENTENCE, "the bank"], include=["static"], encoding="base64"),
    "words": _encode(input=[["river", "bank"], ["money", "bank"]], include=["contextual"]),
    "compare": posted(
        "/v1/compare",
        orjson.dumps({"occurrences": [{"text": SENTENCE, "word": w} for w in ("Apple", "apple")]}),
    ),
    "trace": posted("/v1/trace", orjson.dumps({"text": "the river bank", "model": NAME})),
    "neighbors": posted("/v1/neighbors", orjson.dumps({"word": "apple", "k": 3})),
    "models": headed("GET", "/v1/models"),
    "empty": _encode(input=""),
}
REFUSED = {
    "not json": posted("/v1/encode", b"{"),
    "no model": _encode(model="nobody"),
    "no field": posted("/v1/compare", b"{}"),
    "no route": headed("GET", "/nowhere"),
}


class Known(NamedTuple):
    """A question and its only right answer."""

    sent: bytes
    status: int
    body: bytes | None
    """none where it names the request, and so is never the same"""


def known(service: Service, but: str = "") -> list[Known]:
    """Every question but one, with the answer that a quiet service gives."""
    found = []
    for sent in [*(QUESTIONS[name] for name in QUESTIONS if name != but), *REFUSED.values()]:
        (answer,) = converse(service.address, sent)
        whole = answer.body if answer.status == 200 else None
        assert whole is not None or sent in REFUSED.values(), answer
        found.append(Known(sent, answer.status, whole))
    return found


class Lost(NamedTuple):
    """A request without an answer."""

    port: int
    """the client's, of the connection it was sent on"""
    why: str


class Asker(threading.Thread):
    """Asks one question after the other, on one connection or on a new one for each."""

    def __init__(self, service: Service, questions: Sequence[Known], *, kept: bool, seed: int):
        super().__init__(daemon=True)
        self._address, self._questions, self._kept = service.address, questions, kept
        self._rng = random.Random(seed)
        self._socket: socket.socket | None = None
        self.stopping = threading.Event()
        self.answered = self.refused = self.draining = 0
        self.lost: list[Lost] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._ask(self._rng.choice(self._questions))
        except Exception as error:  # noqa: BLE001 - it has to reach the test
            self.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self._close()

    def _ask(self, question: Known) -> None:
        if not self._connected():
            self.refused += 1
            self.stopping.wait(0.01)
            return
        assert self._socket is not None
        port = self._socket.getsockname()[1]
        try:
            answer = self._answer(question.sent)
        except (BrokenPipeError, ConnectionResetError, h11.RemoteProtocolError) as error:
            self.lost.append(Lost(port, f"{type(error).__name__}: {error}"))
            self._close()
            return
        self._judge(question, answer)
        if not self._kept or not self._reader.going_on:
            self._close()

    def _connected(self) -> bool:
        if self._socket is None:
            try:
                self._socket = socket.create_connection(self._address, WAIT)
            except ConnectionRefusedError:
                return False
            self._reader = Reader()
        return True

    def _answer(self, sent: bytes) -> Answer:
        assert self._socket is not None
        self._reader.expect()
        self._socket.sendall(sent)
        while True:
            chunk = self._socket.recv(1 << 18)
            answer = self._reader.feed(chunk)
            if answer:
                return answer
            if not chunk:
                raise ConnectionResetError("the connection ended")

    def _judge(self, question: Known, answer: Answer) -> None:
        self.answered += 1
        if answer.status == 503 and b'"code":"draining"' in answer.body:
            self.draining += 1
        elif answer.status != question.status or question.body not in {None, answer.body}:
            self.wrong.append(f"{answer.status} for {question.sent[:200]!r}: {answer.body[:200]!r}")

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Crowd(NamedTuple):
    """Some clients."""

    askers: list[Asker]

    @property
    def answered(self) -> int:
        return sum(one.answered for one in self.askers)

    @property
    def refused(self) -> int:
        return sum(one.refused for one in self.askers)

    @property
    def draining(self) -> int:
        return sum(one.draining for one in self.askers)

    @property
    def lost(self) -> list[Lost]:
        return [lost for one in self.askers for lost in one.lost]

    @property
    def wrong(self) -> list[str]:
        return [wrong for one in self.askers for wrong in one.wrong]

    def stop(self) -> None:
        """Let each finish its request."""
        for one in self.askers:
            one.stopping.set()
        for one in self.askers:
            one.join(WAIT)
            assert not one.is_alive(), "a client waits for an answer"


@contextmanager
def crowd(service: Service, kept: int = 6, new: int = 3, but: str = "") -> Iterator[Crowd]:
    """Clients that ask while the block runs; no answer that comes may be a wrong one."""
    questions = known(service, but)
    several = [
        Asker(service, questions, kept=number < kept, seed=number) for number in range(kept + new)
    ]
    asking = Crowd(several)
    for one in several:
        one.start()
    try:
        yield asking
    finally:
        asking.stop()
    assert asking.wrong == []
