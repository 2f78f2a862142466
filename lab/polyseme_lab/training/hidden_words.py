"""The objective `hidden-words`: sentences with hidden words, and the words to name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import CommandError
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.token_file import UNKNOWN, TokenFile

POOL = 128
"""Number of batches whose sentences are drawn together and sorted by length."""
_MADE_UNKNOWN, _REPLACED = 0.8, 0.1
"""Shares of the hidden words that become unknown tokens and other words; the rest stays (Devlin et
al. 2019, §3.1)."""


@dataclass(frozen=True)
class HiddenBatch:
    """Sentences of similar length with hidden words, padded with unknown tokens."""

    rows: NDArray[np.int64]
    """[B, n], rows of the table; UNKNOWN for unknown and most hidden tokens, and for padding"""
    positions: NDArray[np.int64]
    """[B, r], positions of the hidden words in each sentence"""
    targets: NDArray[np.int64]
    """[B, r], rows of the hidden words; UNKNOWN if a sentence has fewer words to hide"""

    @property
    def tokens(self) -> int:
        """The size of the batch in tokens, with padding."""
        return self.rows.size


class HiddenWords:
    """Draws batches of sentences with hidden words.

    A step's batch depends only on the seed and on the number of the step. Raises CommandError if
    the corpus has no word to hide.
    """

    def __init__(self, tokens: TokenFile, words: Sequence[str], config: HiddenWordsConfig) -> None:
        self.config, self._tokens = config, tokens
        self._lengths = np.diff(tokens.offsets)
        count = len(self._lengths)
        order = np.random.default_rng([config.split, 0x0D]).permutation(count)
        held = min(config.held_out_sentences, count // 10)
        self._held, self._kept = np.sort(order[:held]), np.sort(order[held:])
        self._last_pool: tuple[int, list[NDArray[np.int64]]] | None = None
        left_out = frozenset(config.leave_out)
        self.eligible = np.array([word.casefold() not in left_out for word in words], np.bool_)
        self.counts = count_words(tokens.rows, len(words))
        if not (self.eligible & (self.counts > 0)).any():
            raise CommandError(
                "There is too little training data. The corpus needs words of the model's"
                " vocabulary."
            )
        negative = np.where(self.eligible, np.maximum(self.counts, 1) ** 0.75, 0)
        self.negative: NDArray[np.float64] = negative / negative.sum()
        self._cumulative = np.cumsum(self.negative)

    def batch(self, step: int) -> HiddenBatch:
        """Return the batch of a step."""
        pool, number = divmod(step, POOL)
        rng = np.random.default_rng([self.config.seed, 1, step])
        return self._hide(self._pool(pool)[number], rng, replacing=True)

    def negatives(self, step: int) -> NDArray[np.int64]:
        """Return distinct words to distinguish the hidden words of a step from. -> [m]"""
        rng = np.random.default_rng([self.config.seed, 2, step])
        return np.unique(self._random_words(rng, self.config.negatives))

    def held_out(self) -> list[HiddenBatch]:
        """Return the held-out sentences in batches; all hidden words are unknown tokens."""
        by_length = np.argsort(self._lengths[self._held], kind="stable")
        order, most = self._held[by_length], self.config.sentences
        parts = [order[first : first + most] for first in range(0, len(order), most)]
        rng = np.random.default_rng([self.config.split, 3])
        return [self._hide(part, rng, replacing=False) for part in parts]

    def _pool(self, number: int) -> list[NDArray[np.int64]]:
        """Return the sentences of the batches of a pool; each batch has about as many tokens."""
        if self._last_pool is not None and self._last_pool[0] == number:
            return self._last_pool[1]
        config = self.config
        size = min(POOL * config.sentences, len(self._kept))
        pools = max(1, len(self._kept) // size)
        epoch, part = divmod(number, pools)
        order = np.random.default_rng([config.seed, 0, epoch]).permutation(self._kept)
        chosen = order[part * size : (part + 1) * size]
        lengths = self._lengths[chosen]
        by_length = np.argsort(lengths, kind="stable")
        ends = np.cumsum(lengths[by_length])
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, POOL) / POOL)
        batches = [part for part in np.split(chosen[by_length], cuts) if len(part)]
        shuffled = np.random.default_rng([config.seed, 3, number]).permutation(POOL)
        found = [batches[n % len(batches)] for n in shuffled]
        self._last_pool = (number, found)
        return found

    def _hide(
        self, sentences: NDArray[np.int64], rng: np.random.Generator, *, replacing: bool
    ) -> HiddenBatch:
        """Return a batch of sentences with hidden words."""
        starts, lengths = self._tokens.offsets[sentences], self._lengths[sentences]
        n = int(lengths.max())
        columns = np.arange(n)
        inside = columns < lengths[:, None]
        where = np.minimum(starts[:, None] + columns, len(self._tokens.rows) - 1)
        rows = np.where(inside, self._tokens.rows[where], UNKNOWN).astype(np.int64)
        words = (rows >= 0) & (rows < len(self.eligible))
        can = words & self.eligible[np.where(words, rows, 0)]
        count = max(1, round(self.config.hidden * int(lengths.min())))
        keys = np.where(can, rng.random(rows.shape), 2.0)
        positions = np.argpartition(keys, count - 1, axis=1)[:, :count]
        chosen = np.take_along_axis(can, positions, 1)
        originals = np.take_along_axis(rows, positions, 1)
        targets = np.where(chosen, originals, UNKNOWN)
        shown = np.full(positions.shape, UNKNOWN)
        if replacing:
            draw = rng.random(positions.shape)
            others = self._random_words(rng, positions.size).reshape(positions.shape)
            shown = np.where(draw < _MADE_UNKNOWN, UNKNOWN, others)
            shown = np.where(draw < _MADE_UNKNOWN + _REPLACED, shown, originals)
        np.put_along_axis(rows, positions, np.where(chosen, shown, originals), 1)
        return HiddenBatch(rows, positions, targets)

    def _random_words(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Draw words; the probability of a word is proportional to its frequency to the ¾."""
        drawn = rng.random(count) * self._cumulative[-1]
        words: NDArray[np.int64] = np.searchsorted(self._cumulative, drawn, "right")
        return words


def count_words(rows: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Return the number of occurrences of each word of a vocabulary. [N] -> [V]"""
    counts = np.zeros(size, np.int64)
    for first in range(0, len(rows), 1 << 22):
        part = rows[first : first + (1 << 22)]
        counts += np.bincount(part[(part >= 0) & (part < size)], minlength=size)
    return counts
