"""Sends hostile requests from several processes, and tells what became of each."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context

import h11

from tests.faults.answers import Answer, Reader, all_answers, fault_of
from tests.faults.hostile import Hostile, hostile
from tests.faults.requests import posted

WAIT = 60
PROCESSES, THREADS = 2, 4
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
    """What became of some requests."""

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
    """Send on a connection of its own, say that no more comes, and read to the end."""
    received = []
    with socket.create_connection(address, WAIT) as connection:
        # One that refuses what comes may close before all is sent; what it said is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 18):
                received.append(chunk)
    return all_answers(b"".join(received), head=head)


class Kept:
    """A connection that is kept while it can be, and made anew where it ended or was idle."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._answered = 0.0

    def ask(self, sent: bytes, *, head: bool = False) -> list[Answer]:
        """The answer, or none where the connection ended."""
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


def _in_threads(address: Address, seed: int, numbers: Sequence[int]) -> Outcome:
    """Send in some threads; one that fails makes a fault of it."""
    outcomes: list[Outcome] = []

    def run(first: int) -> None:
        try:
            outcomes.append(send(address, seed, numbers[first::THREADS]))
        except Exception as error:  # noqa: BLE001 - it has to reach the test
            outcomes.append(Outcome(faults=[f"{type(error).__name__}: {error}"]))

    threads = [threading.Thread(target=run, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = Outcome()
    for outcome in outcomes:
        whole.add(outcome)
    return whole


def send_all(address: Address, seed: int, numbers: Sequence[int]) -> Outcome:
    """Send the requests of these numbers from all processes."""
    parts = [numbers[process::PROCESSES] for process in range(PROCESSES)]
    whole = Outcome()
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        given = [pool.submit(_in_threads, address, seed, part) for part in parts]
        for one in given:
            whole.add(one.result())
    return whole
