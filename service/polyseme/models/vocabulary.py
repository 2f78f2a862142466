"""The vocabulary of a model: its words and their rows.

The words and their index are memory-mapped files that all workers share; a dict of Python strings
would be copied in each worker (docs/decisions/0004).
"""

import mmap
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BufferedReader
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import ModelFolderError
from polyseme.spellings import spelling_key
from polyseme.words import has_spellings, is_compound

Buffer: TypeAlias = bytes | mmap.mmap
"""The content of `vocabulary.txt`: one word per line in UTF-8, each ended by a line feed."""
UInts: TypeAlias = NDArray[np.uint32]

MAX_LINE_BYTES = 1 << 16
"""Maximum length of a line in bytes, including the line feed."""
MAX_BUCKET_SIZE = 64
"""Maximum number of words in a bucket. Larger buckets do not occur by chance and are slow."""
_MAX_TEXT_BYTES = (1 << 32) - 1
_BLOCK_BYTES = 1 << 14
"""Maximum bytes of a block of lines, unless it is a single longer line."""
_BLOCK_ENTRIES = 1 << 14
"""Index entries checked at once; small, because a worker's heap does not shrink."""


_MANY_KEYS = 1000
_TURKIC = {"tr", "tur", "turkish", "az", "aze", "azerbaijani"}
"""Languages in which `ı` is the lower case of `I`."""


class Vocabulary:
    """The mapping of words to rows and of rows to words."""

    def __init__(self, text: Buffer, index: "Index", languages: Sequence[str] = ()) -> None:
        """Create a vocabulary from a text and its index, which are not checked.

        `languages` are those of the manifest.
        """
        self._text = text
        codes = {language.casefold().replace("_", "-").split("-")[0] for language in languages}
        self.turkic = not codes.isdisjoint(_TURKIC)
        self._buckets = index.buckets
        # An element of a memoryview is a Python int and is read three times as fast as NumPy's.
        self._starts, self._firsts, self._rows, self._keys, self._key_rows = (
            np.asarray(values, np.uint32).data for values in index
        )

    @classmethod
    def of(cls, text: Buffer, languages: Sequence[str] = ()) -> "Vocabulary":
        """Build the vocabulary of a text; raise ModelFolderError if it is invalid."""
        size = count_lines(text)
        return cls(text, Index.of(build_index(text, size), size), languages)

    @classmethod
    def read(
        cls,
        text: Buffer,
        values: UInts,
        size: int,
        *,
        verify: bool,
        languages: Sequence[str] = (),
    ) -> "Vocabulary":
        """Return a vocabulary of `size` words with the numbers of `index.npy`.

        `verify` also checks each line and that the index finds each word, which occurs once.
        `languages` are those of the manifest. Raises ModelFolderError if a file is invalid.
        """
        if verify and count_lines(text) != size:
            raise ModelFolderError(
                "vocabulary.txt: the number of words differs from manifest.json."
            )
        index = Index.of(values, size)
        if verify:
            check_index(index, text)
        ends = [int(end) for end in (index.starts[0], index.starts[-1], *index.firsts[[0, -1]])]
        if ends != [0, len(text), 0, size]:
            raise ModelFolderError("index.npy does not fit vocabulary.txt.")
        return cls(text, index, languages)

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


class Block(NamedTuple):
    """Some complete lines of a text.

    The text is processed in blocks, because a worker would keep the memory of a list of all words.
    """

    row: int
    """row of the first line"""
    start: int
    """offset of the first line in the text"""
    lines: bytes

    @property
    def words(self) -> list[bytes]:
        """The words, in UTF-8."""
        return self.lines[:-1].split(b"\n")

    def next_starts(self) -> NDArray[np.intp]:
        """Return the offset in the text after each of the block's n lines. -> [n]"""
        line_feeds = np.flatnonzero(np.frombuffer(self.lines, np.uint8) == ord("\n"))
        return line_feeds + (self.start + 1)


