"""Tokenize text once into a folder of memory-mapped arrays, from which training draws sentences."""

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
from polyseme.tokenizer import ResolvedToken, tokenize
from polyseme.tokenizer import words as split_words
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
        np.save(self._folder / _COMPOSED, self._composed_vectors())

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
            rows = [self._row(token) for token in tokens]
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            self._cache[word] = rows
        return rows

    def _row(self, token: ResolvedToken) -> int:
        if token.row is not None:
            return token.row
        spelling = token.composed
        if spelling is None:
            return UNKNOWN
        if spelling not in self._composed and len(self._composed) < MAX_COMPOSED:
            self._composed[spelling] = self._model.manifest.vocabulary_size + len(self._composed)
        return self._composed.get(spelling, UNKNOWN)

    def _composed_vectors(self) -> NDArray[np.float16]:
        """Return the vectors of the composed words. -> [C, d]"""
        d, spellings = self._model.manifest.dimension, list(self._composed)
        vectors = np.empty((len(spellings), d), np.float16)
        for first in range(0, len(spellings), 1024):
            part = spellings[first : first + 1024]
            assert self._model.subwords is not None  # noqa: S101 - else no word is composed
            vectors[first : first + len(part)] = self._model.subwords.vectors(part)
        return vectors
