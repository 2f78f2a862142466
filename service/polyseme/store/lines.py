"""The lines of `vocabulary.txt`: one word each, UTF-8, ended by a line feed, none empty.

They are read in blocks of whole lines, because a list of all words would stay in the memory of
every worker that once had it.
"""

import mmap
import os
from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import ModelFolderError

Text: TypeAlias = bytes | mmap.mmap

LONGEST = 1 << 16
"""Bytes of the longest line, its line feed included."""
_BLOCK = 1 << 14
"""Bytes of a block, unless its only line is longer."""
_LARGEST = (1 << 32) - 1
_LINE_FEED = ord("\n")


def mapped(file: BufferedReader) -> Text:
    """Map a file; an empty one cannot be mapped."""
    if not os.fstat(file.fileno()).st_size:
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class Block(NamedTuple):
    """Some whole lines of a text."""

    row: int
    """of the first line"""
    start: int
    """where in the text it starts"""
    lines: bytes

    @property
    def words(self) -> list[bytes]:
        """The words, in UTF-8."""
        return self.lines[:-1].split(b"\n")

    def next_starts(self) -> NDArray[np.intp]:
        """Where in the text the line after each of these starts. -> [n]"""
        letters = np.frombuffer(self.lines, np.uint8)
        return np.flatnonzero(letters == _LINE_FEED) + (self.start + 1)


def blocks(text: Text) -> Iterator[Block]:
    """Yield a text in blocks of whole lines; raise ModelFolderError where a line has no end."""
    row = start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + _BLOCK) + 1
        end = end or text.find(b"\n", start, start + LONGEST) + 1
        if not end:
            raise _endless(len(text) - start, row)
        block = Block(row, start, text[start:end])
        yield block
        row, start = row + block.lines.count(b"\n"), end


def _endless(left: int, row: int) -> ModelFolderError:
    if left < LONGEST:
        return ModelFolderError("vocabulary.txt is empty or does not end with a line feed.")
    return ModelFolderError(f"vocabulary.txt has a word of 64 KiB or more, in line {row + 1}.")


def count_lines(text: Text) -> int:
    """The number of words; raise ModelFolderError, with the line, where one is no word."""
    if not text:
        raise ModelFolderError("vocabulary.txt is empty.")
    if len(text) > _LARGEST:
        raise ModelFolderError("vocabulary.txt has 4 GiB or more.")
    count = 0
    for block in blocks(text):
        _require_words(block)
        count = block.row + block.lines.count(b"\n")
    return count


def _require_words(block: Block) -> None:
    try:
        block.lines.decode()
    except UnicodeDecodeError as error:
        line = block.row + block.lines.count(b"\n", 0, error.start) + 1
        raise ModelFolderError(f"vocabulary.txt is not UTF-8 in line {line}.") from None
    if block.lines.startswith(b"\n") or b"\n\n" in block.lines:
        line = block.row + block.words.index(b"") + 1
        raise ModelFolderError(f"vocabulary.txt has no word in line {line}.")
