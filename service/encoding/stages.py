"""How long each stage of an answer takes, for the client to see (`Server-Timing`)."""

import time


class Stages:
    """The milliseconds spent in each named stage, in the order they were first entered."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    def __call__(self, name: str) -> "_Stage":
        """Add the time spent in the block to a stage."""
        return _Stage(self.milliseconds, name)


class _Stage:
    """A block whose time is taken."""

    def __init__(self, milliseconds: dict[str, float], name: str) -> None:
        self._milliseconds, self._name = milliseconds, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = (time.perf_counter() - self._start) * 1000
        self._milliseconds[self._name] = self._milliseconds.get(self._name, 0.0) + spent
