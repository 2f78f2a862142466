"""The objective `hidden-words`: a corpus as rows of a table, and sentences with hidden words."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from polyseme.atomic_files import atomic_write
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.progress import Progress
from polyseme.tokenizer import tokenize
from polyseme.tokenizer import words as split_words
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.corpus import read_lines

UNKNOWN = -1
"""The row of a token without a vector."""
MIN_TOKENS = 4
"""Minimum number of tokens in a sentence; shorter ones are skipped."""
MAX_TOKENS = 128
"""Maximum number of tokens in a sentence; a longer one is treated as several sentences."""
MAX_COMPOSED = 300_000
"""Maximum number of words that are composed of subwords; further ones are unknown."""
_CACHED = 1_000_000
"""Maximum number of words whose rows are cached."""
_FLUSH = 1 << 20
"""Number of tokens to write at once."""
_COUNTED = 1 << 22
"""Number of rows to count at once."""
_SENTENCE_END = regex.compile(r"""(?<=[.!?]["'”’)\]]*)\s+(?!\p{Ll})""")
_ROWS, _OFFSETS, _COMPOSED, _FACTS = "rows.bin", "offsets.npy", "composed.npy", "tokens.json"


@dataclass(frozen=True)
class TokenFile:
    """The sentences of a corpus as rows of a table: the vocabulary's, then composed words."""

    rows: NDArray[np.int32]
    """[N], memory-mapped; UNKNOWN for tokens without a vector"""
    offsets: NDArray[np.int64]
    """[S + 1], the start of each sentence and the end of the last"""
    composed: NDArray[np.float16]
    """[C, d], the vectors of composed words, memory-mapped; the first has the row V"""

    def table(self, model: Model) -> NDArray[np.float32]:
        """Return the vectors of the rows, and a zero row at the end. -> [V + C + 1, d]"""
        size, d = model.manifest.vocabulary_size, model.manifest.dimension
        table = np.zeros((size + len(self.composed) + 1, d), np.float32)
        table[:size] = model.vectors
        table[size:-1] = self.composed
        return table

    def sentence(self, number: int) -> NDArray[np.int32]:
        """Return the rows of a sentence. -> [n]"""
        return self.rows[self.offsets[number] : self.offsets[number + 1]]


def open_tokens(
    folder: Path, model: Model, paths: Sequence[Path], hashes: dict[str, Any], progress: Progress
) -> TokenFile:
    """Return the tokens of text files, from the folder if it has those of the same files and model.

    `hashes` identifies the files and the model. Raises CommandError if there are no sentences.
    """
    try:
        current = json.loads((folder / _FACTS).read_bytes()) == hashes
    except (OSError, ValueError):
        current = False
    if not current:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FACTS).unlink(missing_ok=True)
        _Writer(model, folder).write(paths, progress)
        atomic_write(folder / _FACTS, json.dumps(hashes).encode())
    offsets = np.load(folder / _OFFSETS)
    if len(offsets) < 2:
        raise CommandError("There is too little training data. The corpus has no sentences.")
    rows = np.memmap(folder / _ROWS, np.int32, "r")
    return TokenFile(rows, offsets, np.load(folder / _COMPOSED, mmap_mode="r"))


class _Writer:
    """Writes the files of a TokenFile."""

    def __init__(self, model: Model, folder: Path) -> None:
        self._model, self._folder = model, folder
        self._cache: dict[str, list[int]] = {}
        self._composed: dict[str, int] = {}

    def write(self, paths: Sequence[Path], progress: Progress) -> None:
        """Write the sentences of some text files."""
        lengths: list[int] = []
        pending: list[int] = []
        names = ", ".join(path.name for path in paths)
        size = sum(path.stat().st_size for path in paths)
        with (
            (self._folder / _ROWS).open("wb") as out,
            progress.stage(f"tokenizing {names}", size) as bar,
        ):
            for path in paths:
                for line in read_lines(path, bar.advance):
                    for sentence in self._sentences(line):
                        lengths.append(len(sentence))
                        pending += sentence
                    if len(pending) >= _FLUSH:
                        np.array(pending, np.int32).tofile(out)
                        pending.clear()
            np.array(pending, np.int32).tofile(out)
        np.save(self._folder / _OFFSETS, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
        subwords, spellings = self._model.subwords, list(self._composed)
        vectors = np.empty((len(spellings), self._model.manifest.dimension), np.float16)
        for first in range(0, len(spellings), 1024):
            part = spellings[first : first + 1024]
            if subwords is not None:  # else no word is composed
                vectors[first : first + len(part)] = subwords.vectors(part)
        np.save(self._folder / _COMPOSED, vectors)

    def _sentences(self, paragraph: str) -> Iterator[list[int]]:
        """Yield the rows of each sentence of a paragraph."""
        for text in _SENTENCE_END.split(paragraph):
            rows = [row for start, end in split_words(text) for row in self._word(text[start:end])]
            for first in range(0, len(rows), MAX_TOKENS):
                part = rows[first : first + MAX_TOKENS]
                if len(part) >= MIN_TOKENS:
                    yield part

    def _word(self, word: str) -> list[int]:
        """Return the rows of the tokens of a word."""
        rows = self._cache.get(word)
        if rows is None:
            tokens = tokenize(word, self._model.vocabulary, composes=self._model.composes)
            rows = []
            for token in tokens:
                row, spelling = token.row, token.composed
                if row is None and spelling is not None:
                    if spelling not in self._composed and len(self._composed) < MAX_COMPOSED:
                        size = self._model.manifest.vocabulary_size
                        self._composed[spelling] = size + len(self._composed)
                    row = self._composed.get(spelling)
                rows.append(UNKNOWN if row is None else row)
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            self._cache[word] = rows
        return rows


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
        self.counts = np.zeros(len(words), np.int64)
        for first in range(0, len(tokens.rows), _COUNTED):
            part = tokens.rows[first : first + _COUNTED]
            known = part[(part >= 0) & (part < len(words))]
            self.counts += np.bincount(known, minlength=len(words))
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
        """Return the held-out sentences in batches; all hidden words are unknown tokens."""
        by_length = np.argsort(self._lengths[self._held], kind="stable")
        order, most = self._held[by_length], self.config.sentences
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
