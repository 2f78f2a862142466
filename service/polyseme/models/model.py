"""A model in memory: words, vectors and layers, which never change."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Sentence
from polyseme.engine.layer import Layer
from polyseme.engine.projection import Projection
from polyseme.engine.quantisation import Rows, floats, kept
from polyseme.engine.similarity import lengths, nearest
from polyseme.engine.subwords import Subwords
from polyseme.models.manifest import Manifest
from polyseme.models.vocabulary import Vocabulary
from polyseme.tokenizer import CanCompose, Token, Tokenizer, no_subwords


@dataclass(frozen=True)
class Model:
    """The content of a model folder."""

    manifest: Manifest
    vocabulary: Vocabulary
    rows: Rows
    """[V, d], the static vectors, mapped from disk: float16, float32, or int8 with scales"""
    layers: Sequence[Layer]
    word_bias: NDArray[np.float32] | None = None
    """[V]"""
    subwords: Subwords | None = None
    """composes the vectors of words that the vocabulary lacks"""

    @property
    def key_width(self) -> int:
        """k, the width of a head's queries and keys."""
        return self._output_width(self.layers[0].key) // self.manifest.heads

    @property
    def value_width(self) -> int:
        """v, the width of a head's values."""
        return self._output_width(self.layers[0].value) // self.manifest.heads

    def _output_width(self, projection: Projection) -> int:
        return self.manifest.dimension if projection.weight is None else projection.weight.shape[1]

    @cached_property
    def vectors(self) -> Floats:
        """The static vectors as an array. [V, d]

        For int8 rows this is a float32 copy that stays in memory, for training and evaluation;
        serving reads the rows it needs.
        """
        return floats(self.rows)

    @property
    def composes(self) -> CanCompose:
        """Whether a spelling that the vocabulary lacks has a vector, from its subwords."""
        return self.subwords.composes if self.subwords else no_subwords

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of this model."""
        return Tokenizer(self.vocabulary, self.composes)

    @cached_property
    def plain_tokenizer(self) -> Tokenizer:
        """The tokenizer of this model without its subwords."""
        return Tokenizer(self.vocabulary)

    def static(self, tokens: Sequence[Token]) -> NDArray[np.float32]:
        """The static vector of each token, zero where it is unknown. -> [n, d]"""
        rows = [token.row for token in tokens]
        unlisted = None in rows
        numbers = [row or 0 for row in rows] if unlisted else rows
        vectors = self.rows[np.array(numbers, np.intp)].astype(np.float32, copy=False)
        if unlisted:
            vectors[[row is None for row in rows]] = 0
            places = [place for place, token in enumerate(tokens) if token.composed is not None]
            if places and self.subwords:
                # A spelling that occurs several times is composed once.
                spelled = [tokens[place].composed or "" for place in places]
                ids = {spelling: number for number, spelling in enumerate(dict.fromkeys(spelled))}
                composed = self.subwords.vectors(list(ids))
                vectors[places] = composed[[ids[spelling] for spelling in spelled]]
        return vectors

    def sentence(self, tokens: Sequence[Token]) -> Sentence:
        """The tokens as the engine's input.

        Two tokens are occurrences of one word where their vocabulary entries differ in case at
        most: the Apple that begins a sentence is not context for a later apple. A composed token
        counts as known; its word bias is 0.
        """
        ids: dict[str, int] = {}
        words = [ids.setdefault((t.key or t.text).casefold(), len(ids)) for t in tokens]
        rows = [token.row for token in tokens]
        unlisted = None in rows
        bias = None
        if self.word_bias is not None:
            bias = self.word_bias[
                np.array([row or 0 for row in rows] if unlisted else rows, np.intp)
            ]
        if unlisted:
            known = np.array(
                [t.row is not None or t.composed is not None for t in tokens], np.bool_
            )
            if bias is not None:
                bias[[row is None for row in rows]] = 0
        else:
            known = np.ones(len(rows), np.bool_)
        return Sentence(self.static(tokens), known, np.array(words, np.int64), bias)

    def neighbors(
        self, vector: Floats, k: int, without: Sequence[int] = ()
    ) -> list[tuple[str, float]]:
        """The k words whose static vectors have the largest cosine with a vector, best first.

        A zero vector has no direction, and so no neighbors.
        """
        if not k or not vector.any():
            return []
        table, _ = kept(self.rows)
        rows, similarities = nearest(vector, table, self._lengths, k, without)
        words = (self.vocabulary.word(int(row)) for row in rows)
        return list(zip(words, similarities.tolist(), strict=True))

    @cached_property
    def _lengths(self) -> Floats:
        """The length of each row, without the scale of an int8 row. [V]"""
        return lengths(kept(self.rows)[0])
