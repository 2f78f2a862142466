"""The vocabulary of a model: its words and their rows.

The words and their index are memory-mapped files that all workers share; a dict of Python strings
would be copied in each worker (docs/decisions/0004).
"""

import mmap
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from io import BufferedReader
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import ModelFolderError
from polyseme.spellings import spelling_key
from polyseme.words import has_key, is_compound

Buffer: TypeAlias = bytes | mmap.mmap
"""The content of `vocabulary.txt`: one word per line in UTF-8, each ended by a line feed."""
UInts: TypeAlias = NDArray[np.uint32]

MAX_LINE_BYTES = 1 << 16
"""Maximum length of a line in bytes, including the line feed."""
MAX_BUCKET_SIZE = 64
"""Maximum number of words in a bucket. Larger buckets do not occur by chance and are slow."""
_MAX_TEXT_BYTES = (1 << 32) - 1
_MANY_KEYS = 1000
_WRONG_SIZE = "vocabulary.txt: the number of words differs from manifest.json."
_TURKIC = {"tr", "tur", "turkish", "az", "aze", "azerbaijani"}
"""Languages in which `ı` is the lower case of `I`."""


class Vocabulary:
    """The mapping of words to rows and of rows to words."""

    def __init__(
        self, text: Buffer, index: "Index | None" = None, languages: Sequence[str] = ()
    ) -> None:
        """Create a vocabulary from a text and its index, which are not checked.

        Without an index, the text is checked and its index is built. `languages` are those of the
        manifest.
        """
        index = Index.of(text) if index is None else index
        self._text = text
        codes = {language.casefold().replace("_", "-").split("-")[0] for language in languages}
        self.turkic = not codes.isdisjoint(_TURKIC)
        self._buckets = len(index.firsts) - 1
        # An element of a memoryview is a Python int and is read three times as fast as NumPy's.
        self._starts, self._firsts, self._rows, self._keys, self._key_rows = (
            np.asarray(values, np.uint32).data for values in index
        )

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, word: str) -> int | None:
        """Return the row of a word exactly as spelled, None if it is not in the vocabulary.

        Raises ModelFolderError if the file is damaged, which reading it did not find.
        """
        try:
            key = word.encode()
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot represent
            return None
        bucket = crc32(key) % self._buckets
        entry, end = self._firsts[bucket], self._firsts[bucket + 1]
        try:
            while entry < end:
                row = self._rows[entry]
                if self._text[self._starts[row] : self._starts[row + 1] - 1] == key:
                    return row
                entry += 1
        except IndexError:
            raise ModelFolderError("index.npy is damaged.") from None
        return None

    def word(self, row: int) -> str:
        """Return the word of a row; raise ModelFolderError if the file is damaged."""
        try:
            return self._text[self._starts[row] : self._starts[row + 1] - 1].decode()
        except UnicodeDecodeError:
            raise ModelFolderError("vocabulary.txt is damaged.") from None

    def candidates(self, key: str) -> Sequence[tuple[str, int]]:
        """Return the entries with a `spelling_key`, and their rows (`RowLookup`).

        Raises ModelFolderError if the file is damaged.
        """
        key_hash = _key_hash(key)
        first = bisect_left(self._keys, key_hash)
        end = bisect_right(
            self._keys, key_hash, first, min(first + MAX_BUCKET_SIZE, len(self._keys))
        )
        try:
            return [(self.word(row), row) for row in self._key_rows[first:end]]
        except IndexError:
            raise ModelFolderError("index.npy is damaged.") from None

    @cached_property
    def hides_digits(self) -> bool:
        """Whether numbers may be written with `#` or `0` for digits: 10 to 19 are not all here."""
        return any(self.row(str(n)) is None for n in range(10, 20))

    @cached_property
    def has_compounds(self) -> bool:
        """Whether an entry may consist of several words of the tokenizer, such as `C++`.

        This is assumed of vocabularies with more than _MANY_KEYS keys.
        """
        rows = self._key_rows
        return len(rows) > _MANY_KEYS or any(is_compound(self.word(row)) for row in rows)


