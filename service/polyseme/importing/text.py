"""Text files of vectors: a word and its values in each line, with a header or without one."""

import codecs
from collections.abc import Iterator
from functools import partial

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.importing.dialect import detect_dialect
from polyseme.importing.files import HEAD_BYTES, Decompressed, VectorFile
from polyseme.importing.options import ImportOptions, ImportProblem
from polyseme.importing.readers import (
    BLANK,
    BLOCK,
    HEADER,
    Row,
    RowReader,
    check_dimension,
    read_header,
)

_MAX_LINE_BYTES = 2 << 20
_SAMPLE_BYTES, _MIN_LINES, _MAX_LINES = 1 << 18, 3, 200
"""The size of the first lines, from which the dialect is detected, and their number."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; that of UTF-32 begins with that of UTF-16."""


class TextReader(RowReader):
    """A reader of a text file. Its header is that of a word2vec file."""

    unit = "line"
    has_header = True

    def __init__(self, file: VectorFile, options: ImportOptions, head: bytes) -> None:
        """Create a reader; a file with a byte order mark, or in UTF-16 or UTF-32, becomes UTF-8."""
        super().__init__(file, options, as_utf8(head, options))
        self.checks_values = options.skip  # otherwise the second pass does
        self._complete = len(head) < HEAD_BYTES
        self._recoding = _encoding(head, options)
        self._newline = b"\r" if b"\n" not in self.head and b"\r" in self.head else b"\n"
        if self._recoding:
            self.encoding = "utf-8"

    def dimension(self) -> int:
        """Detect the dialect from the first lines."""
        _, declared = read_header(self.head) if self.has_header else (0, None)
        header = HEADER.match(self.head) if self.has_header else None
        lines = self.head[header.end() if header else 0 :].split(self._newline)
        if len(lines) > 1 and not self._complete:
            lines.pop()
        lines = [line for line in lines if line.strip()]
        count = _SAMPLE_BYTES // max(map(len, lines[:_MIN_LINES]), default=1)
        lines = lines[: max(_MIN_LINES, min(count, _MAX_LINES))]
        self.dialect = detect_dialect(lines, declared, named=self.options.format is not None)
        check_dimension(self.dialect.dimension)
        self.left_out = str(self.dialect)
        return self.dialect.dimension

    def read_rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows; raise ImportProblem if their number differs from the header."""
        count = read_header(self.head)[0] if self.has_header else None
        limit = self.options.limit
        rows = 0
        names = self.dialect.names
        blank: list[int] = []
        for number, line in enumerate(self._lines(file), 1):
            stripped = line.rstrip()
            if number == 1 and self.has_header:
                continue
            if rows == limit:
                return
            if not stripped:
                blank.append(number)
                continue
            if names:
                names = False
                continue
            while blank:  # a row follows, so these lines are not at the end, where they are allowed
                yield Row(blank.pop(0), b"", b"", BLANK)
            if rows == count:
                raise ImportProblem(
                    f"Line 1 declares {count} words, but line {number} has one more."
                )
            fields = self.dialect.divide(stripped)
            if fields is None:
                yield Row(number, b"", b"", self.dialect.problem(stripped))
            else:
                yield Row(number, *fields)
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


class GloveReader(TextReader):
    """A reader of a text file without a header."""

    has_header = False


def as_utf8(head: bytes, options: ImportOptions) -> bytes:
    """Return the first bytes of a file in UTF-8 if they are in UTF-16 or UTF-32, without a mark."""
    encoding = _encoding(head, options)
    if encoding is None:
        return head
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return decoder.decode(head).encode("utf-8", "replace")


def _encoding(head: bytes, options: ImportOptions) -> str | None:
    """Return the encoding of a file that has to be recoded to UTF-8, or None."""
    if options.encoding.startswith(("utf-16", "utf-32", "utf-8-sig")):
        return options.encoding
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)


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
