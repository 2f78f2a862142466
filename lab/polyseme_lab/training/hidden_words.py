"""The objective `hidden-words`: a corpus as rows of a table, and sentences with hidden words."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.sentences import split_sentences
from polyseme.terminal import Progress
from polyseme.tokenizer import words_of
from polyseme_lab.files import read_lines
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.corpus import sample_held_out

UNKNOWN = -1
"""The row of a token without a vector."""
MIN_TOKENS = 4
"""Minimum number of tokens in a sentence; shorter ones are skipped."""
MAX_TOKENS = 128
"""Maximum number of tokens in a sentence; a longer one is treated as several sentences."""
MAX_COMPOSED = 300_000
"""Maximum number of words that are composed of subwords; further ones are unknown."""


@dataclass(frozen=True)
class TokenizedText:
    """The sentences of a corpus as rows of a table: the vocabulary's, then composed words."""

    rows: NDArray[np.int32]
    """[N]; UNKNOWN for tokens without a vector"""
    offsets: NDArray[np.int64]
    """[S + 1], the start of each sentence and the end of the last"""
    composed: NDArray[np.float16]
    """[C, d], the vectors of composed words; the first has the row V"""

    def table(self, model: Model) -> NDArray[np.float32]:
        """Return the vectors of the rows, and a zero row at the end. -> [V + C + 1, d]"""
        size, d = model.manifest.vocabulary_size, model.manifest.dimension
        table = np.zeros((size + len(self.composed) + 1, d), np.float32)
        table[:size] = model.vectors
        table[size:-1] = self.composed
        return table


def tokenize_files(model: Model, paths: Sequence[Path], progress: Progress) -> TokenizedText:
    """Return the sentences of text files; raise CommandError if there are none."""
    words = _WordRows(model)
    rows, lengths = array("i"), array("i")
    names = ", ".join(path.name for path in paths)
    size = sum(path.stat().st_size for path in paths)
    with progress.stage(f"tokenizing {names}", size) as bar:
        for path in paths:
            for line in read_lines(path, bar.advance):
                for sentence in _sentences(line, words, *model.manifest.languages[:1]):
                    rows.extend(sentence)
                    lengths.append(len(sentence))
    if not rows:
        raise CommandError("There is too little training data. The corpus has no sentences.")
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    return TokenizedText(np.array(rows, np.int32), offsets, words.composed())


def _sentences(paragraph: str, words: "_WordRows", language: str = "en") -> Iterator[list[int]]:
    """Yield the rows of each sentence of a paragraph."""
    for _, text in split_sentences(paragraph, language):
        rows = [row for word in words_of(text) for row in words[word]]
        for first in range(0, len(rows), MAX_TOKENS):
            part = rows[first : first + MAX_TOKENS]
            if len(part) >= MIN_TOKENS:
                yield part


class _WordRows(dict[str, list[int]]):
    """The rows of the tokens of each word."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        self._composed: dict[str, int] = {}

    def __missing__(self, word: str) -> list[int]:
        size = self._model.manifest.vocabulary_size
        self[word] = rows = []
        for token in self._model.tokenizer.look_up(word):
            row, spelling = token.row, token.composed
            if row is None and spelling is not None:
                if spelling not in self._composed and len(self._composed) < MAX_COMPOSED:
                    self._composed[spelling] = size + len(self._composed)
                row = self._composed.get(spelling)
            rows.append(UNKNOWN if row is None else row)
        return rows

    def composed(self) -> NDArray[np.float16]:
        """Return the vectors of the composed words. -> [C, d]"""
        subwords, spellings = self._model.subwords, list(self._composed)
        if subwords is None:  # no word is composed
            return np.empty((0, self._model.manifest.dimension), np.float16)
        return subwords.vectors(spellings).astype(np.float16)


_MAX_SCORED = 1000
"""Maximum number of held-out sentences whose loss is computed."""
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

    def __init__(
        self, text: TokenizedText, words: Sequence[str], config: HiddenWordsConfig
    ) -> None:
        self.config, self._text = config, text
        self._lengths = np.diff(text.offsets)
        count = len(self._lengths)
        self.held_out_sentences = sample_held_out(count, config.held_out_sentences, config.split)
        self._kept = np.setdiff1d(np.arange(count), self.held_out_sentences)
        self._last_pool: tuple[int, list[NDArray[np.int64]]] | None = None
        left_out = frozenset(config.leave_out)
        self.eligible = np.array([word.casefold() not in left_out for word in words], np.bool_)
        known = text.rows[(text.rows >= 0) & (text.rows < len(words))]
        self.counts = np.bincount(known, minlength=len(words))
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
        if self._last_pool is None or self._last_pool[0] != pool:
            self._last_pool = (pool, self._draw_pool(pool))
        return self._hide(self._last_pool[1][number], rng, replacing=True)

    def negatives(self, step: int) -> NDArray[np.int64]:
        """Return distinct words to distinguish the hidden words of a step from. -> [m]"""
        rng = np.random.default_rng([self.config.seed, 2, step])
        return np.unique(self._random_words(rng, self.config.negatives))

    def held_out(self) -> list[HiddenBatch]:
        """Return some held-out sentences in batches; all hidden words are unknown tokens."""
        held = np.sort(self.held_out_sentences[:_MAX_SCORED])
        by_length = np.argsort(self._lengths[held], kind="stable")
        order, most = held[by_length], self.config.sentences
        parts = [order[first : first + most] for first in range(0, len(order), most)]
        rng = np.random.default_rng([self.config.split, 3])
        return [self._hide(part, rng, replacing=False) for part in parts]

    def _draw_pool(self, number: int) -> list[NDArray[np.int64]]:
        """Return the sentences of the batches of a pool; each batch has about as many tokens."""
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
        return [batches[n % len(batches)] for n in shuffled]

    def _hide(
        self, sentences: NDArray[np.int64], rng: np.random.Generator, *, replacing: bool
    ) -> HiddenBatch:
        """Return a batch of sentences with hidden words."""
        starts, lengths = self._text.offsets[sentences], self._lengths[sentences]
        n = int(lengths.max())
        columns = np.arange(n)
        inside = columns < lengths[:, None]
        where = np.minimum(starts[:, None] + columns, len(self._text.rows) - 1)
        rows = np.where(inside, self._text.rows[where], UNKNOWN).astype(np.int64)
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
