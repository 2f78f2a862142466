"""The words of a model, and the row of each.

Text and index stay on disk, mapped into memory and shared by all workers; a dict of Python strings
would be every worker's own (docs/decisions/0004).
"""

import mmap
from io import BufferedReader
from zlib import crc32

import numpy as np

from polyseme.store.fingerprint import require_said
from polyseme.store.index import Index, build, require_findable, require_same_lines, require_whole
from polyseme.store.lines import Text, count_lines, mapped
from polyseme.store.manifest import INDEX, VOCABULARY
from polyseme.store.table import read_header

_NUMBER = np.dtype("<u4")


class Vocabulary:
    """Words by row and rows by word."""

    def __init__(self, text: Text, index: Index) -> None:
        """Take a text and its index, both checked."""
        self._text = text
        self._buckets = index.buckets
        # An element of a memoryview is a Python number, and comes three times as fast as NumPy's.
        self._starts, self._firsts, self._rows = (
            np.asarray(numbers, np.uint32).data
            for numbers in (index.starts, index.firsts, index.rows)
        )

    @classmethod
    def of(cls, text: Text) -> "Vocabulary":
        """Index a text: one word a line, UTF-8, each line ended by a line feed.

        Raises ModelFolderError where it is not a vocabulary.
        """
        size = count_lines(text)
        return cls(text, Index.of(build(text, size), size))

    @classmethod
    def read(
        cls, file: BufferedReader, index_file: BufferedReader | None, size: int, *, verify: bool
    ) -> "Vocabulary":
        """Map a vocabulary of `size` words and its index; without one, build it in memory.

        `verify` also looks for words that the index leads nobody to, and for words that are there
        twice. Raises ModelFolderError with one sentence on what is wrong.
        """
        text = mapped(file)
        require_said(count_lines(text) == size, VOCABULARY, "number of words")
        if index_file is None:
            vocabulary = cls(text, Index.of(build(text, size), size))
        else:
            end = read_header(index_file, INDEX, _NUMBER, 1).end
            numbers = mapped(index_file)
            index = Index.of(np.frombuffer(numbers, _NUMBER, offset=end), size)
            require_same_lines(index, text)
            require_whole(index)
            if verify:
                require_findable(index, text)
            vocabulary = cls(text, index)
            _let_go(numbers)
        _let_go(text)
        return vocabulary

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, word: str) -> int | None:
        """Return the row of a word as it is spelled, None where it is lacking."""
        try:
            key = word.encode()
        except UnicodeEncodeError:  # half a surrogate pair, which no text on disk has
            return None
        bucket = crc32(key) % self._buckets
        place, end = self._firsts[bucket], self._firsts[bucket + 1]
        while place < end:
            row = self._rows[place]
            if self._text[self._starts[row] : self._starts[row + 1] - 1] == key:
                return row
            place += 1
        return None

    def word(self, row: int) -> str:
        """Return the word of a row."""
        return self._text[self._starts[row] : self._starts[row + 1] - 1].decode()


def _let_go(text: Text) -> None:
    """Give the pages back that checking has read: they stay in the cache, which all share."""
    if isinstance(text, mmap.mmap):
        text.madvise(mmap.MADV_DONTNEED)
