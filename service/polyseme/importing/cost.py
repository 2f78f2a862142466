"""What an import takes: said before it begins, and refused where the disk cannot hold it."""

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from polyseme.engine.quantization import row_bytes
from polyseme.importing.progress import Progress
from polyseme.importing.refusal import VectorFileError

_PROGRAM = 130_000_000
"""Bytes that Python, NumPy and gensim take in memory."""
_WORD = 250
"""Bytes that a word takes in memory while it is imported."""


@dataclass(frozen=True)
class Cost:
    """A table, and what it takes."""

    words: int
    width: int
    disk: int
    """bytes on disk, which are mapped when the model is served"""
    memory: int
    """bytes in memory at the most, while it is imported"""

    @classmethod
    def of_rows(cls, words: int, width: int, dtype: str) -> "Cost":
        """Of rows that are converted in pieces: the table is there once."""
        disk = words * row_bytes(width, dtype)
        return cls(words, width, disk, _PROGRAM + disk + words * _WORD)

    @classmethod
    def of_fasttext(cls, words: int, buckets: int, width: int, dtype: str) -> "Cost":
        """Of a `.bin`: gensim has the words' rows three times at once, the n-grams' twice."""
        disk = (words + buckets) * row_bytes(width, dtype)
        rows = (3 * words + 2 * buckets) * width * 4
        return cls(words, width, disk, _PROGRAM + rows + disk + 2 * words * _WORD)

    def announce(self, folder: Path, progress: Progress) -> None:
        """Say what it will take; raise VectorFileError where the disk cannot hold it."""
        progress.say(
            f"{self.words:,} words of {self.width} numbers: about {_megabytes(self.memory)} of"
            f" memory to import, {_megabytes(self.disk)} on disk, which all workers that serve it"
            " share."
        )
        place = next(parent for parent in folder.absolute().parents if parent.exists())
        free = shutil.disk_usage(place).free
        if self.disk > free:
            raise VectorFileError(
                f"The model needs {math.ceil(self.disk / 1e6):,} MB on disk where"
                f" {free // 10**6:,} MB are free; --limit or --dtype int8 makes it smaller."
            )


def _megabytes(count: int) -> str:
    return f"{max(round(count / 1e6), 1):,} MB"
