"""The index of a vocabulary: where each line starts, and which rows the words of a hash have.

Its arrays stand one after another in `index.npy`, mapped and shared by all workers. A lookup
compares the words themselves, so that a wrong index can only fail to find (docs/decisions/0004).
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import ModelFolderError
from polyseme.store.lines import Block, Text, blocks

Numbers = NDArray[np.uint32]

LARGEST_BUCKET = 64
"""Words of one hash: more are no chance but an attack on the time a lookup takes."""
_AT_ONCE = 1 << 14
"""Numbers that are looked at together: a worker keeps what it once took from the heap."""


@dataclass(frozen=True)
class Index:
    """Arrays over the rows of a vocabulary and B buckets, B being V, made odd."""

    starts: Numbers
    """[V+1], where in the text each line starts, and where the last one ends"""
    firsts: Numbers
    """[B+1], where in `rows` each bucket starts, and where the last one ends"""
    rows: Numbers
    """[V], the rows of the words, bucket after bucket"""

    @classmethod
    def of(cls, numbers: Numbers, size: int) -> "Index":
        """The index of `size` words in the numbers of its file. [2V+B+2] -> [V+1], [B+1], [V]"""
        if len(numbers) != _length(size):
            raise ModelFolderError("index.npy has another length than vocabulary.txt needs.")
        starts, firsts, rows = np.split(numbers, [size + 1, size + 2 + _buckets(size)])
        return cls(starts, firsts, rows)

    @property
    def buckets(self) -> int:
        """B, the number of buckets."""
        return len(self.firsts) - 1


def build(text: Text, size: int) -> Numbers:
    """The numbers of the index of a text of `size` lines. -> [2V+B+2]

    A word is in the bucket of its CRC-32 modulo B, and the rows of a bucket are in order. Raises
    ModelFolderError where a word is there twice.
    """
    numbers = np.zeros(_length(size), np.uint32)
    index = Index.of(numbers, size)
    hashes = np.empty(size, np.uint32)
    for block in blocks(text):
        starts = block.next_starts()
        index.starts[block.row + 1 : block.row + 1 + len(starts)] = starts
        hashes[block.row : block.row + len(starts)] = _hashes(block.words)
    hashes %= np.uint32(index.buckets)
    index.rows[:] = np.argsort(hashes, kind="stable")
    np.cumsum(np.bincount(hashes, minlength=index.buckets), out=index.firsts[1:])
    _require_room(index, text)
    require_findable(index, text)
    return numbers


def _buckets(size: int) -> int:
    """An odd number: modulo a power of two, only the last bits of a hash would count."""
    return size | 1


def _length(size: int) -> int:
    return 2 * size + _buckets(size) + 2


def _hashes(words: Sequence[bytes]) -> NDArray[np.uint32]:
    return np.fromiter(map(crc32, words), np.uint32, len(words))


def _require_room(index: Index, text: Text) -> None:
    """Raise where a bucket has more words than a lookup should have to compare."""
    widths = np.diff(index.firsts)
    if widths.max() <= LARGEST_BUCKET:
        return
    first, last = index.firsts[widths.argmax() :][:2]
    seen: set[bytes] = set()
    for row in index.rows[first:last].tolist():
        word = _line(index, text, row)
        if word in seen:
            raise _twice(row)
        seen.add(word)
    raise ModelFolderError(
        f"vocabulary.txt has more than {LARGEST_BUCKET} words of one hash, one in line {row + 1}."
    )


def require_same_lines(index: Index, text: Text) -> None:
    """Raise ModelFolderError unless the lines start where the text has its line feeds."""
    if index.starts[0]:
        raise ModelFolderError("index.npy has another start of line 1 than vocabulary.txt.")
    for block in blocks(text):
        starts = block.next_starts()
        same = index.starts[block.row + 1 : block.row + 1 + len(starts)] == starts
        if not same.all():
            line = block.row + int(same.argmin()) + 1
            raise ModelFolderError(f"index.npy has another end of line {line} than vocabulary.txt.")


def require_whole(index: Index) -> None:
    """Raise ModelFolderError unless the buckets cover the rows, and these are each there once."""
    size = len(index.rows)
    # In uint32 a bucket that ends before it starts is one of about 2**32 rows.
    widths = (np.diff(firsts).max(initial=0) for firsts in _overlapping(index.firsts))
    if index.firsts[0] or index.firsts[-1] != size or max(widths) > LARGEST_BUCKET:
        raise ModelFolderError(
            f"index.npy has buckets that are not 0 to {LARGEST_BUCKET} rows one after another."
        )
    seen = np.frombuffer(mmap.mmap(-1, size), np.bool_)  # given back at once, unlike the heap
    for start in range(0, size, _AT_ONCE):
        rows = index.rows[start : start + _AT_ONCE]
        seen[rows[rows < size]] = True
    if not seen.all():
        raise ModelFolderError("index.npy does not have every row of vocabulary.txt once.")


def _overlapping(numbers: Numbers) -> Iterator[Numbers]:
    """Pieces of an array, each with the first number of the next."""
    return (numbers[at : at + _AT_ONCE + 1] for at in range(0, len(numbers), _AT_ONCE))


def require_findable(index: Index, text: Text) -> None:
    """Raise ModelFolderError unless each word is in its own bucket, and none is there twice."""
    for block in blocks(text):
        _require_findable(index, text, block)


def _require_findable(index: Index, text: Text, block: Block) -> None:
    """Go through the buckets of all words of a block at once, a row of each at every step."""
    words = block.words
    buckets = _hashes(words) % np.uint32(index.buckets)
    places, ends = index.firsts[buckets].astype(np.intp), index.firsts[buckets + 1]
    found = np.zeros(len(words), np.bool_)
    twice: list[int] = []
    while len(live := np.flatnonzero(places < ends)):
        others = index.rows[places[live]]
        found[live] |= others == live + block.row
        twice += (
            row
            for row, other in _of_one_length(index, live + block.row, others)
            if _line(index, text, other) == words[row - block.row]
        )
        places += 1
    if twice:
        raise _twice(min(twice))
    if not found.all():
        line = block.row + int(found.argmin()) + 1
        raise ModelFolderError(f"index.npy lacks the word of line {line} in its bucket.")


def _of_one_length(
    index: Index, rows: NDArray[np.intp], others: Numbers
) -> Iterator[tuple[int, int]]:
    """The rows whose lines may have the same word as another one before them, and that one."""
    lengths, other_lengths = (index.starts[r + 1] - index.starts[r] for r in (rows, others))
    same = (others < rows) & (lengths == other_lengths)
    return zip(rows[same].tolist(), others[same].tolist(), strict=True)


def _line(index: Index, text: Text, row: int) -> bytes:
    """The word of a row, in UTF-8."""
    return text[int(index.starts[row]) : int(index.starts[row + 1]) - 1]


def _twice(row: int) -> ModelFolderError:
    return ModelFolderError(f"vocabulary.txt has a word twice, in line {row + 1}.")