def blocks(text: Buffer) -> Iterator[Block]:
    """Yield a text in blocks of complete lines.

    Raises ModelFolderError for a line without a line feed or longer than MAX_LINE_BYTES.
    """
    row = start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
        end = end or text.find(b"\n", start, start + MAX_LINE_BYTES) + 1
        if not end and len(text) - start < MAX_LINE_BYTES:
            raise ModelFolderError("vocabulary.txt is empty or does not end with a line feed.")
        if not end:
            raise ModelFolderError(
                f"vocabulary.txt has a word of 64 KiB or more, in line {row + 1}."
            )
        block = Block(row, start, text[start:end])
        yield block
        row, start = row + block.lines.count(b"\n"), end


def count_lines(text: Buffer) -> int:
    """Return the number of words; raise ModelFolderError, with the line, for an invalid word."""
    if not text:
        raise ModelFolderError("vocabulary.txt is empty.")
    if len(text) > _MAX_TEXT_BYTES:
        raise ModelFolderError("vocabulary.txt has 4 GiB or more.")
    count = 0
    for block in blocks(text):
        try:
            block.lines.decode()
        except UnicodeDecodeError as error:
            line = block.row + block.lines.count(b"\n", 0, error.start) + 1
            raise ModelFolderError(f"vocabulary.txt is not UTF-8 in line {line}.") from None
        if block.lines.startswith(b"\n") or b"\n\n" in block.lines:
            line = block.row + block.words.index(b"") + 1
            raise ModelFolderError(f"vocabulary.txt has no word in line {line}.")
        count = block.row + block.lines.count(b"\n")
    return count


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
    """[V], the rows of the words, grouped by bucket"""
    keys: UInts
    """[K], the hashes of the `spelling_key` of entries with other spellings, ascending"""
    key_rows: UInts
    """[K], the rows of these entries"""

    @classmethod
    def of(cls, values: UInts, size: int) -> "Index":
        """Split the array of `index.npy` for `size` words.

        [2V+B+2K+2] -> [V+1], [B+1], [V], [K], [K]
        """
        length = _index_length(size)
        count, remainder = divmod(len(values) - length, 2)
        if count < 0 or remainder:
            raise ModelFolderError("index.npy: the length does not fit the number of words.")
        return cls(*np.split(values, [size + 1, length - size, length, length + count]))

    @property
    def buckets(self) -> int:
        """B, the number of buckets."""
        return len(self.firsts) - 1

    def line(self, text: Buffer, row: int) -> bytes:
        """Return the word of a row, in UTF-8."""
        return text[int(self.starts[row]) : int(self.starts[row + 1]) - 1]


def _index_length(size: int) -> int:
    """Return the length of the array without keys."""
    # B is odd, because modulo a power of two only the last bits of a hash would matter.
    return 2 * size + (size | 1) + 2


def build_index(text: Buffer, size: int) -> UInts:
    """Return the array of `index.npy` for a text of `size` lines. -> [2V+B+2K+2]

    The bucket of a word is its CRC-32 modulo B; the rows of a bucket are in ascending order. Raises
    ModelFolderError if a word occurs twice or a bucket has more than MAX_BUCKET_SIZE words.
    """
    values = np.zeros(_index_length(size), np.uint32)
    index = Index.of(values, size)
    hashes = np.empty(size, np.uint32)
    for block in blocks(text):
        starts = block.next_starts()
        index.starts[block.row + 1 : block.row + 1 + len(starts)] = starts
        hashes[block.row : block.row + len(starts)] = _hashes(block.words)
    hashes %= np.uint32(index.buckets)
    index.rows[:] = np.argsort(hashes, kind="stable")
    np.cumsum(np.bincount(hashes, minlength=index.buckets), out=index.firsts[1:])
    widths = np.diff(index.firsts)
    if widths.max() > MAX_BUCKET_SIZE:
        first, last = index.firsts[widths.argmax() :][:2]
        seen: set[bytes] = set()
        for row in index.rows[first:last].tolist():
            word = index.line(text, row)
            if word in seen:
                raise _duplicate(row)
            seen.add(word)
        raise ModelFolderError(
            f"vocabulary.txt has more than {MAX_BUCKET_SIZE} words with the same hash, among them"
            f" that in line {row + 1}."
        )
    _check_words(index, text)
    return np.concatenate([values, *_spelling_keys(text)])


