"""The rows of GloVe and word2vec files, and the first pass that checks every one of them.

A row keeps its place in the file, so that an error names the line or byte.
"""

import itertools
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polyseme.command_error import CommandError
from polyseme.importing.formats import HEADER, Decompressed, Format, open_decompressed
from polyseme.progress import ProgressBar

WIDEST = 65_536
LONGEST_WORD = 4096
"""Bytes of a word; a longer run of bytes without an end is not a word."""
TOO_LARGE = {"float16": 65_520.0, "float32": 2.0**128 * (1 - 2.0**-25)}
"""The smallest number that each dtype rounds to infinity."""
SKIP_HINT = "--skip-bad-rows skips such rows"
_LONGEST_LINE = 2 << 20
_BLOCK = 1 << 20
_REPORTED = 2048
"""Rows between two progress reports."""
_NO_NUMBER = "has an invalid number"


class Row(NamedTuple):
    """A word and its numbers, as bytes of the file."""

    place: int
    """the line, counted from 1, or the first byte, counted from 0"""
    word: bytes
    numbers: bytes
    """text separated by spaces, or little-endian float32"""
    problem: str | None = None


@dataclass(frozen=True)
class VectorFile:
    """A GloVe, word2vec text or word2vec binary file."""

    path: Path
    format: Format
    member: str | None = None
    limit: int | None = None
    """rows to read at most"""

    @property
    def unit(self) -> str:
        """The unit of `Row.place`."""
        return "byte" if self.format == "word2vec-binary" else "line"

    def open(self) -> AbstractContextManager[Decompressed]:
        """Open the file."""
        return open_decompressed(self.path, self.member)

    def rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows of the opened file; raise CommandError where it cannot be parsed."""
        if self.format == "word2vec-binary":
            return _binary_rows(file, self.limit)
        return _text_rows(file, self.limit, counted=self.format == "word2vec-text")


@dataclass
class Scan:
    """The result of checking a file."""

    file: VectorFile
    encoding: str
    dtype: str
    """in which all numbers have to be finite"""
    width: int = 0
    words: dict[str, int] = field(default_factory=dict)
    """each word and the place of its row"""
    left_out: dict[int, str] = field(default_factory=dict)
    """unusable rows by place, and what is wrong with each"""

    def rows(self, file: Decompressed, bar: ProgressBar) -> Iterator[Row]:
        """Yield the usable rows."""
        for number, row in enumerate(self.file.rows(file), 1):
            if row.place not in self.left_out:
                yield row
            if not number % _REPORTED:
                bar.reach(file.done, number)


def scan(
    file: VectorFile,
    bar: ProgressBar,
    *,
    encoding: str = "utf-8",
    dtype: str = "float32",
    skip: bool = False,
    numbers: bool = False,
) -> Scan:
    """Check every row, and collect the words.

    `skip` leaves unusable rows out; otherwise the first one raises CommandError. `numbers` parses
    the numbers of text files too, which `skip` implies.
    """
    found = Scan(file, encoding, dtype)
    with file.open() as opened:
        for row in found.rows(opened, bar):
            problem = row.problem or _add(found, row, numbers=numbers or skip)
            if problem:
                if not skip:
                    place = f"{file.unit.capitalize()} {row.place}"
                    raise CommandError(f"{place} {problem}; {SKIP_HINT}.")
                found.left_out[row.place] = problem
        bar.reach(opened.done, len(found.words))
    if not found.words:
        raise CommandError("The file has no vectors.")
    return found


def _add(found: Scan, row: Row, *, numbers: bool) -> str | None:
    """Add a row to the scan, or return what is wrong with it."""
    try:
        word = row.word.decode(found.encoding)
        word.encode()
    except UnicodeError:
        return f"has a word that is not {found.encoding.upper()}"
    if "\n" in word:
        return "has a line feed in its word"
    if word in found.words:
        return f"repeats the word of {found.file.unit} {found.words[word]}"
    problem = _number_problem(found, row.numbers, text=numbers)
    if problem is None:
        found.words[word] = row.place
        binary = found.file.format == "word2vec-binary"
        width = len(row.numbers) // 4 if binary else row.numbers.count(b" ") + 1
        found.width = found.width or width
    return problem


def _number_problem(found: Scan, numbers: bytes, *, text: bool) -> str | None:
    """What is wrong with the numbers of a row; `text` parses them in text files."""
    most = TOO_LARGE[found.dtype]
    if found.file.format == "word2vec-binary":
        finite = float(np.abs(np.frombuffer(numbers, "<f4")).max()) < most
    elif b"_" in numbers or not numbers.isascii():
        return _NO_NUMBER  # Python accepts `1_000` and digits of other scripts
    elif text:
        try:
            values = [float(number) for number in numbers.split(b" ")]
        except ValueError:
            return _NO_NUMBER
        finite = math.isfinite(sum(values)) and max(map(abs, values)) < most
    else:
        return None
    return None if finite else not_finite(found.dtype)


def not_finite(dtype: str) -> str:
    """What is wrong with a row that has NaN, infinity or a number too large for the dtype."""
    return f"has a number that is not finite as {dtype}"


def _header(file: Decompressed) -> tuple[int, int]:
    """Read the first line of a word2vec file: number of words, numbers per word."""
    found = HEADER.fullmatch(file.line(LONGEST_WORD))
    if not found:
        raise CommandError(
            "Line 1 is not the header of a word2vec file: the number of words and of numbers each."
        )
    count, width = int(found[1]), int(found[2])
    if count < 1:
        raise CommandError(f"Line 1 declares {count} words; there must be at least one.")
    _check_width(width)
    return count, width


def _check_width(width: int) -> None:
    if not 1 <= width <= WIDEST:
        raise CommandError(f"Line 1 has vectors of {width} numbers; 1 to {WIDEST} are supported.")


def _text_rows(file: Decompressed, limit: int | None, *, counted: bool) -> Iterator[Row]:
    count, width = _header(file) if counted else (None, None)
    rows, blank = 0, 0
    for number in itertools.count(2 if counted else 1):
        line = file.line(_LONGEST_LINE)
        if not line:
            break
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise CommandError(f"Line {number} is longer than {_LONGEST_LINE} bytes.")
        if rows == limit:
            return
        line = line.rstrip()  # as gensim does
        if not line:
            blank = blank or number
            continue
        if blank:
            raise CommandError(f"Line {blank} is empty.")
        if rows == count:
            raise CommandError(
                f"Line 1 declares {count} words, but line {number} has a further one."
            )
        if width is None:
            width = line.count(b" ")
            _check_width(width)
        yield _text_row(number, line, width)
        rows += 1
    if count is not None and rows < (count if limit is None else min(count, limit)):
        raise CommandError(f"Line 1 declares {count} words, but the file ends after {rows}.")


def _text_row(number: int, line: bytes, width: int) -> Row:
    """Split a line; a few words of GloVe's largest files contain spaces."""
    fields = line.rsplit(b" ", width)
    word, numbers = fields[0], b" ".join(fields[1:])
    found = line.count(b" ")
    if found != width and (found < width or any(map(_is_number, word.split(b" ")[1:]))):
        return Row(number, b"", b"", f"has {found} numbers where line 1 has {width}")
    return Row(number, word, numbers, _word_problem(word))


