"""Readers of files with a row for each word: GloVe's, and word2vec's as text and binary.

A line of text has a word and its values, under a header or without one. A row of a binary file has
a word, a space and the values. The original program ends each row with a line feed, gensim does
not. A word with a space, such as a phrase, shifts the rows after it, so the ends of rows are
checked.
"""

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats
from polyseme.importing import ImportOptions, ImportProblem
from polyseme.importing.dialect import COMMA, POINT, Line, detect_dialect
from polyseme.importing.files import HEAD_BYTES, Decompressed, VectorFile
from polyseme.importing.readers import BLANK, BLOCK, MAX_WORD_BYTES, Row, RowReader
from polyseme.models.manifest import MAX_WIDTH

HEADER = re.compile(rb"[ \t]*([+-]?\d{1,20})[ \t,;]+([+-]?\d{1,20})[ \t]*\r?(?:[\n\r]|\Z)")
"""The first line of a word2vec file: vocabulary size and dimension."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; that of UTF-32 begins with that of UTF-16."""
_CONTROL_OF_VALUES = re.compile(rb"[\0-\x08\x0e-\x1a\x7f]")
_MAX_LINE_BYTES = 2 << 20
_SAMPLE_BYTES, _MIN_LINES, _MAX_LINES = 1 << 18, 3, 200
"""The size of the first lines, from which the dialect is detected, and their number."""
_DTYPES = ("<f4", ">f4", "<f8", ">f8", "<f2")
"""The types of values. The original program and gensim write the first."""
_SAMPLE_ROWS = 4
"""Number of rows from which the type of the values is detected."""
_USUAL = 1e-10, 1e10
"""The magnitudes of usual values, from which their type is detected."""
_MIN_SHARE, _MIN_VALUES = 0.5, 4
"""Minimum share of usual values in the right type, and minimum number of distinct ones."""
_CONTROL = re.compile(rb"[\0-\x1f\x7f]")
_TEXT = re.compile(rb"[^\0-\x1f\x7f]{,256}")


class TextReader(RowReader):
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
        needed = int(header[2]) if header and _CONTROL_OF_VALUES.search(text) else 1
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


class GloveReader(TextReader):
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


