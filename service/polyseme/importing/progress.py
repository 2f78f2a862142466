"""What long work tells of its course; the command line draws it (`cli/progress.py`)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Bar(Protocol):
    """One stretch of work."""

    def reach(self, done: int, rows: int = 0) -> None:
        """Say how many bytes are done, and how many rows that was."""


class Progress(Protocol):
    """Stretches of work one after the other."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Bar]:
        """Begin a stretch of a number of bytes."""

    def say(self, sentence: str) -> None:
        """Say something beside the bar."""


class Quiet:
    """Tells nothing."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Bar]:  # noqa: ARG002
        """Begin a stretch."""
        yield self

    def reach(self, done: int, rows: int = 0) -> None:
        """Nothing."""

    def say(self, sentence: str) -> None:
        """Nothing."""
