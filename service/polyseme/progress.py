"""Progress of long work. These classes show nothing; `cli/progress.py` draws on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager


class ProgressBar:
    """One stage of the work."""

    def __init__(self) -> None:
        self.done = 0

    def reach(self, done: int, rows: int = 0) -> None:  # noqa: ARG002 - shown by subclasses
        """Set how much of the stage is done, and how many rows that is."""
        self.done = done

    def advance(self, count: int) -> None:
        """Add to what is done."""
        self.reach(self.done + count)


class Progress:
    """Stages of work, one after the other."""

    @contextmanager
    def stage(self, name: str, total: int, *, in_bytes: bool = True) -> Iterator[ProgressBar]:  # noqa: ARG002
        """Begin a stage; `total` counts bytes, or items if `in_bytes` is False."""
        yield ProgressBar()

    def say(self, sentence: str) -> None:
        """Write a sentence beside the bar."""


SILENT = Progress()