def _word_problem(word: bytes) -> str | None:
    if not word.strip():
        return "has no word"
    return f"has a word of more than {LONGEST_WORD} bytes" if len(word) > LONGEST_WORD else None


def _is_number(field_: bytes) -> bool:
    try:
        float(field_)
    except ValueError:
        return False
    return True


def _binary_rows(file: Decompressed, limit: int | None) -> Iterator[Row]:
    count, width = _header(file)
    size, buffer, at = 4 * width, b"", 0
    for number in range(count if limit is None else min(count, limit)):
        while (space := buffer.find(b" ", at, at + LONGEST_WORD + 1)) < 0 or (
            len(buffer) < space + 1 + size
        ):
            if space < 0 and len(buffer) - at > LONGEST_WORD:
                place = file.position - len(buffer) + at
                raise CommandError(f"No word ends within {LONGEST_WORD} bytes of byte {place}.")
            more = file.read(_BLOCK)
            if not more:
                raise CommandError(
                    f"Line 1 declares {count} words, but the file ends at byte {file.position} in"
                    f" word {number + 1}."
                )
            buffer, at, space = buffer[at:] + more, 0, 0
        word = buffer[at:space].lstrip(b"\n")
        place, at = file.position - len(buffer) + space - len(word), space + 1 + size
        yield Row(place, word, buffer[space + 1 : at], _word_problem(word))
    if limit is None or count <= limit:
        rest = buffer[at:] + file.read(2)
        if rest.strip(b"\n"):
            place = file.position - len(rest)
            raise CommandError(f"Line 1 declares {count} words, but more follow at byte {place}.")
