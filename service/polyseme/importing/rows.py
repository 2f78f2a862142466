"""The rows of a file of vectors, one by one, each with its place and what is wrong with it."""

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from polyseme.importing.compression import Plain, open_plain
from polyseme.importing.formats import HEADER, Format
from polyseme.importing.refusal import VectorFileError

WIDEST = 65_536
_LONGEST_LINE = 2 << 20
LONGEST_WORD = 4096
"""Bytes of a word, where it may also be that nothing ends what is taken for one."""
_BLOCK = 1 << 20


class Row(NamedTuple):
    """A word and its numbers as the file has them."""

    place: int
    """of its line, counted from 1, or of its first byte, counted from 0"""
    word: bytes
    numbers: bytes
    """text between spaces, or little-endian float32"""
    problem: str | None = None


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors in one of the row formats: GloVe, word2vec text or word2vec binary."""

    path: Path
    format: Format
    member: str | None = None
    limit: int | None = None
    """how many rows are read at most"""

    @property
    def unit(self) -> str:
        """What places are counted in."""
        return "byte" if self.format == "word2vec-binary" else "line"

    def rows(self, plain: Plain) -> Iterator[Row]:
        """Yield the rows of the opened file; raise VectorFileError where it cannot go on."""
        if self.format == "word2vec-binary":
            return _binary_rows(plain, self.limit)
        return _text_rows(plain, self.limit, counted=self.format == "word2vec-text")

    def open(self) -> AbstractContextManager[Plain]:
        """Open the file."""
        return open_plain(self.path, self.member)


def _header(plain: Plain) -> tuple[int, int]:
    """The first line of a word2vec file: how many words, and how many numbers for each."""
    line = plain.line(LONGEST_WORD)
    found = HEADER.fullmatch(line)
    if not found:
        raise VectorFileError(
            "Line 1 is not the header of a word2vec file: the number of words and of numbers each."
        )
    count, width = int(found[1]), int(found[2])
    if count < 1:
        raise VectorFileError(f"Line 1 says that there are {count} words; there has to be one.")
    _check_width(width)
    return count, width


def _check_width(width: int) -> None:
    if not 1 <= width <= WIDEST:
        raise VectorFileError(f"Line 1 has vectors of {width} numbers; 1 to {WIDEST} can be had.")


def _text_rows(plain: Plain, limit: int | None, *, counted: bool) -> Iterator[Row]:
    count, width = _header(plain) if counted else (None, None)
    rows, blank = 0, 0
    for number, line in _lines(plain, 2 if counted else 1):
        if rows == limit:
            return
        if not line:
            blank = blank or number
            continue
        if blank:
            raise VectorFileError(f"Line {blank} is empty.")
        if rows == count:
            raise VectorFileError(f"Line 1 says {count} words, but line {number} is one more.")
        if width is None:
            width = line.count(b" ")
            _check_width(width)
        yield _text_row(number, line, width)
        rows += 1
    if count is not None and rows < (count if limit is None else min(count, limit)):
        raise VectorFileError(f"Line 1 says {count} words, but the file ends after {rows}.")


def _lines(plain: Plain, first: int) -> Iterator[tuple[int, bytes]]:
    """Number the lines and take what gensim takes off their ends."""
    for number in itertools.count(first):
        line = plain.line(_LONGEST_LINE)
        if not line:
            return
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise VectorFileError(f"Line {number} is longer than {_LONGEST_LINE} bytes.")
        yield number, line.rstrip()


def _text_row(number: int, line: bytes, width: int) -> Row:
    """Split a line; a few words of GloVe's largest files have spaces in them."""
    fields = line.rsplit(b" ", width)
    word, numbers = fields[0], b" ".join(fields[1:])
    found = line.count(b" ")
    if found != width and (found < width or any(map(_is_number, word.split(b" ")[1:]))):
        return Row(number, b"", b"", f"has {found} numbers where line 1 has {width}")
    return Row(number, word, numbers, _of_word(word))


def _of_word(word: bytes) -> str | None:
    """What is wrong with a word."""
    if not word.strip():
        return "has no word"
    return f"has a word of more than {LONGEST_WORD} bytes" if len(word) > LONGEST_WORD else None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _binary_rows(plain: Plain, limit: int | None) -> Iterator[Row]:
    count, width = _header(plain)
    size, buffer, at = 4 * width, b"", 0
    for number in range(count if limit is None else min(count, limit)):
        while (space := buffer.find(b" ", at, at + LONGEST_WORD + 1)) < 0 or (
            len(buffer) < space + 1 + size
        ):
            if space < 0 and len(buffer) - at > LONGEST_WORD:
                place = plain.given - len(buffer) + at
                raise VectorFileError(f"No word ends within {LONGEST_WORD} bytes of byte {place}.")
            more = plain.read(_BLOCK)
            if not more:
                raise VectorFileError(
                    f"Line 1 says {count} words, but the file ends at byte {plain.given} in word"
                    f" {number + 1}."
                )
            buffer, at, space = buffer[at:] + more, 0, 0
        word = buffer[at:space].lstrip(b"\n")
        place, at = plain.given - len(buffer) + space - len(word), space + 1 + size
        yield Row(place, word, buffer[space + 1 : at], _of_word(word))
    if limit is None or count <= limit:
        rest = buffer[at:] + plain.read(2)
        if rest.strip(b"\n"):
            place = plain.given - len(rest)
            raise VectorFileError(f"Line 1 says {count} words, but more follow at byte {place}.")
