"""Progress of long tasks. These classes print nothing; those of `cli/progress.py` do."""

from collections.abc import Iterator
from contextlib import contextmanager


class ProgressBar:
    """The progress of one stage of a task."""

    def __init__(self) -> None:
        self.done = 0

    def reach(self, done: int, rows: int = 0) -> None:  # noqa: ARG002 - shown by subclasses
        """Set the completed part of the stage, and the number of completed rows."""
        self.done = done

    def advance(self, count: int) -> None:
        """Add to the completed part."""
        self.reach(self.done + count)


class Progress:
    """The progress of a task, in consecutive stages."""

    @contextmanager
    def stage(self, name: str, total: int, *, in_bytes: bool = True) -> Iterator[ProgressBar]:  # noqa: ARG002
        """Begin a stage; `total` counts bytes, or items if `in_bytes` is False."""
        yield ProgressBar()

    def say(self, sentence: str) -> None:
        """Write a message above the bar."""


SILENT = Progress()
