"""Sentence vectors: the vectors of a sentence pooled to one unit vector."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.encoding.encode import Encoded
from polyseme.encoding.options import EncodeOptions, Part
from polyseme.engine.arrays import Floats, require_finite, unit
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model
from polyseme.tokenizer import ResolvedToken

Pooling: TypeAlias = Literal["sif", "informativeness", "mean"]
"""`sif` weights unit static vectors by smooth inverse frequency; `informativeness` weights
contextual vectors by informativeness; `mean` weights them equally."""
DEFAULT_POOLING: Pooling = "sif"
SIF = 1e-4
"""The relative frequency at which `sif` halves the weight of a word."""
_RARE = 1e-3
"""The relative frequency at which informativeness, exp(word bias), is one half."""


def check_dimensions(model: Model, dimensions: int | None) -> int:
    """Return the width of sentence vectors, by default d; raise InvalidError if not 1 to d."""
    d = model.manifest.dimension
    if dimensions is not None and not 1 <= dimensions <= d:
        raise InvalidError([FieldError("/dimensions", f"must be 1 to {d}, the model's dimension")])
    return dimensions or d


def pooled_part(pooling: Pooling) -> Part:
    """Return the array that a pooling needs."""
    return "static" if pooling == "sif" else "contextual"


def pooled_options(pooling: Pooling) -> EncodeOptions:
    """Return the encoding options for a pooling."""
    return EncodeOptions(include=frozenset({pooled_part(pooling)}))


def sentence_vector(
    model: Model, one: Encoded, pooling: Pooling = DEFAULT_POOLING, width: int | None = None
) -> NDArray[np.float32]:
    """Return the unit vector of a sentence, from the first `width` columns (None: all). -> [width]

    The vector is zero if no word has a vector.
    """
    vectors = one.arrays[pooled_part(pooling)]
    if pooling == "sif":
        vectors = unit(vectors)
    mean = weighted_mean(vectors, token_weights(model, one.tokens, pooling))
    return require_finite(unit(mean[None, :width])[0]).astype(np.float32, copy=False)


def weighted_mean(vectors: Floats, weights: Floats) -> Floats:
    """Return the mean of rows, weighted by non-negative numbers. [n, d], [n] -> [d]

    Equation 3 of Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings".
    The mean is zero if there are no rows, or if all weights are 0.
    """
    total = float(weights.sum(dtype=np.float64))
    if not total:
        return np.zeros(vectors.shape[1], vectors.dtype)
    mean: Floats = (weights / total).astype(vectors.dtype) @ vectors
    return mean


def token_weights(
    model: Model, tokens: Sequence[ResolvedToken], pooling: Pooling
) -> NDArray[np.float32]:
    """Return the weight of each token in the mean; 0 for a token without a vector. -> [n]

    Weights are relative to the largest. `informativeness` is s = exp(word bias): 1e-3 / (1e-3 + p)
    for a word of relative frequency p (docs/closed-form.md), 1 for a composed word. `sif` is
    a / (a + p) with a = 1e-4 (Arora et al. 2017) and the p of s. For `mean`, and without word
    biases, the weight of each token with a vector is 1.
    """
    known = np.array([t.row is not None or t.composed is not None for t in tokens], np.float32)
    if pooling == "mean" or model.word_bias is None or not known.any():
        return known
    biases = np.array([0.0 if t.row is None else model.word_bias[t.row] for t in tokens])
    if pooling == "sif":
        # log(a / (a + p)) for p = 1e-3·(exp(−bias) − 1), up to a constant; exp(−bias) may overflow.
        biases = np.minimum(biases, 0)
        biases -= np.log(_RARE - (_RARE - SIF) * np.exp(biases))
    logs = np.where(known, biases, -np.inf)
    weights: NDArray[np.float32] = np.exp(logs - logs.max()).astype(np.float32)
    return weights
