"""Readers of files of vectors: one pass checks the rows and keeps their words and vectors.

It names the line or the byte of an unusable row.
"""

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats
from polyseme.engine.quantization import QuantizedRows, Rows, empty_rows, quantize
from polyseme.engine.subwords import Subwords
from polyseme.importing import ImportOptions, ImportProblem
from polyseme.importing.files import Decompressed, VectorFile
from polyseme.models.manifest import TableDtype
from polyseme.terminal import ProgressBar

MAX_WORD_BYTES = 4096
"""Longer words are rejected, so that a binary file without separators is not read to its end."""
BLOCK = 1 << 20
BLANK = "is empty"
REPEATED = "repeats the word of an earlier row"
_INVALID_NUMBER = "has an invalid number"
BATCH_VALUES = 1_000_000
"""Maximum number of values that are parsed at once."""
_ROWS_AT_ONCE = 4096
_FEW_ROWS = 100
"""Up to this number of rows may be skipped, even if fewer are usable."""
_SPACES = {"\t": "tab", "\n": "line feed", "\v": "vertical tab", "\f": "form feed"}
_SPACES |= {"\r": "carriage return"}
_SPACE = re.compile(f"[{''.join(_SPACES)}]")


class Row(NamedTuple):
    """A word and its values, as bytes of the file."""

    position: int
    """the line, counted from 1, or the byte offset, counted from 0"""
    word: bytes
    values: bytes
    problem: str | None = None
    """why the row is unusable, or None"""


@dataclass(frozen=True)
class VectorTable:
    """The words and vectors of a file, or of objects in memory."""

    words: Sequence[str]
    vectors: Rows
    """[V, d]"""
    counts: NDArray[np.int64] | None = None
    """[V], the occurrences of each word, if the file has them"""
    subwords: Subwords | None = None
    skipped: Sequence[int] = ()
    """the position of each unusable row"""

    def keep_rows(self, indices: NDArray[np.int64], words: Sequence[str]) -> "VectorTable":
        """Keep only some of the words, under other names; the indices ascend.

        The vectors move within their array, because a copy would take as much memory again.
        """
        for values in _arrays(self.vectors):
            for start in range(0, len(indices), _ROWS_AT_ONCE):
                rows = indices[start : start + _ROWS_AT_ONCE]
                values[start : start + len(rows)] = values[rows]
        resize(self.vectors, len(indices))
        counts = None if self.counts is None else self.counts[indices]
        return replace(self, words=words, counts=counts)


class Reader(ABC):
    """A reader of a file in one format."""

    unit: ClassVar[str]
    """the unit of positions in the file"""
    dropped = ""
    """what the reader leaves out beside words and values"""

    @classmethod
    @abstractmethod
    def recognizes(cls, head: bytes, text: bytes) -> bool:
        """Return whether the first bytes of a file, and the same in UTF-8, are of the format."""

    def __init__(self, file: VectorFile, options: ImportOptions, head: bytes) -> None:
        """Create a reader; `head` has the first bytes of the file."""
        self.file, self.options, self.head = file, options, head
        self.encoding = options.encoding

    @abstractmethod
    def read(self, bar: ProgressBar) -> VectorTable:
        """Return the words and vectors of the usable rows.

        Without `options.skip`, the first unusable row raises ImportProblem. With it, unusable rows
        are skipped; ImportProblem is raised if no row is usable.
        """

    def decode(self, word: bytes) -> tuple[str, str | None]:
        """Return a word, and why it is unusable, or None."""
        try:
            text = word.decode(self.encoding)
            text.encode()  # fails for a lone surrogate
        except UnicodeError:
            return "", f"has a word that is not {self.encoding.upper()}"
        if not word.strip():
            return text, "has no word"
        if len(word) > MAX_WORD_BYTES:
            return text, f"has a word of more than {MAX_WORD_BYTES} bytes"
        space = _SPACE.search(text)
        return text, f"has a {_SPACES[space[0]]} in its word" if space else None

    def fail(self, position: int, problem: str) -> ImportProblem:
        """Return the error for an unusable row."""
        options = ("encoding", "skip") if "a word that is not" in problem else ("skip",)
        return ImportProblem(f"{self.unit.capitalize()} {position} {problem}.", *options)


