"""What is recorded of a request while it is computed: its stages and its tokens.

`with stage("tokens"):` records when a stage runs and how long it takes. A route sets the record of
its thread's request; in process, nothing is recorded.
"""

from contextvars import ContextVar
from time import perf_counter
from typing import Any, Protocol, TypeAlias

Stages: TypeAlias = dict[str, tuple[float, float, float]]
"""The first start and the last end of each stage by `time.perf_counter`, and the seconds that it
took in between, in the order of first use."""


class Record(Protocol):
    """The record of one request."""

    stages: Stages
    counts: Any
    """the token counts of its texts"""


_record: ContextVar[Record | None] = ContextVar("polyseme_record", default=None)
record = _record.set
"""Set the record of this thread's request; None ends the recording."""
current_record = _record.get
"""Return the record of this thread's request, None if there is none."""


class stage(str):  # noqa: N801, SLOT000 - a function to its users
    """A part of a request, which is a context manager; one that raises is not recorded."""

    start = 0.0

    def __enter__(self) -> None:
        self.start = perf_counter()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        found = _record.get()
        if error is None and found is not None:
            name, end = str(self), perf_counter()
            first, _end, seconds = found.stages.get(name, (self.start, end, 0.0))
            found.stages[name] = first, end, seconds + end - self.start
