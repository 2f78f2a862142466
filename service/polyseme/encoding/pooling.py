"""Sentence vectors: the contextual vectors of a sentence, pooled into one of length 1."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.encoding.choice import Choice
from polyseme.encoding.encoder import Batch, Encoded
from polyseme.engine.arrays import require_finite
from polyseme.engine.norm import unit
from polyseme.engine.pooling import weighted_mean
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.tokenizer import Token

Pooling: TypeAlias = Literal["informativeness", "mean"]
POOLED = Choice(include=frozenset({"contextual"}))
"""What a batch has to hold to be pooled."""


def sentence_vectors(
    batch: Batch, pooling: Pooling = "informativeness", dimensions: int | None = None
) -> Iterator[NDArray[np.float32]]:
    """Yield the vector of each sentence: pooled, cut to so many dimensions, of length 1. -> [d]

    A sentence without a word that the vocabulary has gives the zero vector. Raises InvalidError
    before the first one where the model has fewer dimensions.
    """
    d = batch.model.manifest.dimension
    if dimensions is not None and not 1 <= dimensions <= d:
        raise InvalidError([FieldError("/dimensions", f"the model has 1 to {d} dimensions")])
    return (sentence_vector(batch.model, one, pooling, dimensions or d) for one in batch)


def sentence_vector(
    model: Model, one: Encoded, pooling: Pooling, width: int
) -> NDArray[np.float32]:
    """The vector of a sentence whose contextual vectors are there, in float32. -> [width]"""
    mean = weighted_mean(one.arrays["contextual"], word_weights(model, one.tokens, pooling))
    return require_finite(unit(mean[None, :width])[0]).astype(np.float32, copy=False)


def word_weights(model: Model, tokens: Sequence[Token], pooling: Pooling) -> NDArray[np.float32]:
    """How much each token counts beside the others; 0 for one without a vector. -> [n]

    `informativeness` is s = exp(word bias), up to a factor: 1e-3 / (1e-3 + p) for a word of the
    relative frequency p (docs/closed-form.md), 1 for a composed one, and for all where the model
    has no word biases.
    """
    known = np.array([t.row is not None or t.composed is not None for t in tokens], np.float32)
    if pooling == "mean" or model.word_bias is None or not known.any():
        return known
    biases = [0.0 if t.row is None else float(model.word_bias[t.row]) for t in tokens]
    logs = np.where(known, biases, -np.inf)
    weights: NDArray[np.float32] = np.exp(logs - logs.max()).astype(np.float32)
    return weights
