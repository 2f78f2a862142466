"""What a measurement tells of its course; the command line draws it (`cli/evaluate.py`)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], object]
"""Say how many more are done."""
Course: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]
"""Begin a stretch of so many of something."""


@contextmanager
def quiet(name: str, total: int) -> Iterator[Advance]:  # noqa: ARG001
    """Tell nothing."""
    yield lambda _: None
