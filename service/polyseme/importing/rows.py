"""Parse GloVe and word2vec files into rows, and check each row in a first pass over the file.

Errors name the line, or the byte offset in a binary file.
"""

import itertools
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polyseme.errors import CommandError
from polyseme.importing.formats import HEADER, Decompressed, Format, open_decompressed
from polyseme.progress import ProgressBar

MAX_DIMENSION = 65_536
MAX_WORD_BYTES = 4096
"""Longer words are rejected, so that a binary file without separators is not read to its end."""
OVERFLOW = {"float16": 65_520.0, "float32": 2.0**128 * (1 - 2.0**-25)}
"""The smallest value that each dtype rounds to infinity."""
SKIP_HINT = "--skip-bad-rows skips such rows"
_MAX_LINE_BYTES = 2 << 20
_BLOCK = 1 << 20
_REPORT_INTERVAL = 2048
"""Rows between two progress reports."""
_EMPTY = "is empty"
_INVALID_NUMBER = "has an invalid number"
_FEW_ROWS = 100
"""Up to this number of rows may be skipped, even if fewer are usable."""


class Row(NamedTuple):
    """A word and its values, as bytes of the file."""

    position: int
    """the line, counted from 1, or the byte offset, counted from 0"""
    word: bytes
    values: bytes
    """text separated by spaces, or little-endian float32"""
    problem: str | None = None
    """why the row is unusable, or None"""


@dataclass(frozen=True)
class VectorFile:
    """A GloVe, word2vec text or word2vec binary file."""

    path: Path
    format: Format
    member: str | None = None
    limit: int | None = None
    """maximum number of rows to read"""

    @property
    def unit(self) -> str:
        """The unit of `Row.position`."""
        return "byte" if self.format == "word2vec-binary" else "line"

    def open(self) -> AbstractContextManager[Decompressed]:
        """Open the file."""
        return open_decompressed(self.path, self.member)

    def rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows of the opened file; raise CommandError if it cannot be parsed."""
        if self.format == "word2vec-binary":
            return _binary_rows(file, self.limit)
        return _text_rows(file, self.limit, has_header=self.format == "word2vec-text")


@dataclass
class Scan:
    """The result of checking a file."""

    file: VectorFile
    encoding: str
    dtype: str
    """the dtype in which all values must be finite"""
    dimension: int = 0
    words: dict[str, int] = field(default_factory=dict)
    """each word and the position of its row"""
    skipped: dict[int, str] = field(default_factory=dict)
    """the position of each unusable row, and the reason"""

    def rows(self, file: Decompressed, bar: ProgressBar) -> Iterator[Row]:
        """Yield the rows that are not in `skipped`; during the scan, also unusable ones."""
        for number, row in enumerate(self.file.rows(file), 1):
            if row.position not in self.skipped:
                yield row
            if not number % _REPORT_INTERVAL:
                bar.reach(file.done, number)


def scan(
    file: VectorFile,
    bar: ProgressBar,
    *,
    encoding: str = "utf-8",
    dtype: str = "float32",
    skip: bool = False,
    parse_values: bool = False,
) -> Scan:
    """Check every row and collect the words.

    Checks each word, the number of values, and that the values of a binary file are finite. The
    values of a text file are parsed only with `parse_values` or `skip`; otherwise the second pass
    parses them. Without `skip`, the first unusable row raises CommandError. With it, unusable rows
    are skipped; CommandError is raised if no row is usable, or if the unusable rows are more than
    _FEW_ROWS and more than the usable rows, not counting blank lines.
    """
    found = Scan(file, encoding, dtype)
    with file.open() as opened:
        for row in found.rows(opened, bar):
            problem = row.problem or _add(found, row, parse_values=parse_values or skip)
            if problem:
                if not skip:
                    position = f"{file.unit.capitalize()} {row.position}"
                    raise CommandError(f"{position} {problem}; {SKIP_HINT}.")
                found.skipped[row.position] = problem
        bar.reach(opened.done, len(found.words))
    if not found.words:
        vectors = "usable vectors: all rows were skipped" if found.skipped else "vectors"
        raise CommandError(f"The file has no {vectors}.")
    skipped = sum(problem != _EMPTY for problem in found.skipped.values())
    if skipped > max(len(found.words), _FEW_ROWS):
        place, why = next(iter(found.skipped.items()))
        raise CommandError(
            f"Most rows are unusable, {skipped:,} of {skipped + len(found.words):,}:"
            f" {file.unit} {place} {why}."
        )
    return found


def _add(found: Scan, row: Row, *, parse_values: bool) -> str | None:
    """Add a row to the scan; return why it is unusable, or None."""
    try:
        word = row.word.decode(found.encoding)
        word.encode()
    except UnicodeError:
        return (
            f"has a word that is not {found.encoding.upper()} (--encoding names another encoding)"
        )
    if "\n" in word:
        return "has a line feed in its word"
    if word in found.words:
        return f"repeats the word of {found.file.unit} {found.words[word]}"
    problem = _value_problem(found, row.values, parse_text=parse_values)
    if problem is None:
        found.words[word] = row.position
        binary = found.file.format == "word2vec-binary"
        dimension = len(row.values) // 4 if binary else row.values.count(b" ") + 1
        found.dimension = found.dimension or dimension
    return problem


def _value_problem(found: Scan, values: bytes, *, parse_text: bool) -> str | None:
    """Return why the values of a row are unusable, or None."""
    limit = OVERFLOW[found.dtype]
    if found.file.format == "word2vec-binary":
        finite = float(np.abs(np.frombuffer(values, "<f4")).max()) < limit
    elif b"_" in values or not values.isascii():
        return _INVALID_NUMBER  # Python accepts `1_000` and digits of other scripts
    elif parse_text:
        try:
            numbers = [float(value) for value in values.split(b" ")]
        except ValueError:
            return _INVALID_NUMBER
        finite = math.isfinite(sum(numbers)) and max(map(abs, numbers)) < limit
    else:
        return None
    return None if finite else not_finite(found.dtype)


def not_finite(dtype: str) -> str:
    """Return the message for a row with NaN, infinity or a value too large for the dtype."""
    return f"has a value that is not finite as {dtype}"


def _header(file: Decompressed) -> tuple[int, int]:
    """Read the first line of a word2vec file: vocabulary size and dimension."""
    found = HEADER.fullmatch(file.line(MAX_WORD_BYTES))
    if not found:
        raise CommandError(
            "Line 1 is not a word2vec header. Expected two integers: vocabulary size and dimension."
        )
    count, dimension = int(found[1]), int(found[2])
    if count < 1:
        raise CommandError(f"Line 1 declares {count} words; there must be at least one.")
    _check_dimension(dimension)
    return count, dimension


def _check_dimension(dimension: int) -> None:
    if not 1 <= dimension <= MAX_DIMENSION:
        raise CommandError(
            f"Line 1 has vectors of dimension {dimension}; 1 to {MAX_DIMENSION} are supported."
        )


def _text_rows(file: Decompressed, limit: int | None, *, has_header: bool) -> Iterator[Row]:
    count, dimension = _header(file) if has_header else (None, None)
    rows = 0
    blank: list[int] = []
    for number in itertools.count(2 if has_header else 1):
        line = file.line(_MAX_LINE_BYTES)
        if not line:
            break
        if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise CommandError(f"Line {number} is longer than {_MAX_LINE_BYTES} bytes.")
        if rows == limit:
            return
        line = line.rstrip()  # as gensim does
        if not line:
            blank.append(number)
            continue
        while blank:  # A row follows, so these lines are not at the end, where they are allowed.
            yield Row(blank.pop(0), b"", b"", _EMPTY)
        if rows == count:
            raise CommandError(f"Line 1 declares {count} words, but line {number} has one more.")
        if dimension is None:
            dimension = line.count(b" ")
            _check_dimension(dimension)
        yield _text_row(number, line, dimension, "declares" if has_header else "has")
        rows += 1
    if count is not None and rows < (count if limit is None else min(count, limit)):
        raise CommandError(f"Line 1 declares {count} words, but the file ends after {rows}.")


def _text_row(number: int, line: bytes, dimension: int, verb: str) -> Row:
    """Split a line; some words in GloVe's largest files contain spaces."""
    fields = line.rsplit(b" ", dimension)
    word, values = fields[0], b" ".join(fields[1:])
    found = line.count(b" ")
    if found != dimension and (found < dimension or any(map(_is_number, word.split(b" ")[1:]))):
        return Row(number, b"", b"", f"has {found} values, but line 1 {verb} {dimension}")
    return Row(number, word, values, _word_problem(word))