def _spelling_keys(text: Buffer) -> tuple[UInts, UInts]:
    """Return the `keys` and `key_rows` of an index."""
    keys, rows = array("I"), array("I")
    for block in blocks(text):
        for row, word in enumerate(block.lines.decode()[:-1].split("\n"), block.row):
            if not (word.isascii() and word.isalnum()) and has_spellings(word):
                keys.append(_key_hash(spelling_key(word)))
                rows.append(row)
    hashes = np.asarray(keys, np.uint32)
    order = np.argsort(hashes, kind="stable")
    return hashes[order], np.asarray(rows, np.uint32)[order]


def _key_hash(key: str) -> int:
    return crc32(key.encode("utf-8", "surrogatepass"))


def _hashes(words: Sequence[bytes]) -> UInts:
    return np.fromiter(map(crc32, words), np.uint32, len(words))


def check_index(index: Index, text: Buffer) -> None:
    """Raise ModelFolderError unless the index has the text's lines and finds each row by its word.

    Each word must occur once.
    """
    if index.starts[0]:
        raise ModelFolderError("index.npy: the start of line 1 differs from vocabulary.txt.")
    for block in blocks(text):
        starts = block.next_starts()
        same = index.starts[block.row + 1 : block.row + 1 + len(starts)] == starts
        if not same.all():
            line = block.row + int(same.argmin()) + 1
            raise ModelFolderError(
                f"index.npy: the end of line {line} differs from vocabulary.txt."
            )
    size, firsts = len(index.rows), index.firsts
    # In uint32, the size of a bucket that ends before its start wraps to about 2**32.
    largest = max(
        np.diff(firsts[at : at + _BLOCK_ENTRIES + 1]).max(initial=0)
        for at in range(0, len(firsts), _BLOCK_ENTRIES)
    )
    if firsts[0] or firsts[-1] != size or largest > MAX_BUCKET_SIZE:
        raise ModelFolderError(
            f"index.npy has buckets that are not contiguous or exceed {MAX_BUCKET_SIZE} rows."
        )
    # Mapped memory is returned to the operating system immediately, unlike the heap.
    seen = np.frombuffer(mmap.mmap(-1, size), np.bool_)
    for at in range(0, size, _BLOCK_ENTRIES):
        rows = index.rows[at : at + _BLOCK_ENTRIES]
        seen[rows[rows < size]] = True
    if not seen.all():
        raise ModelFolderError("index.npy does not have each row of vocabulary.txt exactly once.")
    if (index.keys[1:] < index.keys[:-1]).any() or index.key_rows.max(initial=0) >= size:
        raise ModelFolderError("index.npy has keys that are not sorted, or have a wrong row.")
    _check_words(index, text)


def _check_words(index: Index, text: Buffer) -> None:
    """Raise ModelFolderError unless each word is in its bucket and occurs once.

    Each iteration compares all words of a block with the next entry of their buckets.
    """
    for block in blocks(text):
        words = block.words
        buckets = _hashes(words) % np.uint32(index.buckets)
        entries, ends = index.firsts[buckets].astype(np.intp), index.firsts[buckets + 1]
        in_bucket = np.zeros(len(words), np.bool_)
        duplicates: list[int] = []
        while len(active := np.flatnonzero(entries < ends)):
            rows, others = active + block.row, index.rows[entries[active]]
            in_bucket[active] |= others == rows
            lengths = index.starts[rows + 1] - index.starts[rows]
            other_lengths = index.starts[others + 1] - index.starts[others]
            earlier = (others < rows) & (lengths == other_lengths)
            duplicates += (
                row
                for row, other in zip(rows[earlier].tolist(), others[earlier].tolist(), strict=True)
                if index.line(text, other) == words[row - block.row]
            )
            entries += 1
        if duplicates:
            raise _duplicate(min(duplicates))
        if not in_bucket.all():
            line = block.row + int(in_bucket.argmin()) + 1
            raise ModelFolderError(f"index.npy lacks the word of line {line} in its bucket.")


def _duplicate(row: int) -> ModelFolderError:
    return ModelFolderError(f"vocabulary.txt has a word twice, in line {row + 1}.")
