"""Sentence vectors: the contextual vectors of a sentence, pooled to one vector of length 1."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.encoding.encode import Encoded
from polyseme.encoding.options import EncodeOptions
from polyseme.engine.arrays import Floats, require_finite, unit
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.tokenizer import ResolvedToken

Pooling: TypeAlias = Literal["informativeness", "mean"]
POOLED = EncodeOptions(include=frozenset({"contextual"}))
"""The options of sentences that are pooled."""


def check_dimensions(model: Model, dimensions: int | None) -> int:
    """The width of sentence vectors; raise InvalidError if the model has fewer dimensions."""
    d = model.manifest.dimension
    if dimensions is not None and not 1 <= dimensions <= d:
        raise InvalidError([FieldError("/dimensions", f"the model has 1 to {d} dimensions")])
    return dimensions or d


def sentence_vector(
    model: Model, one: Encoded, pooling: Pooling = "informativeness", width: int | None = None
) -> NDArray[np.float32]:
    """The vector of a sentence, cut to `width` dimensions, of length 1. -> [width]

    A sentence in which no word has a vector gives the zero vector.
    """
    mean = weighted_mean(one.arrays["contextual"], token_weights(model, one.tokens, pooling))
    return require_finite(unit(mean[None, :width])[0]).astype(np.float32, copy=False)


def weighted_mean(vectors: Floats, weights: Floats) -> Floats:
    """The weighted mean of rows; the weights are finite and not negative. [n, d], [n] -> [d]

    Equation 3 of Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings".
    Zero without rows, or if all weights are 0.
    """
    total = float(weights.sum(dtype=np.float64))
    if not total:
        return np.zeros(vectors.shape[1], vectors.dtype)
    mean: Floats = (weights / total).astype(vectors.dtype) @ vectors
    return mean


def token_weights(
    model: Model, tokens: Sequence[ResolvedToken], pooling: Pooling
) -> NDArray[np.float32]:
    """The weight of each token in the mean; 0 for one without a vector. -> [n]

    `informativeness` is s = exp(word bias), up to a factor: 1e-3 / (1e-3 + p) for a word of
    relative frequency p (docs/closed-form.md), 1 for a composed one, and 1 for all if the model has
    no word biases.
    """
    known = np.array([t.row is not None or t.composed is not None for t in tokens], np.float32)
    if pooling == "mean" or model.word_bias is None or not known.any():
        return known
    biases = [0.0 if t.row is None else float(model.word_bias[t.row]) for t in tokens]
    logs = np.where(known, biases, -np.inf)
    weights: NDArray[np.float32] = np.exp(logs - logs.max()).astype(np.float32)
    return weights