class BinaryReader(RowReader):
    """A reader of a word2vec binary file."""

    unit = "byte"
    dtype = _DTYPES[0]
    line_feeds = 0
    """the number of line feeds after each row"""

    @classmethod
    def recognizes(cls, head: bytes, text: bytes) -> bool:
        """Return whether a header and control characters follow, but no text."""
        # A word of text may have control characters, but few files do.
        has_values = bool(HEADER.match(text) and _CONTROL_OF_VALUES.search(text))
        return has_values and not TextReader.recognizes(head, text)

    def dimension(self) -> int:
        """Read the header, and detect the type of the values."""
        shares = {}
        for self.dtype in _DTYPES:
            sample = Decompressed(io.BytesIO(self.head), io.BytesIO(), 0)
            with suppress(ImportProblem):
                rows = list(islice(self.read_rows(sample), _SAMPLE_ROWS))
                usual = self._are_usual(b"".join(row.values for row in rows))
                shares[self.dtype] = float(usual.mean()) if len(usual) >= _MIN_VALUES else 0.0
        certain = [dtype for dtype, share in shares.items() if share == 1]
        if shares.get(_DTYPES[0], 0) >= _MIN_SHARE or not certain:
            certain = [_DTYPES[0]]
        self.dtype = certain[0]
        return read_header(self.head)[1]

    def read_rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows; raise ImportProblem once they are out of step."""
        count, dimension, end = read_header(self.head)
        limit = count if self.options.limit is None else min(count, self.options.limit)
        file.read(end)
        size = np.dtype(self.dtype).itemsize * dimension
        buffer, start, position, self.line_feeds = b"", 0, 0, 0
        for index in range(limit):
            if len(buffer) - start < size + 2 * MAX_WORD_BYTES:
                buffer, start = buffer[start:] + file.read(BLOCK + size), 0
            if index == 1:
                rest = buffer[start : start + MAX_WORD_BYTES]
                self.line_feeds = len(rest) - len(rest.lstrip(b"\n"))
            if index and buffer[start : start + self.line_feeds].strip(b"\n"):
                what = "does not end with a line feed as the first does"
                raise _out_of_step(f"The row at byte {position} {what}")
            start += self.line_feeds if index else 0
            position = file.position - len(buffer) + start
            space = buffer.find(b" ", start, start + MAX_WORD_BYTES + 1)
            if space < 0 and len(buffer) - start > MAX_WORD_BYTES:
                raise ImportProblem(
                    f"The word at byte {position} is longer than {MAX_WORD_BYTES} bytes."
                )
            word, start = buffer[start:space], space + 1
            if space < 0 or len(buffer) < start + size:
                raise ImportProblem(
                    f"Line 1 declares {count} words, but the file ends at byte {file.position} in"
                    f" word {index + 1}."
                )
            if not self.line_feeds and self._is_phrase(buffer[start : start + size + 256], size):
                raise _out_of_step(f"The word at byte {position} has a space")
            if index and self._is_garbage(word):
                what = f"The word at byte {position} is not {self.encoding.upper()} text"
                raise _out_of_step(what, "encoding")
            yield Row(position, word, buffer[start : start + size])
            start += size
        rest = buffer[start:] + file.read(1)
        if limit == count and rest.strip(b"\n"):
            position = file.position - len(rest)
            raise ImportProblem(
                f"Line 1 declares {count} words, but more data follows at byte {position}: the"
                " number is wrong, or a word has a space."
            )

    def parse(self, rows: list[Row], dimension: int) -> Floats:
        """Return the values of some rows. -> [n, d]"""
        data = b"".join(row.values for row in rows)
        values: Floats = np.frombuffer(data, self.dtype).reshape(-1, dimension)
        with np.errstate(invalid="ignore"):
            return values.astype(np.float64 if values.itemsize == 8 else np.float32, copy=False)

    def _is_garbage(self, word: bytes) -> bool:
        """Return whether the rows are out of step, by a word between rows of uncertain ends.

        A row that ends with a line feed has a certain end, unless one is in a word.
        """
        if self.line_feeds:
            return b"\n" in word
        return bool(_CONTROL.search(word)) or (bool(word) and not self.decode(word)[0])

    def _is_phrase(self, data: bytes, size: int) -> bool:
        """Return whether what follows a space is the rest of a word, before the values.

        It is if the values are usual only after a second space.
        """
        text = _TEXT.match(data)
        ends = [space.end() for space in re.finditer(b" ", text[0] if text else b"")]
        values = [data[end : end + size] for end in ends if end + size <= len(data)]
        # Few values begin with text that has a space, so most rows are not converted.
        return any(self._are_usual(some).all() for some in values) and not (
            self._are_usual(data[:size]).all()
        )

    def _are_usual(self, data: bytes) -> NDArray[np.bool_]:
        """Return whether each distinct value, other than 0, has a usual magnitude."""
        with np.errstate(all="ignore"):
            values = np.unique(np.abs(np.frombuffer(data, self.dtype).astype(np.float64)))
        values = values[values != 0]
        usual: NDArray[np.bool_] = (values > _USUAL[0]) & (values < _USUAL[1])
        return usual


def _out_of_step(what: str, *options: str) -> ImportProblem:
    return ImportProblem(
        f"{what}, so the rows are out of step: line 1 declares a wrong dimension, or a word has a"
        " space; replace spaces in words by `_`, or save the vectors as text.",
        *options,
    )


def read_header(head: bytes) -> tuple[int, int, int]:
    """Return the vocabulary size and the dimension of a word2vec file, and the end of line 1."""
    match = HEADER.match(head)
    if not match:
        raise ImportProblem(
            "Line 1 is not a word2vec header. Expected two integers: vocabulary size and dimension."
        )
    count, dimension = int(match[1]), int(match[2])
    if count < 1:
        raise ImportProblem(f"Line 1 declares {count} words; there must be at least one.")
    check_dimension(dimension)
    return count, dimension, match.end()


def check_dimension(dimension: int) -> None:
    """Raise ImportProblem for a dimension that is not supported."""
    if not 1 <= dimension <= MAX_WIDTH:
        raise ImportProblem(
            f"Line 1 has vectors of dimension {dimension}; 1 to {MAX_WIDTH} are supported."
        )


def as_utf8(head: bytes, options: ImportOptions) -> bytes:
    """Return the first bytes of a file in UTF-8 if they are in UTF-16 or UTF-32, without a mark."""
    encoding = encoding_of(head, options)
    if encoding is None:
        return head
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    try:
        return decoder.decode(head).encode("utf-8", "replace")
    except UnicodeError:  # of UTF-16 and UTF-32 without the order of bytes
        problem = f"The file has no byte order mark of {encoding.upper()}."
        raise ImportProblem(problem, "encoding") from None


def encoding_of(head: bytes, options: ImportOptions) -> str | None:
    """Return the encoding of a file that has to be recoded to UTF-8, or None."""
    if options.encoding.startswith(("utf-16", "utf-32", "utf-8-sig")):
        return options.encoding
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
