"""Attention weights in closed form: computed from the vectors in seconds, without a corpus.

One layer whose queries are the static vectors. Scores add association, nearness and the
informativeness of the key; values are the half-whitened static vectors, in which differences
between words outweigh what they share. docs/decisions/0003 has the measurements.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyseme.command_error import CommandError
from polyseme.engine.arrays import Floats, unit
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import IDENTITY, Layer, Projection, Residual

REACH = 16
"""Larger distances count as this one."""
RARE = 1e-3
"""The relative frequency at which a word is half as informative as the rarest word."""
EXPONENT = -0.375
"""Half-whitening: 0 keeps the covariance, −0.5 makes it the identity."""
ATTRACTION = 0.3
"""The weight of association by output vectors beside nearness and informativeness."""
SPREAD = 0.2
"""The standard deviation of association by the vectors themselves, at any scale."""
SHARE, POSITION_SHARE = 0.2, 0.01
"""The share of the static vector, and of the position, in the contextual vector."""
FREQUENT = 30_000
"""The number of most frequent words from which means and covariances are estimated."""
WEAKEST = 1e-3
"""The smallest eigenvalue, relative to the largest, by which a direction is divided. A small
vocabulary says little about weaker directions, and vectors made of subwords would be noise."""
PRECISION = 1e-6
"""Relative differences below this are rounding errors of float32."""
_LEAST = 1e-30
"""Dividing by less than this overflows float32."""
SINGULAR = 1e-6
"""The smallest singular value, relative to the largest, of a matrix that is inverted."""


def informativeness(frequencies: Floats) -> NDArray[np.float32]:
    """The log of s = 1e-3 / (1e-3 + p): near 0 for rare words, −4 for "the". [V] -> [V]

    p is the relative frequency; s is the smooth inverse frequency of Arora et al. 2017.
    """
    logs: NDArray[np.float32] = np.log(RARE / (RARE + frequencies)).astype(np.float32)
    return logs


def frequencies_by_rank(count: int) -> Floats:
    """Relative frequencies of a vocabulary sorted by frequency (Zipf–Mandelbrot law). -> [V]

    p ∝ 1 / (rank + 2.7), rank from 1.
    """
    weights = 1 / (np.arange(1, count + 1) + 2.7)
    frequencies: Floats = weights / weights.sum()
    return frequencies


def nearness(reach: int = REACH) -> NDArray[np.float32]:
    """log(1 + 2·exp(−(|Δ| − 1)/3)) for each distance Δ from −reach to reach. -> [1, 2·reach+1]"""
    distances = np.abs(np.arange(-reach, reach + 1))
    table: NDArray[np.float32] = np.log1p(2 * np.exp(-(distances - 1) / 3)).astype(np.float32)
    return table[None]


def half_whitening(vectors: Floats, *, by_frequency: bool = True) -> Projection:
    """Project x to ((x − mean)/deviation)·U·diag(λ^−0.375)·Uᵀ. [V, d] -> [d, d], [d]

    The vectors are sorted by word frequency, most frequent first, unless `by_frequency` is False. U
    and λ are the eigenvectors and eigenvalues of the covariance of the standardized vectors. The
    matrix is symmetric, which keeps results near the static space, where they can be compared with
    static vectors. Constant columns become zero.
    """
    sample = _sample(vectors, by_frequency=by_frequency)
    mean, deviation = sample.mean(axis=0), sample.std(axis=0)
    least = np.maximum(PRECISION * np.abs(sample).max(axis=0), _LEAST)
    deviation = np.where(deviation > least, deviation, np.inf)
    standard = (sample - mean) / deviation
    eigenvalues, directions = np.linalg.eigh(standard.T @ standard / len(standard))
    floor = eigenvalues.max() * WEAKEST or 1.0  # all vectors are equal
    powers = np.maximum(eigenvalues, floor) ** EXPONENT
    weight = (directions * powers) @ directions.T / deviation[:, None]
    return Projection(weight.astype(np.float32), (-mean @ weight).astype(np.float32))


def association(vectors: Floats, outputs: Floats, frequencies: Floats) -> Projection:
    """The map from input vectors to output vectors, as key weights. [V, d], [V, d], [V] -> [d, d]

    Word2Vec trains x_i·y_j to be high if word j occurs near word i, y being the output vectors
    (Mikolov et al. 2013). Files lack them; Wk = argmin Σ p_j |x_j·W − y_j|² takes their place.
    """
    weights = np.sqrt(frequencies)[:, None]
    x, y = vectors.astype(np.float64) * weights, outputs.astype(np.float64) * weights
    solution, *_ = np.linalg.lstsq(x, y, rcond=None)
    return Projection((ATTRACTION * solution).astype(np.float32))


def attraction(vectors: Floats, frequencies: Floats) -> Projection:
    """The vectors' own products as association, as key weights. [V, d], [V] -> [d, d]

    For files without output vectors: Wk = 0.2·P / ‖P·C·P‖. The weight w of a word is its frequency
    times its informativeness, normalized to a sum of 1. P projects out the direction of the
    weighted mean, which all words share, and C = Σ w_j·x_jᵀ·x_j. For two words drawn by these
    weights, x_i·P·x_j has the variance ‖P·C·P‖²; the scores therefore have a standard deviation of
    0.2 at any scale of the vectors. The result is zero if the vectors do not vary. The vectors are
    sorted by frequency, or all frequencies are equal.
    """
    sample = _sample(vectors, by_frequency=bool(np.ptp(frequencies) > 0))
    p = frequencies[: len(sample)]
    weights = p * RARE / (RARE + p)
    weights /= weights.sum()
    direction = unit((weights @ sample)[None])
    apart = np.eye(sample.shape[1]) - direction.T @ direction
    sample *= np.sqrt(weights)[:, None]
    moment = sample.T @ sample
    spread = float(np.linalg.norm(apart @ moment @ apart))
    if spread <= PRECISION**2 * np.trace(moment):
        return Projection(np.zeros(apart.shape, np.float32))
    strength = min(SPREAD / spread, float(np.finfo(np.float32).max))
    return Projection((strength * apart).astype(np.float32))


def closed_form(vectors: Floats, key: Projection, *, informative: bool = True) -> Layer:
    """The layer, for use with the word bias that `informativeness` returns. [V, d] -> layer

    The vectors are sorted by word frequency. If they are not and the frequencies are unknown,
    `informative` is False, and the layer has no word bias.
    """
    return Layer(
        query=IDENTITY,
        key=key,
        value=half_whitening(vectors, by_frequency=informative),
        scoring=Scoring(
            scale=False, mask="other-words", position_bias=nearness(), word_bias=informative
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )


def _sample(vectors: Floats, *, by_frequency: bool) -> NDArray[np.float64]:
    """The most frequent words, or as many spread over the file. [V, d] -> [v, d]"""
    if by_frequency or len(vectors) <= FREQUENT:
        return vectors[:FREQUENT].astype(np.float64)
    rows = np.arange(FREQUENT) * len(vectors) // FREQUENT
    return vectors[rows].astype(np.float64)


def fold_values(vectors: Floats, layer: Layer) -> tuple[NDArray[np.float32], Layer]:
    """Replace the vectors by the layer's values, and adapt the layer. [V, d] -> [V, d], layer

    The values x·Wv + bv depend on the word alone; storing x' = x·Wv + bv in place of x saves one
    product with [d, d] for each sentence. With x = (x' − bv)·Wv⁻¹, queries and keys stay the same:

        x·W + b = x'·W' + (b − bv·W'),     W' = Wv⁻¹·W

    Attention weights and context stay the same; the share of the static vector becomes one of x'.
    Raises CommandError if the values are not as wide as the vectors, or Wv is singular.
    """
    weight = layer.value.weight
    if weight is None:
        return np.asarray(vectors, np.float32), layer
    if layer.norm == "before" or weight.shape[0] != weight.shape[1]:
        raise CommandError("Only values as wide as the vectors, and of no norm, can be folded.")
    wide = weight.astype(np.float64)
    strengths = np.linalg.svd(wide, compute_uv=False)
    if strengths[-1] <= SINGULAR * strengths[0]:
        raise CommandError("The values lose a direction of the vectors and cannot be folded.")
    inverse = np.linalg.inv(wide)
    shift = np.zeros(len(wide)) if layer.value.bias is None else layer.value.bias.astype(np.float64)
    values = vectors.astype(np.float64) @ wide + shift

    def folded(part: Projection) -> Projection:
        weight = inverse if part.weight is None else inverse @ part.weight.astype(np.float64)
        bias = -shift @ weight
        if part.bias is not None:
            bias = bias + part.bias
        return Projection(weight.astype(np.float32), bias.astype(np.float32))

    query, key = folded(layer.query), folded(layer.key)
    return values.astype(np.float32), replace(layer, query=query, key=key, value=IDENTITY)
