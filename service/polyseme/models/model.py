"""A model in memory: its vocabulary, vectors and layers, all immutable."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyseme.caches import Recent
from polyseme.engine import Floats, NonFiniteError, require_finite
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import IDENTITY, Layer, Projection
from polyseme.engine.quantization import Rows, as_floats, stored
from polyseme.engine.similarity import nearest, norms
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import Manifest
from polyseme.models.vocabulary import Vocabulary
from polyseme.models.weights import ContextProjection, output_width
from polyseme.tokenizer import ResolvedToken, Tokenizer

_ROW, _KEY = (itemgetter(ResolvedToken._fields.index(name)) for name in ("row", "key"))
"""Fields of a token; `itemgetter` reads them in half the time of `attrgetter`."""
_MAX_COMPOSED = 64
"""Maximum characters of a spelling whose composed vector is cached."""
_MAX_LENGTH = 16
"""Longer words count as words of this length."""
_FREQUENT = 100_000
"""Maximum number of words from which the word bias of a length is computed."""
_MIN_BIAS = -50.0
"""Smaller word biases count as this one, whose exponential is finite."""
_MAX_SAFE_SCALE = np.finfo(np.float32).max / 128
"""The largest scale whose product with any int8 is finite."""
SIF = 1e-4
"""The relative frequency at which smooth inverse frequency halves the weight of a word."""
RARE = 1e-3
"""The relative frequency at which informativeness, exp(word bias), is one half."""


def log_smooth_inverse_frequency(biases: Floats) -> Floats:
    """Return log(a / (a + p)) for p = 1e-3·(exp(−bias) − 1), up to a constant. [n] -> [n]

    a = 1e-4 (Arora et al. 2017). exp(−bias) may overflow, so exp(bias) is used.
    """
    negative = np.minimum(biases, 0)
    logs: Floats = negative - np.log(RARE - (RARE - SIF) * np.exp(negative))
    return logs


def _require_finite(values: Floats) -> None:
    """Raise ModelFolderError if a table is damaged, which is not checked when it is mapped."""
    try:
        require_finite(values)
    except NonFiniteError:
        raise ModelFolderError("a value of the vectors is not finite.") from None


def _compose(_composed: Any, spelling: str, subwords: Subwords) -> NDArray[np.float32]:
    vector = subwords.vectors([spelling]).reshape(-1)
    _require_finite(vector)
    return vector


@dataclass(frozen=True, eq=False)
class Model:
    """The content of a model folder. Models are compared by identity."""

    manifest: Manifest
    vocabulary: Vocabulary
    rows: Rows
    """[V, d], the static vectors, memory-mapped: float16, float32, or int8 with scales"""
    layers: Sequence[Layer]
    word_bias: NDArray[np.float32] | None = None
    """[V], added to the attention scores of each key token, times the factor of the head"""
    subwords: Subwords | None = None
    """the n-gram vectors that compose words outside the vocabulary"""
    whitening: Projection = IDENTITY
    """the whitening of sentence vectors; the identity if the folder has none"""
    senses: ContextProjection | None = None
    """how senses are found; None if it has to be estimated"""

    @cached_property
    def key_width(self) -> int:
        """k, the width of a head's queries and keys."""
        width = output_width(self.layers[0].key, self.manifest.dimension)
        return width // self.manifest.heads

    @cached_property
    def value_width(self) -> int:
        """v, the width of a head's values."""
        width = output_width(self.layers[0].value, self.manifest.dimension)
        return width // self.manifest.heads

    @cached_property
    def vectors(self) -> Floats:
        """The static vectors as an array. [V, d]

        For int8 rows this is a float32 copy that stays in memory. Training uses it; the service
        only converts the rows of each request.
        """
        return as_floats(self.rows)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of this model."""
        if self.subwords is None:
            return self.plain_tokenizer
        return Tokenizer(self.vocabulary, self.subwords.composes)

    @cached_property
    def plain_tokenizer(self) -> Tokenizer:
        """The tokenizer of this model without subwords."""
        return Tokenizer(self.vocabulary)

    def static(self, tokens: Sequence[ResolvedToken]) -> NDArray[np.float32]:
        """Return the static vector of each token, zero if it is unknown. -> [n, d]"""
        return self.inputs(tokens).vectors

    def stack(self, sentences: Sequence[Sequence[ResolvedToken]]) -> SentenceArrays:
        """Return the input arrays of the engine for B sentences of equal length. [B, n]"""
        tokens = list(chain.from_iterable(sentences))
        return self.inputs(tokens).stack(0, len(sentences), len(sentences[0]))

    def inputs(self, tokens: Sequence[ResolvedToken]) -> SentenceArrays:
        """Return the input arrays of the engine for one sentence, or for several in a row. [n]

        Tokens whose vocabulary entries differ only in case are occurrences of the same word: with
        the mask `other-words`, an `Apple` at the start of a sentence is not part of the context of
        a later `apple`. An unknown token is an occurrence of no word, so it attends to all known
        tokens. A composed token is known and has the expected word bias.
        """
        rows = list(map(_ROW, tokens))
        names = list(map(_KEY, tokens))
        missing = [i for i, row in enumerate(rows) if row is None] if None in rows else []
        for i in missing:
            rows[i] = 0
            names[i] = tokens[i].composed or ""
        indices = np.array(rows, np.intp)
        values, scales = self._table
        vectors: NDArray[np.float32] = values.take(indices, 0).astype(np.float32, copy=False)
        is_finite = False
        if scales is not None:
            factors = scales[indices]
            vectors *= factors[:, None]
            is_finite = bool((np.abs(factors) <= _MAX_SAFE_SCALE).all())
        first: dict[str, int] = {}
        words = list(map(first.setdefault, map(str.casefold, names), range(len(names))))
        bias = None if self.word_bias is None else self.word_bias[indices]
        known = np.ones(len(tokens), np.bool_)
        if missing:
            composed = [tokens[i].composed for i in missing]
            known[missing] = [spelling is not None for spelling in composed]
            zero = np.zeros(self.manifest.dimension, np.float32)
            vectors[missing] = [zero if s is None else self._composed[s] for s in composed]
            if bias is not None:
                expected = self.expected_word_bias([text or "" for text in composed], "tokens")
                bias[missing] = np.where(known[missing], expected, np.float32(0))
        if not is_finite:
            _require_finite(vectors)
        return SentenceArrays(vectors, known, np.array(words, np.int64), bias)

    def expected_word_bias(
        self, spellings: Sequence[str], mean: Literal["tokens", "words"]
    ) -> NDArray[np.float32]:
        """Return the mean word bias of the words that are as long as each spelling. -> [m]

        Frequent words are short (Zipf's law of abbreviation). So a function word that a file lacks,
        such as *of* in GoogleNews, counts as frequent. The mean of `tokens` weights each word of
        the vocabulary by its frequency p ∝ exp(−word bias) − 1, that of `words` does not. Without
        word biases, and for a length that no word has, the mean is 0.
        """
        lengths = [min(len(spelling), _MAX_LENGTH) for spelling in spellings]
        return self._word_bias_by_length[mean][lengths]

    @cached_property
    def _word_bias_by_length(self) -> dict[str, NDArray[np.float32]]:
        """The mean word biases of each length, up to 16 code points. [17] each"""
        if self.word_bias is None:
            zero = np.zeros(_MAX_LENGTH + 1, np.float32)
            return {"tokens": zero, "words": zero}
        bias = np.clip(self.word_bias[:_FREQUENT].astype(np.float64), _MIN_BIAS, 0)
        words = map(self.vocabulary.word, range(len(bias)))
        lengths = np.array([min(len(word), _MAX_LENGTH) for word in words])
        means = {}
        for name, weights in (("tokens", np.expm1(-bias)), ("words", np.ones(len(bias)))):
            totals = np.bincount(lengths, weights, minlength=_MAX_LENGTH + 1)
            sums = np.bincount(lengths, weights * bias, minlength=_MAX_LENGTH + 1)
            means[name] = (sums / np.where(totals > 0, totals, 1)).astype(np.float32)
        return means

    @cached_property
    def _composed(self) -> Recent[NDArray[np.float32]]:
        """The vectors of the spellings that were composed last, [d] each."""
        return Recent(
            _compose, self.subwords, size=lambda vector: vector.nbytes, longest=_MAX_COMPOSED
        )

    @cached_property
    def _table(self) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
        """The stored values of the static vectors, and the scales of int8 rows. [V, d], [V]"""
        return stored(self.rows)

    @cached_property
    def _norms(self) -> Floats:
        """The L2 norms of the stored rows, before any scaling. [V]"""
        lengths = norms(self._table[0])
        _require_finite(self._table[0][~np.isfinite(lengths)])  # a norm may exceed float32
        return lengths

    def neighbors(
        self, vector: Floats, k: int, exclude: Sequence[int] = ()
    ) -> list[tuple[str, float]]:
        """Return the k words nearest to a vector and their cosines, best first.

        Rows in `exclude` are skipped. A zero vector has no neighbors.
        """
        if not k or not vector.any():
            return []
        # A positive scale does not change a cosine.
        rows, similarities = nearest(vector, self._table[0], self._norms, k, exclude)
        words = (self.vocabulary.word(int(row)) for row in rows)
        return list(zip(words, similarities.tolist(), strict=True))
