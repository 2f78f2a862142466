"""fastText's subwords: word vectors composed of character n-grams (Bojanowski et al. 2017).

The n-grams are those of `<word>`, in code points, without a lone `<` or `>`. The FNV-1a hash of an
n-gram's UTF-8 bytes selects its row of the table, as in fastText's `dictionary.cc`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Flags, Floats, Integers
from polyseme.engine.quantization import Rows

LONGEST = 256
"""Maximum length in code points of a word that is composed; it limits the work of a request."""
_OFFSET = np.uint32(2166136261)
_PRIME = np.uint32(16777619)
_WORDS_AT_ONCE = 64
_ROWS_AT_ONCE = 1024
"""Words are hashed together because NumPy calls dominate the cost; these bounds limit memory."""


@dataclass(frozen=True)
class Subwords:
    """The vectors of hashed character n-grams, and the lengths of the n-grams."""

    table: Rows
    """[B, d], one row for each bucket"""
    min_n: int
    """the length of the shortest n-grams, in code points"""
    max_n: int
    """the length of the longest n-grams, in code points"""

    def composes(self, word: str) -> bool:
        """Return whether a word is valid Unicode, has an n-gram and is not too long."""
        if len(word) > LONGEST or any("\ud800" <= letter <= "\udfff" for letter in word):
            return False
        # A lone `<` or `>` is no n-gram, so an n-gram of length 1 requires a nonempty word.
        shortest = max(self.min_n, 2)
        return shortest <= min(self.max_n, len(word) + 2) or (self.min_n == 1 and bool(word))

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean of the rows of the n-grams of each of m words. -> [m, d]

        `composes` must accept each word. The bits of a vector do not depend on other words.
        """
        found = np.empty((len(words), self.table.shape[1]), np.float32)
        for first in range(0, len(words), _WORDS_AT_ONCE):
            some = words[first : first + _WORDS_AT_ONCE]
            for number, hashes in enumerate(ngram_hashes(some, self.min_n, self.max_n), first):
                found[number] = self._mean(hashes.astype(np.int64) % len(self.table))
        return found

    def _mean(self, rows: Integers) -> Floats:
        """Return the mean of some rows, summed in float64 to avoid overflow. [g] -> [d]"""
        total = np.zeros(self.table.shape[1])
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            total += self.table[rows[start : start + _ROWS_AT_ONCE]].sum(axis=0, dtype=np.float64)
        return total / len(rows)


def ngram_hashes(words: Sequence[str], min_n: int, max_n: int) -> list[NDArray[np.uint32]]:
    """Return the hashes of the n-grams of each `<word>`, shorter n-grams first. -> [g] per word

    The hashes of n + 1 letters are the hashes of n letters, extended by one letter.
    """
    letters = _letters(words)
    at, hashes = np.arange(len(letters.word)), np.full(len(letters.word), _OFFSET)
    found, owners = [hashes[:0]], [letters.word[:0]]
    for n in range(1, min(max_n, int(letters.left.max(initial=0))) + 1):
        fits = letters.left[at] >= n
        at, hashes = at[fits], hashes[fits]
        hashes = _extend(hashes, at + n - 1, letters)
        if n >= min_n:
            kept = letters.within[at] if n == 1 else slice(None)
            found.append(hashes[kept])
            owners.append(letters.word[at[kept]])
    owner = np.concatenate(owners)
    ends = np.cumsum(np.bincount(owner, minlength=len(words)))
    return np.split(np.concatenate(found)[np.argsort(owner, kind="stable")], ends)[: len(words)]


class _Letters(NamedTuple):
    """The letters (code points) of several concatenated `<word>`s."""

    signed: NDArray[np.uint32]
    """the UTF-8 bytes, sign-extended to 32 bits, as in fastText's FNV-1a"""
    start: Integers
    """the index of the first byte of each letter"""
    width: Integers
    """the number of bytes of each letter"""
    word: Integers
    """the index of each letter's word"""
    left: Integers
    """the number of letters from each letter to the end of its word, inclusive"""
    within: Flags
    """whether each letter is inside the angle brackets"""


def _letters(words: Sequence[str]) -> _Letters:
    text = np.frombuffer("".join(f"<{word}>" for word in words).encode(), np.int8)
    start = np.flatnonzero(text >= -64)  # noqa: PLR2004 - 0x80 to 0xBF continue a code point
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


def _extend(hashes: NDArray[np.uint32], at: Integers, letters: _Letters) -> NDArray[np.uint32]:
    """Extend each FNV-1a hash by the letter at its position. [g], [g] -> [g]"""
    start, width = letters.start[at], letters.width[at]
    for place in range(width.max(initial=0)):
        byte = letters.signed[np.minimum(start + place, len(letters.signed) - 1)]
        hashes = np.where(place < width, (hashes ^ byte) * _PRIME, hashes)
    return hashes
