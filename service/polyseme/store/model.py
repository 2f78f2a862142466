"""A model in memory: words, vectors and layers, ready to be used and never changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Flags, Floats
from polyseme.engine.attention import Sentence
from polyseme.engine.layers import Layer, Projection
from polyseme.engine.quantization import Rows, as_floats, stored
from polyseme.engine.similarity import lengths, nearest
from polyseme.engine.subwords import Subwords
from polyseme.store.manifest import Manifest
from polyseme.store.vocabulary import Vocabulary
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.tokens import Composes, Token, never


@dataclass(frozen=True)
class Model:
    """What a model folder holds."""

    manifest: Manifest
    vocabulary: Vocabulary
    rows: Rows
    """[V, d], the static vectors, mapped from the disk: float16, float32, or int8 with scales"""
    layers: Sequence[Layer]
    word_bias: NDArray[np.float32] | None = None
    """[V]"""
    subwords: Subwords | None = None
    """what composes the vectors of words that the vocabulary lacks"""

    @property
    def key_width(self) -> int:
        """k, the width of a head's queries and keys."""
        return self._out(self.layers[0].key) // self.manifest.heads

    @property
    def value_width(self) -> int:
        """v, the width of a head's values."""
        return self._out(self.layers[0].value) // self.manifest.heads

    def _out(self, projection: Projection) -> int:
        return self.manifest.dimension if projection.weight is None else projection.weight.shape[1]

    @cached_property
    def vectors(self) -> Floats:
        """The static vectors as an array. [V, d]

        Of int8 rows a float32 copy, which stays in memory: for training and measuring. What serves
        takes the rows it needs.
        """
        return as_floats(self.rows)

    @cached_property
    def _lengths(self) -> Floats:
        """The length of each row as it is stored, without its scale. [V]"""
        return lengths(stored(self.rows)[0])

    @property
    def composes(self) -> Composes:
        """Whether a spelling that the vocabulary lacks has a vector, from its subwords."""
        return self.subwords.composes if self.subwords else never

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Cuts texts for this model."""
        return Tokenizer(self.vocabulary, self.composes)

    @cached_property
    def plain_tokenizer(self) -> Tokenizer:
        """Cuts texts for this model and composes no word, whatever the model has."""
        return Tokenizer(self.vocabulary)

    def static(self, tokens: Sequence[Token]) -> NDArray[np.float32]:
        """The static vector of each token, zero where it is unknown. -> [n, d]"""
        return self._static(tokens, *_rows(tokens))

    def _static(
        self, tokens: Sequence[Token], rows: NDArray[np.int64], listed: Flags | None
    ) -> NDArray[np.float32]:
        vectors = self.rows[rows].astype(np.float32, copy=False)
        if listed is None:
            return vectors
        vectors[~listed] = 0
        spelled = [token.composed for token in tokens if token.composed is not None]
        if self.subwords and spelled:
            places = [token.composed is not None for token in tokens]
            vectors[places] = _composed(spelled, self.subwords)
        return vectors

    def sentence(self, tokens: Sequence[Token]) -> Sentence:
        """The tokens as the engine sees them.

        Occurrences of one word are told by their spelling without case, so that the Apple that
        begins a sentence is not context for an apple further on. A composed token is known as a
        listed one is; its word bias is 0, that of a word which is never met.
        """
        rows, listed = _rows(tokens)
        numbers: dict[str, int] = {}
        folded = [(token.key or token.text).casefold() for token in tokens]
        words = np.array([numbers.setdefault(word, len(numbers)) for word in folded], np.int64)
        bias = None if self.word_bias is None else self.word_bias[rows]
        vectors = self._static(tokens, rows, listed)
        if listed is None:
            return Sentence(vectors, np.ones(len(tokens), np.bool_), words, bias)
        if bias is not None:
            bias[~listed] = 0
        known = listed | np.array([token.composed is not None for token in tokens], np.bool_)
        return Sentence(vectors, known, words, bias)

    def neighbours(
        self, vector: Floats, k: int, without: Sequence[int] = ()
    ) -> list[tuple[str, float]]:
        """The k words whose static vectors have the largest cosine with a vector, best first.

        A zero vector has no direction, and so no neighbours.
        """
        if not k or not vector.any():
            return []
        table, _ = stored(self.rows)
        rows, similarities = nearest(vector, table, self._lengths, k, without)
        words = (self.vocabulary.word(int(row)) for row in rows)
        return list(zip(words, similarities.tolist(), strict=True))


def _rows(tokens: Sequence[Token]) -> tuple[NDArray[np.int64], Flags | None]:
    """The row of each token, 0 where the vocabulary lacks it, and which it lists: None for all."""
    rows = [token.row for token in tokens]
    if None not in rows:
        return np.array(rows, np.int64), None
    listed = np.array([row is not None for row in rows], np.bool_)
    return np.array([row or 0 for row in rows], np.int64), listed


def _composed(spelled: Sequence[str], subwords: Subwords) -> NDArray[np.float32]:
    """The vector of each spelling; one that comes a thousand times is composed once. -> [m, d]"""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(spelled))}
    return subwords.vectors(list(numbers))[[numbers[word] for word in spelled]]
