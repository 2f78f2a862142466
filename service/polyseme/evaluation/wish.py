"""What somebody wants to have measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from polyseme.evaluation.progress import Course, quiet

Task: TypeAlias = Literal["coarsewsd", "wic", "similarity"]
Split: TypeAlias = Literal["dev", "test"]
MOST_FREQUENT, MINILM = "most-frequent", "minilm"
"""Systems beside those of `systems.py`: one needs no vectors, the other brings its own."""


@dataclass(frozen=True)
class Wish:
    """Which set, from where, for which systems."""

    task: Task
    directory: Path
    names: Sequence[str] = ()
    """of systems"""
    split: Split = "dev"
    """of WiC"""
    course: Course = quiet
