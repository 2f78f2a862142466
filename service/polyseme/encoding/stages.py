"""How long each stage of an answer takes, for the client (`Server-Timing`) and for who watches."""

import time


class Stages:
    """The milliseconds spent in each named stage, in the order they were first entered."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self.places: dict[str, tuple[float, float]] = {}
        """when a stage was first entered and last left, by the clock `time.perf_counter`"""

    def __call__(self, name: str) -> "_Stage":
        """Add the time spent in the block to a stage."""
        return _Stage(self, name)

    def add(self, name: str, start: float, end: float) -> None:
        """Add a time to a stage."""
        self.milliseconds[name] = self.milliseconds.get(name, 0.0) + (end - start) * 1000
        self.places[name] = self.places.get(name, (start,))[0], end


class _Stage:
    """A block whose time is taken."""

    def __init__(self, stages: Stages, name: str) -> None:
        self._stages, self._name = stages, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._stages.add(self._name, self._start, time.perf_counter())