def map_file(file: BufferedReader) -> Buffer:
    """Map a file, read-only; return b"" for an empty one, which cannot be mapped."""
    if not os.fstat(file.fileno()).st_size:
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class Index(NamedTuple):
    """A hash table of V words in B buckets, as in `index.npy`; B is V, or V + 1 if V is even.

    A lookup compares the words themselves, so wrong `firsts` or `rows` may miss a word but never
    return a wrong row.
    """

    starts: UInts
    """[V+1], the offset in the text of each line, and the end of the last"""
    firsts: UInts
    """[B+1], the start in `rows` of each bucket, and the end of the last"""
    rows: UInts
    """[V], the rows of the words, grouped by bucket, in which they ascend"""
    keys: UInts
    """[K], the hashes of the `spelling_key` of entries with other spellings, ascending"""
    key_rows: UInts
    """[K], the rows of these entries"""

    @classmethod
    def of(cls, text: Buffer, size: int | None = None) -> "Index":
        """Build the index of a text. The bucket of a word is its CRC-32 modulo B.

        Raises ModelFolderError for an invalid line, if a word occurs twice, if a bucket has more
        than MAX_BUCKET_SIZE words, and if the number of words is not `size`.
        """
        if not text:
            raise ModelFolderError("vocabulary.txt is empty.")
        if len(text) > _MAX_TEXT_BYTES:
            raise ModelFolderError("vocabulary.txt has 4 GiB or more.")
        starts, codes, keys, key_rows = array("I", [0]), array("I"), array("I"), array("I")
        while starts[-1] < len(text):
            if len(codes) == size:
                raise ModelFolderError(_WRONG_SIZE)
            line, word = _line(text, starts[-1], len(codes))
            if not (word.isascii() and word.isalnum()) and has_key(word):
                keys.append(_key_hash(spelling_key(word)))
                key_rows.append(len(codes))
            codes.append(crc32(line))
            starts.append(starts[-1] + len(line) + 1)
        if size not in {None, len(codes)}:
            raise ModelFolderError(_WRONG_SIZE)
        hashes = np.asarray(codes, np.uint32)
        _require_unique(text, starts, hashes)
        # B is odd, because modulo a power of two only the last bits of a hash would matter.
        buckets = len(hashes) | 1
        hashes %= np.uint32(buckets)
        rows = np.argsort(hashes, kind="stable")
        widths = np.bincount(hashes, minlength=buckets)
        firsts = np.concatenate([[0], np.cumsum(widths)])
        if widths.max() > MAX_BUCKET_SIZE:
            raise ModelFolderError(
                f"vocabulary.txt has more than {MAX_BUCKET_SIZE} words with the same hash, among"
                f" them that in line {rows[firsts[widths.argmax() + 1] - 1] + 1}."
            )
        order = np.argsort(keys, kind="stable")
        parts = (starts, firsts, rows, np.asarray(keys)[order], np.asarray(key_rows)[order])
        return cls(*(np.asarray(part, np.uint32) for part in parts))

    @classmethod
    def read(cls, values: UInts, text: Buffer, size: int, *, verify: bool) -> "Index":
        """Return the index of a text of `size` words from the numbers of `index.npy`.

        `verify` also compares it with the index that is built from the text. Raises
        ModelFolderError if a file is invalid.
        """
        expected = cls.of(text, size) if verify else None
        index = cls.split(values, size)
        if expected:
            if not all(map(np.array_equal, index[:3], expected[:3])):
                raise ModelFolderError("index.npy is not the index of vocabulary.txt.")
            # The keys may be those of another version of Unicode.
            if (index.keys[1:] < index.keys[:-1]).any() or index.key_rows.max(initial=0) >= size:
                raise ModelFolderError(
                    "index.npy has keys that are not sorted, or have a wrong row."
                )
        ends = [int(end) for end in (index.starts[0], index.starts[-1], *index.firsts[[0, -1]])]
        if ends != [0, len(text), 0, size]:
            raise ModelFolderError("index.npy does not fit vocabulary.txt.")
        return index

    @classmethod
    def split(cls, values: UInts, size: int) -> "Index":
        """Split the array of `index.npy` for `size` words.

        [2V+B+2K+2] -> [V+1], [B+1], [V], [K], [K]
        """
        length = 2 * size + (size | 1) + 2
        count, remainder = divmod(len(values) - length, 2)
        if count < 0 or remainder:
            raise ModelFolderError("index.npy: the length does not fit the number of words.")
        return cls(*np.split(values, [size + 1, length - size, length, length + count]))


def _line(text: Buffer, start: int, row: int) -> tuple[bytes, str]:
    """Return the line of a row, and its word; raise ModelFolderError if it is invalid."""
    end = text.find(b"\n", start, start + MAX_LINE_BYTES)
    if end < 0 and len(text) - start < MAX_LINE_BYTES:
        raise ModelFolderError("vocabulary.txt is empty or does not end with a line feed.")
    if end < 0:
        raise ModelFolderError(f"vocabulary.txt has a word of 64 KiB or more, in line {row + 1}.")
    if end == start:
        raise ModelFolderError(f"vocabulary.txt has no word in line {row + 1}.")
    line = text[start:end]
    try:
        return line, line.decode()
    except UnicodeDecodeError:
        raise ModelFolderError(f"vocabulary.txt is not UTF-8 in line {row + 1}.") from None


def _require_unique(text: Buffer, starts: Sequence[int], hashes: UInts) -> None:
    """Raise ModelFolderError if a word of a text occurs twice; only equal hashes are compared."""
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(np.diff(hashes[order]) == 0)
    seen: set[bytes] = set()
    for row in np.sort(order[np.union1d(same, same + 1)]).tolist():
        word = text[starts[row] : starts[row + 1]]
        if word in seen:
            raise ModelFolderError(f"vocabulary.txt has a word twice, in line {row + 1}.")
        seen.add(word)


def _key_hash(key: str) -> int:
    return crc32(key.encode("utf-8", "surrogatepass"))
