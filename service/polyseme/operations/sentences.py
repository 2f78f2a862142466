"""Sentence vectors: the vectors of a sentence pooled to one unit vector."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, require_finite, unit
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model, log_smooth_inverse_frequency
from polyseme.operations.encode import Encoded
from polyseme.operations.options import EncodeOptions, Part
from polyseme.tokenizer import ResolvedToken

Pooling: TypeAlias = Literal["whitened", "sif", "informativeness", "mean"]
"""`sif` weights unit static vectors by smooth inverse frequency; `whitened` is `sif`, then the
model's whitening; `informativeness` weights contextual vectors by informativeness; `mean` weights
them equally."""
DEFAULT_POOLING: Pooling = "whitened"
_STATIC: tuple[Pooling, ...] = ("whitened", "sif")


def check_dimensions(model: Model, dimensions: int | None) -> int:
    """Return the width of sentence vectors, by default d; raise InvalidError if not 1 to d."""
    d = model.manifest.dimension
    if dimensions is not None and not 1 <= dimensions <= d:
        raise InvalidError(
            [FieldError(("dimensions",), f"must be 1 to {d}, the model's dimension")]
        )
    return dimensions or d


def pooled_part(pooling: Pooling) -> Part:
    """Return the array that a pooling needs."""
    return "static" if pooling in _STATIC else "contextual"


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
    if pooling in _STATIC:
        vectors = unit(vectors)
    weights = token_weights(model, one.tokens, pooling)
    mean = weighted_mean(vectors, weights)
    if pooling == "whitened" and weights.any():
        mean = model.whitening(mean[None])[0]
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
    for a word of relative frequency p (docs/closed-form.md). `sif` and `whitened` are a / (a + p)
    with a = 1e-4 (Arora et al. 2017) and the p of s. A composed word has the mean word bias of the
    tokens of its length, and for `sif` and `whitened` that of the words. For `mean`, and without
    word biases, the weight of each token with a vector is 1.
    """
    known = np.array([t.row is not None or t.composed is not None for t in tokens], np.float32)
    if pooling == "mean" or model.word_bias is None or not known.any():
        return known
    mean: Literal["tokens", "words"] = "words" if pooling in _STATIC else "tokens"
    expected = model.expected_word_bias([token.composed or "" for token in tokens], mean)
    biases: Floats = np.array(
        [
            bias if token.row is None else model.word_bias[token.row]
            for token, bias in zip(tokens, expected.tolist(), strict=True)
        ]
    )
    if pooling in _STATIC:
        biases = log_smooth_inverse_frequency(biases)
    logs = np.where(known, biases, -np.inf)
    weights: NDArray[np.float32] = np.exp(logs - logs.max()).astype(np.float32)
    return weights
