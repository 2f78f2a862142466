"""fastText's subwords: word vectors composed of character n-grams (Bojanowski et al. 2017).

The n-grams are those of `<word>`, in code points, without a lone `<` or `>`. The FNV-1a hash of an
n-gram's UTF-8 bytes selects its row of the table, as in fastText's `dictionary.cc`. A word is
composed only if n-grams that words of the vocabulary have cover enough of it: n-grams of another
language share rows with those of the vocabulary by chance, and mean nothing. In a hashed table the
vector of a word is fastText's, the mean over all its n-grams; a table that has a row for each known
n-gram has no rows for others.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Flags, Integers
from polyseme.engine.quantization import Rows

LONGEST = 256
"""Maximum length in code points of a word that is composed; it limits the work of a request."""
_OFFSET = np.uint32(2166136261)
_PRIME = np.uint32(16777619)
MIN_WORDS = 1000
"""Below this many words, n-grams cannot identify a language."""
MAX_WORDS = 200_000
"""The n-grams of at most this many words are known, those of the most frequent ones."""
ALPHABET_SHARE = 0.99
"""The letters of random strings make up this share of the vocabulary; the others are rare."""
RANDOM_STRINGS, RANDOM_LENGTHS = 4000, (4, 8)
"""How many random strings are made, and the shortest and the longest length of one."""
REJECTED = 0.85
"""The share of random strings that are not composed."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_REMEMBERED = 1024
_LOOPED = 40
_VOCABULARY_AT_ONCE = 4096
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
    ngrams: NDArray[np.uint32] | None = None
    """[G], the sorted hashes of the known n-grams; None: all n-grams are known"""
    coverage: float = 0.0
    """the least share of known n-grams in a word that is composed"""
    own_rows: bool = False
    """whether row i is that of known n-gram i, and B = G; if not, the hash modulo B is the row"""

    def restricted(self, words: Sequence[str]) -> "Subwords":
        """Return subwords that know only the n-grams of the first 200,000 words of a vocabulary.

        All n-grams remain known if there are fewer than 1,000 words.
        """
        if len(words) < MIN_WORDS:
            return self
        words = words[:MAX_WORDS]
        parts = _hashes_at_once(words, self.min_n, self.max_n)
        known = replace(self, ngrams=np.unique(np.concatenate([*map(np.unique, parts)])))
        return replace(known, coverage=known.least_coverage(words))

    def least_coverage(self, words: Sequence[str]) -> float:
        """Return the share of known n-grams that 85 % of random strings do not reach.

        Each letter of a string is drawn uniformly from the most frequent letters of the words,
        whatever their script. The generator has a fixed seed.
        """
        # The most frequent letters that make up 99 % of all letters, in one case.
        totals: Counter[str] = Counter()
        forms: dict[str, str] = {}
        for letter, count in Counter("".join(words)).most_common():
            if letter.isalpha():
                totals[letter.lower()] += count
                forms.setdefault(letter.lower(), letter)
        limit = ALPHABET_SHARE * totals.total()
        before = accumulate((count for _, count in totals.most_common()), initial=0)
        frequent = zip(totals.most_common(), before, strict=False)
        letters = [forms[letter] for (letter, _), sum_before in frequent if sum_before < limit]
        if not letters:
            return 0.0
        rng = np.random.default_rng(0)
        lengths = rng.integers(RANDOM_LENGTHS[0], RANDOM_LENGTHS[1] + 1, RANDOM_STRINGS)
        strings = [
            "".join(letters[index] for index in rng.integers(len(letters), size=length).tolist())
            for length in lengths.tolist()
        ]
        hashes = ngram_hashes(strings, self.min_n, self.max_n)
        shares = [float(_known(self.ngrams, one)[0].mean()) for one in hashes if len(one)]
        return float(np.quantile(shares, REJECTED, method="lower")) if shares else 0.0

    def composes(self, word: str) -> bool:
        """Return whether known n-grams cover enough of a word, which is valid and not too long."""
        if len(word) > LONGEST or _SURROGATE.search(word):
            return False
        # A lone `<` or `>` is no n-gram, so an n-gram of length 1 requires a nonempty word.
        shortest = max(self.min_n, 2)
        if not (shortest <= min(self.max_n, len(word) + 2) or (self.min_n == 1 and bool(word))):
            return False
        if self.ngrams is None:
            return True
        share, _ = self._rows_of(word)
        return share > self.coverage

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean of the rows of the n-grams of each of m words. -> [m, d]

        `composes` must accept each word. The bits of a vector do not depend on other words.
        """
        means = np.empty((len(words), self.table.shape[1]), np.float32)
        for i, word in enumerate(words):
            _, rows = self._rows_of(word)
            total = np.zeros(self.table.shape[1])  # in float64, which does not overflow
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                some = self.table[rows[start : start + _ROWS_AT_ONCE]]
                total += some.sum(axis=0, dtype=np.float64)
            means[i] = total / len(rows)
        return means

    @cached_property
    def _rows_of(self) -> Callable[[str], tuple[float, Integers]]:
        """A function that returns the share of known n-grams of a word, and its rows. -> [g]

        It remembers the last words: those that `composes` accepts need a vector soon.
        """
        # The function does not refer to `self`, so that the table is unmapped with the model.
        ngrams, buckets = self.ngrams, len(self.table)
        min_n, max_n, own_rows = self.min_n, self.max_n, self.own_rows

        @lru_cache(_REMEMBERED)
        def rows_of(word: str) -> tuple[float, Integers]:
            hashes = word_hashes(word, min_n, max_n)
            known, indices = _known(ngrams, hashes)
            rows = indices[known].astype(np.uint32) if own_rows else hashes % np.uint32(buckets)
            return np.count_nonzero(known) / len(hashes), rows

        return rows_of


def _known(ngrams: NDArray[np.uint32] | None, hashes: NDArray[np.uint32]) -> tuple[Flags, Integers]:
    """Return whether each n-gram is known, and the index of its hash. [G], [g] -> [g], [g]"""
    if ngrams is None:
        return np.ones(len(hashes), np.bool_), np.zeros(len(hashes), np.int64)
    indices = np.searchsorted(ngrams, hashes)
    return ngrams.take(indices, mode="clip") == hashes, indices


def distinct_ngrams(words: Sequence[str], min_n: int, max_n: int) -> NDArray[np.uint32]:
    """Return the hash of each n-gram of some words. -> [G]

    The n-grams that occur most often come first; of equally many, the one that occurs first. So the
    order does not depend on the letters, only on where the same letters are.
    """
    together = np.concatenate([np.empty(0, np.uint32), *_hashes_at_once(words, min_n, max_n)])
    ngrams, firsts, counts = np.unique(together, return_index=True, return_counts=True)
    return ngrams[np.lexsort((firsts, -counts))]


def _hashes_at_once(words: Sequence[str], min_n: int, max_n: int) -> Iterator[NDArray[np.uint32]]:
    """Yield the hashes of the n-grams of many words at once. -> [g]"""
    for start in range(0, len(words), _VOCABULARY_AT_ONCE):
        yield np.concatenate(ngram_hashes(words[start : start + _VOCABULARY_AT_ONCE], min_n, max_n))


def word_hashes(word: str, min_n: int, max_n: int) -> NDArray[np.uint32]:
    """Return the hashes of the n-grams of one `<word>`, shorter n-grams first. -> [g]

    For one word of up to _LOOPED letters, this loop is faster than `ngram_hashes`: for a short one,
    seven times.
    """
    if len(word) > _LOOPED:
        return ngram_hashes([word], min_n, max_n)[0]
    prime = int(_PRIME)
    letters = [
        [byte | 0xFFFFFF00 if byte & 0x80 else byte for byte in letter.encode()]
        for letter in f"<{word}>"
    ]
    hashes, ngrams = [int(_OFFSET)] * len(letters), list[int]()
    for n in range(1, max_n + 1):
        del hashes[len(letters) - n + 1 :]
        for start, letter in enumerate(letters[n - 1 :]):
            for byte in letter:  # sign-extended, as in fastText's FNV-1a
                hashes[start] = (hashes[start] ^ byte) * prime & 0xFFFFFFFF
        if n >= min_n:
            ngrams += hashes[1:-1] if n == 1 else hashes
    return np.array(ngrams, np.uint32)


def ngram_hashes(
    words: Sequence[str], min_n: int, max_n: int, *, by_start: bool = False
) -> list[NDArray[np.uint32]]:
    """Return the hashes of the n-grams of each `<word>`, shorter n-grams first. -> [g] per word

    The hashes of n + 1 letters are the hashes of n letters, extended by one letter. `by_start` is
    fastText's order: n-grams that start earlier come first.
    """
    text = np.frombuffer("".join(f"<{word}>" for word in words).encode(), np.int8)
    signed = text.astype(np.int32).view(np.uint32)  # sign-extended, as in fastText's FNV-1a
    starts = np.flatnonzero(text >= -64)  # the index of the first byte of each letter
    widths = np.diff(starts, append=len(text))
    sizes = np.array([len(word) + 2 for word in words], np.int64)
    owner_of = np.repeat(np.arange(len(words)), sizes)
    # The number of letters from each letter to the end of its word, inclusive.
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(starts))
    inside = (left > 1) & (left < np.repeat(sizes, sizes))  # inside the angle brackets
    first, hashes = np.arange(len(starts)), np.full(len(starts), _OFFSET)
    ngrams, firsts = [hashes[:0]], [first[:0]]
    for n in range(1, min(max_n, int(left.max(initial=0))) + 1):
        fits = left[first] >= n
        first, hashes = first[fits], hashes[fits]
        start, width = starts[first + n - 1], widths[first + n - 1]
        for i in range(width.max(initial=0)):
            byte = signed[np.minimum(start + i, len(signed) - 1)]
            hashes = np.where(i < width, (hashes ^ byte) * _PRIME, hashes)
        if n >= min_n:
            some = inside[first] if n == 1 else slice(None)
            ngrams.append(hashes[some])
            firsts.append(first[some])
    letters = np.concatenate(firsts)  # the index of the first letter of each n-gram
    owner = owner_of[letters]
    order = np.argsort(letters if by_start else owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=len(words)))
    return np.split(np.concatenate(ngrams)[order], ends)[: len(words)]
