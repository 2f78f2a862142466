"""word2vec's binary files: a header, then each word, a space and the values.

The original program ends each row with a line feed, gensim does not. A word with a space, such as a
phrase, shifts the rows after it, so the ends of rows are checked.
"""

import io
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats
from polyseme.importing.files import Decompressed
from polyseme.importing.options import ImportProblem
from polyseme.importing.readers.base import (
    BLOCK,
    HEADER,
    MAX_WORD_BYTES,
    Row,
    RowReader,
    read_header,
)
from polyseme.importing.readers.text import CONTROL_OF_VALUES, TextReader

DTYPES = ("<f4", ">f4", "<f8", ">f8", "<f2")
"""The types of values. The original program and gensim write the first."""
_SAMPLE_ROWS = 4
"""Number of rows from which the type of the values is detected."""
_USUAL = 1e-10, 1e10
"""The magnitudes of usual values, from which their type is detected."""
_MIN_SHARE, _MIN_VALUES = 0.5, 4
"""Minimum share of usual values in the right type, and minimum number of distinct ones."""
_CONTROL = re.compile(rb"[\0-\x1f\x7f]")
_TEXT = re.compile(rb"[^\0-\x1f\x7f]{,256}")


class BinaryReader(RowReader, name="word2vec-binary"):
    """A reader of a word2vec binary file."""

    unit = "byte"
    dtype = DTYPES[0]
    line_feeds = 0
    """the number of line feeds after each row"""

    @classmethod
    def recognizes(cls, head: bytes, text: bytes) -> bool:
        """Return whether a header and control characters follow, but no text."""
        # A word of text may have control characters, but few files do.
        has_values = bool(HEADER.match(text) and CONTROL_OF_VALUES.search(text))
        return has_values and not TextReader.recognizes(head, text)

    def dimension(self) -> int:
        """Read the header, and detect the type of the values."""
        shares = {}
        for self.dtype in DTYPES:
            sample = Decompressed(io.BytesIO(self.head), io.BytesIO(), 0)
            with suppress(ImportProblem):
                rows = list(islice(self.read_rows(sample), _SAMPLE_ROWS))
                usual = self._are_usual(b"".join(row.values for row in rows))
                shares[self.dtype] = float(usual.mean()) if len(usual) >= _MIN_VALUES else 0.0
        certain = [dtype for dtype, share in shares.items() if share == 1]
        if shares.get(DTYPES[0], 0) >= _MIN_SHARE or not certain:
            certain = [DTYPES[0]]
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
