"""How long each stage of an answer takes, for the client to see (`Server-Timing`)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stages:
    """The milliseconds spent in each named stage, in the order they were first entered."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time spent in the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - start) * 1000
            self.milliseconds[name] = self.milliseconds.get(name, 0.0) + spent