def _word_problem(word: bytes) -> str | None:
    if not word.strip():
        return "has no word"
    return f"has a word of more than {MAX_WORD_BYTES} bytes" if len(word) > MAX_WORD_BYTES else None


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _binary_rows(file: Decompressed, limit: int | None) -> Iterator[Row]:
    count, dimension = _header(file)
    size, buffer, at = 4 * dimension, b"", 0
    for number in range(count if limit is None else min(count, limit)):
        while (space := buffer.find(b" ", at, at + MAX_WORD_BYTES + 1)) < 0 or (
            len(buffer) < space + 1 + size
        ):
            if space < 0 and len(buffer) - at > MAX_WORD_BYTES:
                position = file.position - len(buffer) + at
                raise CommandError(
                    f"The word at byte {position} is longer than {MAX_WORD_BYTES} bytes."
                )
            block = file.read(_BLOCK)
            if not block:
                raise CommandError(
                    f"Line 1 declares {count} words, but the file ends at byte {file.position} in"
                    f" word {number + 1}."
                )
            buffer, at, space = buffer[at:] + block, 0, 0
        word = buffer[at:space].lstrip(b"\n")
        position, at = file.position - len(buffer) + space - len(word), space + 1 + size
        yield Row(position, word, buffer[space + 1 : at], _word_problem(word))
    if limit is None or count <= limit:
        rest = buffer[at:] + file.read(2)
        if rest.strip(b"\n"):
            position = file.position - len(rest)
            raise CommandError(
                f"Line 1 declares {count} words, but more data follows at byte {position}."
            )
