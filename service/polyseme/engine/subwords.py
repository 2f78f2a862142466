"""fastText's subwords: the vector of any word from its character n-grams (Bojanowski et al. 2017).

The n-grams are those of `<word>`, in code points, without a single `<` or `>`. Each stands in the
row of a table that the FNV-1a hash of its UTF-8 bytes leads to, as in fastText's `dictionary.cc`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Flags, Floats, Integers
from polyseme.engine.quantisation import Rows

LONGEST = 256
"""Code points of the longest word that is composed: a request's work has to have a bound."""
_OFFSET = np.uint32(2166136261)
_PRIME = np.uint32(16777619)
_WORDS_AT_ONCE = 64
_ROWS_AT_ONCE = 1024
"""Short words are hashed together, because calls of NumPy are what they cost; the bounds keep a
request from filling the memory."""


@dataclass(frozen=True)
class Subwords:
    """The vectors of hashed character n-grams, and how long those are."""

    table: Rows
    """[B, d], one row for each bucket"""
    min_n: int
    """the shortest n-gram, in code points"""
    max_n: int
    """the longest"""

    def composes(self, word: str) -> bool:
        """Whether a word has a vector: it has an n-gram, is not too long and is valid Unicode."""
        if len(word) > LONGEST or any("\ud800" <= letter <= "\udfff" for letter in word):
            return False
        shortest = max(self.min_n, 2)  # single ones are those of the word itself
        return shortest <= min(self.max_n, len(word) + 2) or (self.min_n == 1 and bool(word))

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """The mean of the rows of each word's n-grams, for words that are composed. -> [m, d]

        A word has the same bits in whatever company.
        """
        found = np.empty((len(words), self.table.shape[1]), np.float32)
        for first in range(0, len(words), _WORDS_AT_ONCE):
            some = words[first : first + _WORDS_AT_ONCE]
            for number, hashes in enumerate(ngram_hashes(some, self.min_n, self.max_n), first):
                found[number] = self._mean(hashes.astype(np.int64) % len(self.table))
        return found

    def _mean(self, rows: Integers) -> Floats:
        """Added up in float64, so that a table of finite numbers never makes infinity. -> [d]"""
        total = np.zeros(self.table.shape[1])
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            total += self.table[rows[start : start + _ROWS_AT_ONCE]].sum(axis=0, dtype=np.float64)
        return total / len(rows)


def ngram_hashes(words: Sequence[str], min_n: int, max_n: int) -> list[NDArray[np.uint32]]:
    """The hash of each n-gram of each `<word>`, the shorter ones first. -> [g] for each word

    One hash runs from every letter at once: those of n letters, taken one further, are those of
    n + 1, and they end with their word.
    """
    letters = _letters(words)
    at, hashes = np.arange(len(letters.word)), np.full(len(letters.word), _OFFSET)
    found, owners = [hashes[:0]], [letters.word[:0]]
    for n in range(1, min(max_n, int(letters.left.max(initial=0))) + 1):
        fits = letters.left[at] >= n
        at, hashes = at[fits], hashes[fits]
        hashes = _further(hashes, at + n - 1, letters)
        if n >= min_n:
            kept = letters.within[at] if n == 1 else slice(None)
            found.append(hashes[kept])
            owners.append(letters.word[at[kept]])
    owner = np.concatenate(owners)
    ends = np.cumsum(np.bincount(owner, minlength=len(words)))
    return np.split(np.concatenate(found)[np.argsort(owner, kind="stable")], ends)[: len(words)]


class _Letters(NamedTuple):
    """The code points of words that stand one after another, each in brackets."""

    signed: NDArray[np.uint32]
    """the UTF-8 bytes, those above 0x7F as negative numbers: FNV-1a as fastText does it"""
    start: Integers
    """the first byte of each letter"""
    width: Integers
    """how many bytes it has"""
    word: Integers
    """the number of its word"""
    left: Integers
    """how many letters of its word there are from this one on"""
    within: Flags
    """whether it is of the word itself, not one of the brackets"""


def _letters(words: Sequence[str]) -> _Letters:
    text = np.frombuffer("".join(f"<{word}>" for word in words).encode(), np.int8)
    start = np.flatnonzero(text >= -64)  # noqa: PLR2004 - 0x80 to 0xBF continue a letter
    sizes = np.array([len(word) + 2 for word in words], np.int64)
    size = np.repeat(sizes, sizes)
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(start))
    return _Letters(
        signed=text.astype(np.int32).view(np.uint32),
        start=start,
        width=np.diff(start, append=len(text)),
        word=np.repeat(np.arange(len(words)), sizes),
        left=left,
        within=(left > 1) & (left < size),
    )


def _further(hashes: NDArray[np.uint32], at: Integers, letters: _Letters) -> NDArray[np.uint32]:
    """FNV-1a of strings that go on with the letters at some places. [g], [g] -> [g]"""
    start, width = letters.start[at], letters.width[at]
    for place in range(width.max(initial=0)):
        byte = letters.signed[np.minimum(start + place, len(letters.signed) - 1)]
        hashes = np.where(place < width, (hashes ^ byte) * _PRIME, hashes)
    return hashes
