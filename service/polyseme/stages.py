"""The stages of a request: `with stage("tokens"):` records when a stage runs and how long it takes.

A route sets the record of its thread's request; in process, nothing is recorded.
"""

from contextvars import ContextVar
from time import perf_counter
from typing import Self, TypeAlias

Stages: TypeAlias = dict[str, tuple[float, float, float]]
"""The first start and the last end of each stage by `time.perf_counter`, and the seconds that it
took in between, in the order of first use."""

_stages: ContextVar[Stages | None] = ContextVar("polyseme_stages", default=None)
record_stages = _stages.set
"""Set the record of this thread's request; None ends the recording."""


class stage(str):  # noqa: N801, SLOT000 - a function to its users
    """A part of a request, which is a context manager; one that raises is not recorded."""

    start = 0.0

    def since(self, start: float) -> Self:
        """Set an earlier start."""
        self.start = start
        return self

    def __enter__(self) -> None:
        self.start = self.start or perf_counter()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        stages = _stages.get()
        if error is None and stages is not None:
            name, end = str(self), perf_counter()
            first, _end, seconds = stages.get(name, (self.start, end, 0.0))
            stages[name] = first, end, seconds + end - self.start
