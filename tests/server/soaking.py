"""A load that is held for long: mixed questions at a rate, every answer checked, memory sampled."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from tests.faults.asking import QUESTIONS, REFUSED, Asker, Known
from tests.faults.processes import Service, anonymous_bytes, proportional_bytes

CLIENTS = 16
LARGE = "large"
WEIGHTS = {**dict.fromkeys(QUESTIONS, 100), **dict.fromkeys(REFUSED, 25), LARGE: 1}
"""How often each question is asked: an eighth is refused, one in some hundreds is streamed."""


class Sample(NamedTuple):
    """The memory of a service, its master and all workers, at a moment."""

    second: float
    proportional_mb: float
    anonymous_mb: float
    """Of that, what is of no file: it is what a leak adds to, and no other process moves it."""


class Paced(Asker):
    """A client that asks at its times, or without pause where there is no pace."""

    def __init__(
        self, service: Service, questions: Sequence[Known], seed: int, pause: float = 0
    ) -> None:
        super().__init__(service, questions, kept=seed % 4 != 0, seed=seed)
        self._pause = pause
        self._due = time.monotonic() + pause * self._rng.random()

    def _ask(self, question: Known) -> None:
        late = time.monotonic() - self._due
        if self._pause and late < 0 and self.stopping.wait(-late):
            return
        super()._ask(question)
        # Who is late asks at once, but never makes up for more than a second.
        self._due = max(self._due + self._pause, time.monotonic() - 1)


def mixed(questions: Sequence[Known]) -> list[Known]:
    """The questions as often as each is asked."""
    weights = WEIGHTS.values()
    return [one for one, weight in zip(questions, weights, strict=True) for _ in range(weight)]


def hold(
    service: Service,
    questions: Sequence[Known],
    seconds: float,
    rate: float = 0,
    told: Callable[[float, int], None] = lambda _second, _answered: None,
) -> tuple[list[Paced], list[Sample]]:
    """Ask for some seconds, at a rate or as fast as it goes."""
    pause = CLIENTS / rate if rate else 0
    several = [Paced(service, questions, seed, pause) for seed in range(CLIENTS)]
    for one in several:
        one.start()
    start, samples = time.monotonic(), []
    try:
        while (now := time.monotonic() - start) < seconds:
            samples.append(sample(service, now))
            told(now, sum(one.answered for one in several))
            threading.Event().wait(min(2.0, max(seconds - now, 0)))
    finally:
        for one in several:
            one.stopping.set()
        for one in several:
            one.join(60)
    return several, samples


def sample(service: Service, now: float) -> Sample:
    """The memory of all processes of a service."""
    pids = [service.master, *service.workers()]
    shares = sum(proportional_bytes(pid) for pid in pids)
    own = sum(anonymous_bytes(pid) for pid in pids)
    return Sample(round(now, 1), round(shares / 1e6, 2), round(own / 1e6, 2))


def growth(samples: Sequence[Sample], first: float, width: float) -> float:
    """The part by which memory has grown, from some seconds in to the end; means of a while.

    What is of a file does not count as growth: its share moves with the processes beside.
    """
    last = samples[-1].second
    early = [one for one in samples if first <= one.second < first + width]
    late = [one for one in samples if one.second >= last - width]
    before, after = (fmean(one.anonymous_mb for one in some) for some in (early, late))
    return (after - before) / fmean(one.proportional_mb for one in early)


def words(rng: random.Random, vocabulary: Sequence[str], number: int) -> str:
    """A sentence of so many words."""
    return " ".join(rng.choice(vocabulary) for _ in range(number))
