"""Text files of vectors: a word and its values in each line, with a header or without one."""

import codecs
import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from polyseme.engine import Floats
from polyseme.importing.files import HEAD_BYTES, Decompressed, VectorFile
from polyseme.importing.options import ImportOptions, ImportProblem
from polyseme.importing.readers.base import (
    BLANK,
    BLOCK,
    HEADER,
    Row,
    RowReader,
    as_utf8,
    check_dimension,
    encoding_of,
    read_header,
)
from polyseme.importing.readers.dialect import COMMA, POINT, Line, detect_dialect

CONTROL_OF_VALUES = re.compile(rb"[\0-\x08\x0e-\x1a\x7f]")
_MAX_LINE_BYTES = 2 << 20
_SAMPLE_BYTES, _MIN_LINES, _MAX_LINES = 1 << 18, 3, 200
"""The size of the first lines, from which the dialect is detected, and their number."""


class TextReader(RowReader, name="word2vec-text"):
    """A reader of a text file. Its header is that of a word2vec file."""

    unit = "line"
    has_header = True

    @classmethod
    def recognizes(cls, _: bytes, text: bytes) -> bool:
        """Return whether one of the first two lines has a word and values.

        If control characters follow a header, the line needs all values: a line of binary values
        may end with a number.
        """
        header = HEADER.match(text)
        lines = re.split(rb"[\r\n]+", text[header.end() if header else 0 :][: 1 << 20].strip())
        count = max(Line.of(line, one).count for line in lines[:2] for one in (POINT, COMMA))
        needed = int(header[2]) if header and CONTROL_OF_VALUES.search(text) else 1
        return count >= needed and bool(header) == cls.has_header

    def __init__(self, file: VectorFile, options: ImportOptions, head: bytes) -> None:
        """Create a reader; a file with a byte order mark, or in UTF-16 or UTF-32, becomes UTF-8."""
        super().__init__(file, options, as_utf8(head, options))
        self._complete = len(head) < HEAD_BYTES
        self._recoding = encoding_of(head, options)
        self._newline = b"\r" if b"\n" not in self.head and b"\r" in self.head else b"\n"
        if self._recoding:
            self.encoding = "utf-8"

    def dimension(self) -> int:
        """Detect the dialect from the first lines."""
        _, declared, end = read_header(self.head) if self.has_header else (0, None, 0)
        lines = self.head[end:].split(self._newline)
        if len(lines) > 1 and not self._complete:
            lines.pop()
        lines = [line for line in lines if line.strip()]
        count = _SAMPLE_BYTES // max(map(len, lines[:_MIN_LINES]), default=1)
        lines = lines[: max(_MIN_LINES, min(count, _MAX_LINES))]
        self.dialect = detect_dialect(lines, declared, named=self.options.format is not None)
        check_dimension(self.dialect.dimension)
        self.dropped = str(self.dialect)
        return self.dialect.dimension

    def read_rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows; raise ImportProblem if their number differs from the header."""
        count = read_header(self.head)[0] if self.has_header else None
        limit = self.options.limit
        rows = 0
        names = self.dialect.names
        blank: list[int] = []
        for position, line in enumerate(self._lines(file), 1):
            stripped = line.rstrip()
            if position == 1 and self.has_header:
                continue
            if rows == limit:
                return
            if not stripped:
                blank.append(position)
                continue
            if names:
                names = False
                continue
            while blank:  # a row follows, so these lines are not at the end, where they are allowed
                yield Row(blank.pop(0), b"", b"", BLANK)
            if rows == count:
                raise ImportProblem(
                    f"Line 1 declares {count} words, but line {position} has one more."
                )
            fields = self.dialect.divide(stripped)
            if fields is None:
                yield Row(position, b"", b"", self.dialect.problem(stripped))
            else:
                yield Row(position, *fields)
            rows += 1
        if count is not None and rows < min(count, limit or count):
            raise ImportProblem(f"Line 1 declares {count} words, but the file ends after {rows}.")

    def parse(self, rows: list[Row], dimension: int) -> Floats:
        """Return the values, rounded to float32; raise ValueError for an invalid one. -> [n, d]"""
        values = [row.values for row in rows]
        with np.errstate(over="ignore"):
            table = np.loadtxt(values, np.float32, delimiter=" ", comments=None, ndmin=2)
        if table.shape != (len(rows), dimension):
            raise ValueError
        return table

    def _lines(self, file: Decompressed) -> Iterator[bytes]:
        """Yield the lines, each without its end."""
        rest, count = b"", 0
        for block in _recoded(iter(partial(file.read, BLOCK), b""), self._recoding):
            *lines, rest = (rest + block).split(self._newline)
            yield from lines
            count += len(lines)
            if len(rest) > _MAX_LINE_BYTES:
                raise ImportProblem(f"Line {count + 1} is longer than {_MAX_LINE_BYTES} bytes.")
        if rest:
            yield rest


class GloveReader(TextReader, name="glove"):
    """A reader of a text file without a header."""

    has_header = False


def _recoded(blocks: Iterator[bytes], encoding: str | None) -> Iterator[bytes]:
    """Yield blocks in UTF-8. Invalid bytes of UTF-8 remain."""
    if encoding is None:
        yield from blocks
        return
    try:
        for text in codecs.iterdecode(blocks, encoding, "surrogateescape"):
            yield text.encode("utf-8", "surrogateescape")
    except UnicodeError:
        raise ImportProblem(f"The file is not valid {encoding.upper()}.", "encoding") from None
