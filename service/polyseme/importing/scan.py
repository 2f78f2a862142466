"""The first pass over a file: every row is looked at before any number is converted."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from polyseme.importing.compression import Plain
from polyseme.importing.progress import Bar
from polyseme.importing.refusal import SKIP_HINT, VectorFileError
from polyseme.importing.rows import Row, VectorFile

TOO_LARGE = {"float16": 65_520.0, "float32": 2.0**128 * (1 - 2.0**-25)}
"""The least number that a dtype rounds to infinity."""
_OFTEN = 2048
"""Rows between two reports of progress."""


@dataclass
class Scan:
    """What a file has."""

    file: VectorFile
    encoding: str
    dtype: str
    """what the numbers have to be finite in"""
    width: int = 0
    words: dict[str, int] = field(default_factory=dict)
    """each with the place of its row"""
    left_out: dict[int, str] = field(default_factory=dict)
    """the rows that cannot be used, by place, and what is wrong with each"""

    def rows(self, plain: Plain, bar: Bar) -> Iterator[Row]:
        """Yield the rows that are not left out."""
        for number, row in enumerate(self.file.rows(plain), 1):
            if row.place not in self.left_out:
                yield row
            if not number % _OFTEN:
                bar.reach(plain.done, number)


def scan(
    file: VectorFile,
    bar: Bar,
    *,
    encoding: str = "utf-8",
    dtype: str = "float32",
    skip: bool = False,
    numbers: bool = False,
) -> Scan:
    """Look at every row; `numbers`: at every number of text too, which `skip` does anyway.

    Raises VectorFileError for the first row that cannot be used, unless `skip` leaves it out.
    """
    found = Scan(file, encoding, dtype)
    with file.open() as plain:
        for row in found.rows(plain, bar):
            problem = row.problem or _enter(found, row, numbers=numbers or skip)
            if problem:
                if not skip:
                    place = f"{file.unit.capitalize()} {row.place}"
                    raise VectorFileError(f"{place} {problem}; {SKIP_HINT}.")
                found.left_out[row.place] = problem
        bar.reach(plain.done, len(found.words))
    if not found.words:
        raise VectorFileError("The file has no vectors.")
    return found


def _enter(found: Scan, row: Row, *, numbers: bool) -> str | None:
    """Enter a row's word; return what is wrong with the row instead, where something is."""
    try:
        word = row.word.decode(found.encoding)
        word.encode()
    except UnicodeError:
        return f"has a word that is not {found.encoding.upper()}"
    if "\n" in word:
        return "has a line feed in its word"
    if word in found.words:
        return f"has the word of {found.file.unit} {found.words[word]} again"
    problem = _of_numbers(found, row.numbers, text=numbers)
    if problem is None:
        found.words[word] = row.place
        found.width = found.width or _width(found.file, row.numbers)
    return problem


def _width(file: VectorFile, numbers: bytes) -> int:
    return len(numbers) // 4 if file.format == "word2vec-binary" else numbers.count(b" ") + 1


def _of_numbers(found: Scan, numbers: bytes, *, text: bool) -> str | None:
    """What is wrong with the numbers of a row."""
    most = TOO_LARGE[found.dtype]
    if found.file.format == "word2vec-binary":
        finite = float(np.abs(np.frombuffer(numbers, "<f4")).max()) < most
    elif b"_" in numbers or not numbers.isascii():
        return _NO_NUMBER  # Python's `1_000`, and digits of other scripts
    elif text:
        try:
            values = [float(number) for number in numbers.split(b" ")]
        except ValueError:
            return _NO_NUMBER
        finite = math.isfinite(sum(values)) and max(map(abs, values)) < most
    else:
        return None
    return None if finite else not_finite(found.dtype)


_NO_NUMBER = "has something that is not a number"


def not_finite(dtype: str) -> str:
    """What is wrong with a row that has NaN or infinity, or a number too large for a dtype."""
    return f"has a number that is not finite as {dtype}"
