"""A model in memory: immutable words, vectors and layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Flags, Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, Projection
from polyseme.engine.quantization import Rows, as_floats, stored
from polyseme.engine.similarity import nearest, norms
from polyseme.engine.subwords import Subwords
from polyseme.models.manifest import Manifest
from polyseme.models.vocabulary import Vocabulary
from polyseme.tokenizer import CanCompose, ResolvedToken, Tokenizer, no_subwords


@dataclass(frozen=True)
class Model:
    """The content of a model folder."""

    manifest: Manifest
    vocabulary: Vocabulary
    rows: Rows
    """[V, d], the static vectors, mapped from disk: float16, float32, or int8 with scales"""
    layers: Sequence[Layer]
    word_bias: NDArray[np.float32] | None = None
    """[V], added to the attention score of each key token"""
    subwords: Subwords | None = None
    """the n-gram vectors that compose words outside the vocabulary"""

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
        return as_floats(self.rows)

    @property
    def composes(self) -> CanCompose:
        """A function that tells whether the subwords compose a vector for a spelling."""
        return self.subwords.composes if self.subwords else no_subwords

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of this model."""
        return Tokenizer(self.vocabulary, self.composes)

    @cached_property
    def plain_tokenizer(self) -> Tokenizer:
        """The tokenizer of this model without subwords."""
        return Tokenizer(self.vocabulary)

    def static(self, tokens: Sequence[ResolvedToken]) -> NDArray[np.float32]:
        """Return the static vector of each token, zero if it is unknown. -> [n, d]"""
        return self._look_up(tokens)[0]

    def sentence(self, tokens: Sequence[ResolvedToken]) -> SentenceArrays:
        """Return the arrays that the engine computes with.

        Tokens whose vocabulary entries differ only in case are occurrences of one word, so with the
        mask `other-words` the Apple that begins a sentence is no context for a later apple. A
        composed token counts as known and has the word bias 0.
        """
        vectors, rows, listed = self._look_up(tokens)
        ids: dict[str, int] = {}
        folded = [(token.key or token.text).casefold() for token in tokens]
        words = np.array([ids.setdefault(word, n) for n, word in enumerate(folded)], np.int64)
        bias = None if self.word_bias is None else self.word_bias[rows]
        if listed is None:
            return SentenceArrays(vectors, np.ones(len(tokens), np.bool_), words, bias)
        if bias is not None:
            bias[~listed] = 0
        known = listed | np.array([token.composed is not None for token in tokens], np.bool_)
        return SentenceArrays(vectors, known, words, bias)

    def _look_up(
        self, tokens: Sequence[ResolvedToken]
    ) -> tuple[NDArray[np.float32], NDArray[np.intp], Flags | None]:
        """Return vectors, row indices and a mask of in-vocabulary tokens. -> [n, d], [n], [n]

        The index is 0 for a token out of vocabulary; the mask is None if there is none.
        """
        rows = [token.row for token in tokens]
        listed = None
        if None in rows:
            listed = np.array([row is not None for row in rows], np.bool_)
            rows = [row or 0 for row in rows]
        indices = np.array(rows, np.intp)
        values, scales = self._table
        vectors: NDArray[np.float32] = values.take(indices, 0).astype(np.float32, copy=False)
        if scales is not None:
            vectors *= scales[indices][:, None]
        if listed is not None:
            vectors[~listed] = 0
            spelled = [token.composed for token in tokens if token.composed is not None]
            if self.subwords and spelled:
                # A spelling that occurs several times is composed once.
                ids = {spelling: number for number, spelling in enumerate(dict.fromkeys(spelled))}
                composed = self.subwords.vectors(list(ids))[[ids[word] for word in spelled]]
                vectors[[token.composed is not None for token in tokens]] = composed
        return vectors, indices, listed

    @cached_property
    def _table(self) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
        """The stored values of the static vectors, and the scale of each int8 row. [V, d], [V]"""
        return stored(self.rows)

    @cached_property
    def _norms(self) -> Floats:
        """The L2 norm of each row, without the scale of an int8 row. [V]"""
        return norms(self._table[0])

    def neighbors(
        self, vector: Floats, k: int, exclude: Sequence[int] = ()
    ) -> list[tuple[str, float]]:
        """Return the k words nearest to a vector and their cosines, best first.

        Rows in `exclude` are skipped. A zero vector has no neighbors.
        """
        if not k or not vector.any():
            return []
        # Scales are positive and do not change a cosine.
        rows, similarities = nearest(vector, self._table[0], self._norms, k, exclude)
        words = (self.vocabulary.word(int(row)) for row in rows)
        return list(zip(words, similarities.tolist(), strict=True))