class RowReader(Reader):
    """A reader of a format in which each word precedes its values."""

    @abstractmethod
    def dimension(self) -> int:
        """Return the dimension; raise ImportProblem if the first lines have none."""

    @abstractmethod
    def read_rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows of the opened file; raise ImportProblem if it cannot be parsed."""

    @abstractmethod
    def parse(self, rows: list[Row], dimension: int) -> Floats:
        """Return the values of some rows; raise ValueError for an invalid number. -> [n, d]"""

    def read(self, bar: ProgressBar) -> VectorTable:
        """Check each word and its values, and keep those of the usable rows.

        With `options.skip`, ImportProblem is also raised if the unusable rows are more than 100 and
        more than the usable ones, not counting blank lines.
        """
        dimension = self.dimension()
        table = empty_rows(0, dimension, self.options.dtype)
        words: dict[str, None] = {}
        positions = array("q")  # a dictionary of them would take four times as much
        unusable: dict[int, str] = {}
        with self.file.open() as file:
            for batch in _batches(self.read_rows(file), dimension):
                first, usable = len(words), []
                decoded = [self.decode(row.word) for row in batch]
                problems = [
                    row.problem or why for row, (_, why) in zip(batch, decoded, strict=True)
                ]
                good = [row for row, why in zip(batch, problems, strict=True) if not why]
                vectors, of_values = self._parse(good, dimension)
                parsed = iter(enumerate(of_values))
                for row, (word, _), why in zip(batch, decoded, problems, strict=True):
                    i, problem = (-1, why) if why else next(parsed)
                    if word in words and not problem:
                        problem = REPEATED
                        if not self.options.skip:
                            first_row = positions[[*words].index(word)]
                            problem = f"repeats the word of {self.unit} {first_row}"
                    if not problem:
                        words[word] = None
                        positions.append(row.position)
                        usable.append(i)
                    elif not self.options.skip:
                        raise self.fail(row.position, problem)
                    else:
                        unusable[row.position] = problem
                if len(words) > len(table):
                    resize(table, max(len(words), len(table) * 9 // 8))
                table[first : len(words)] = vectors[usable]
                bar.reach(file.done, len(words))
        if not words:
            name = "usable vectors: all rows were skipped" if unusable else "vectors"
            raise ImportProblem(f"The file has no {name}.")
        count = sum(problem != BLANK for problem in unusable.values())
        if count > max(len(words), _FEW_ROWS):
            position, problem = next(iter(unusable.items()))
            raise ImportProblem(
                f"Most rows are unusable, {count:,} of {count + len(words):,}: {self.unit}"
                f" {position} {problem}."
            )
        resize(table, len(words))
        return VectorTable([*words], table, skipped=[*unusable])

    def _parse(self, rows: list[Row], dimension: int) -> tuple[Floats, list[str | None]]:
        """Return the values of some rows, and why each row is unusable, or None. -> [n, d], [n]"""
        dtype = self.options.float_dtype
        try:
            table = self.parse(rows, dimension) if rows else np.empty((0, dimension), dtype)
        except ValueError:
            if len(rows) == 1:
                return np.zeros((1, dimension), dtype), [_INVALID_NUMBER]
            parts = [self._parse([row], dimension) for row in rows]
            return np.concatenate([part[0] for part in parts]), [part[1][0] for part in parts]
        with np.errstate(over="ignore"):
            narrow: Floats = table.astype(dtype, copy=False)
        unusable = set(np.nonzero(~np.isfinite(narrow))[0].tolist())
        problem = f"has a value that is not finite as {dtype}"
        return narrow, [problem if i in unusable else None for i in range(len(rows))]


def resize(rows: Rows, count: int) -> None:
    """Change the number of rows of a table in place; for a large one, the system moves its pages.

    New rows are zero. The tables have no views.
    """
    for values in _arrays(rows):
        values.resize((count, *values.shape[1:]), refcheck=False)


def _arrays(rows: Rows) -> tuple[NDArray[Any], ...]:
    return (rows.integers, rows.scales) if isinstance(rows, QuantizedRows) else (rows,)


def convert(vectors: Floats, dtype: TableDtype) -> Rows:
    """Convert vectors to the dtype to store; raise ImportProblem if a value overflows it."""
    with np.errstate(over="ignore"):
        narrow: Floats = vectors.astype("float32" if dtype == "int8" else dtype, copy=False)
    # An array of flags would take a quarter of the memory of the vectors.
    if not (np.isfinite(narrow.min()) and np.isfinite(narrow.max())):
        raise ImportProblem(f"The file has a value that is not finite as {narrow.dtype}.")
    return quantize(narrow) if dtype == "int8" else narrow


def _batches(rows: Iterator[Row], dimension: int) -> Iterator[list[Row]]:
    """Yield lists of rows that have a million values together."""
    while batch := list(islice(rows, max(BATCH_VALUES // dimension, 1))):
        yield batch
