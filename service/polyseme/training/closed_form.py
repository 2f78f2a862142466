"""Attention weights in closed form: no corpus, no training, seconds.

One layer whose queries are the static vectors themselves. Its scores say how strongly two words
attract each other (association), how near they stand (nearness) and how much the looked-at word
tells (informativeness); its values are the half-whitened static vectors, so that what is common to
all words does not drown what tells them apart. docs/decisions/0003 has the measurements.
"""

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, unit
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import IDENTITY, Layer, Projection, Residual

REACH = 16
"""Distances beyond this count the same."""
RARE = 1e-3
"""The relative frequency at which a word is half as informative as the rarest."""
EXPONENT = -0.375
"""Half-whitening: 0 leaves the covariance as it is, −0.5 makes it the identity."""
ATTRACTION = 0.3
"""How much association by output vectors counts beside nearness and informativeness."""
SPREAD = 0.2
"""The standard deviation of association by the vectors themselves, whatever their scale."""
SHARE, POSITION_SHARE = 0.2, 0.01
"""How much of the static vector, and of the token's place, stays in the contextual one."""
FREQUENT = 30_000
"""The most frequent words, from which means and covariances are taken."""
WEAKEST = 1e-3
"""A direction that varies less than this beside the strongest is strengthened no further: in a
small vocabulary nothing of it may be known, and a vector made of subwords would be all noise."""
PRECISION = 1e-6
"""Differences this small beside the numbers themselves are float32's, not the words'."""
_LEAST = 1e-30
"""Dividing by less than this leaves the range of float32."""


def informativeness(frequencies: Floats) -> NDArray[np.float32]:
    """The log of s = 1e-3 / (1e-3 + p): near 0 for rare words, very negative for the. [V] -> [V]

    p are relative frequencies; the weight is that of smooth inverse frequency (Arora et al. 2017).
    """
    logs: NDArray[np.float32] = np.log(RARE / (RARE + frequencies)).astype(np.float32)
    return logs


def frequencies_by_rank(count: int) -> Floats:
    """Relative frequencies of a vocabulary sorted by frequency, by Zipf and Mandelbrot. -> [V]

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

    The vectors are sorted by the frequency of their words, the most frequent first, or
    `by_frequency` is False. U and λ are the eigenvectors and eigenvalues of the covariance of the
    standardised vectors. The matrix is symmetric, so that the result stays near the static space
    and can be read there. A column in which nothing varies is left out.
    """
    sample = _sample(vectors, by_frequency=by_frequency)
    mean, deviation = sample.mean(axis=0), sample.std(axis=0)
    least = np.maximum(PRECISION * np.abs(sample).max(axis=0), _LEAST)
    deviation = np.where(deviation > least, deviation, np.inf)
    standard = (sample - mean) / deviation
    eigenvalues, directions = np.linalg.eigh(standard.T @ standard / len(standard))
    floor = eigenvalues.max() * WEAKEST or 1.0  # nothing varies, nothing is to be whitened
    powers = np.maximum(eigenvalues, floor) ** EXPONENT
    weight = (directions * powers) @ directions.T / deviation[:, None]
    return Projection(weight.astype(np.float32), (-mean @ weight).astype(np.float32))


def association(vectors: Floats, outputs: Floats, frequencies: Floats) -> Projection:
    """The map from input vectors to output vectors, as key weights. [V, d], [V, d], [V] -> [d, d]

    Word2Vec trains x_i·y_j to be high where word j is found near word i (Mikolov et al. 2013), y
    being its output vectors, which are not kept. Wk = argmin Σ p_j |x_j·W − y_j|² stands in.
    """
    weights = np.sqrt(frequencies)[:, None]
    x, y = vectors.astype(np.float64) * weights, outputs.astype(np.float64) * weights
    solution, *_ = np.linalg.lstsq(x, y, rcond=None)
    return Projection((ATTRACTION * solution).astype(np.float32))


def attraction(vectors: Floats, frequencies: Floats) -> Projection:
    """The vectors' own products as association, as key weights. [V, d], [V] -> [d, d]

    For files without output vectors: Wk = 0.2·P / ‖P·C·P‖. Each word counts by its frequency times
    its informativeness; P takes out the direction of their mean, since what all words share says
    nothing about any two of them, and C is what they vary by: Σ w_j·x_jᵀ·x_j. x_i·P·x_j of two
    words drawn by these weights has the variance ‖P·C·P‖², so that scores vary by 0.2 whatever the
    scale of the vectors. Where nothing varies the weights are zero. The vectors are sorted by
    frequency, or all frequencies are equal.
    """
    sample = _sample(vectors, by_frequency=bool(np.ptp(frequencies) > 0))
    weights = _draw(frequencies[: len(sample)])
    direction = unit((weights @ sample)[None])
    apart = np.eye(sample.shape[1]) - direction.T @ direction
    sample *= np.sqrt(weights)[:, None]
    moment = sample.T @ sample
    spread = float(np.linalg.norm(apart @ moment @ apart))
    if spread <= PRECISION**2 * np.trace(moment):
        return Projection(np.zeros(apart.shape, np.float32))
    strength = min(SPREAD / spread, float(np.finfo(np.float32).max))
    return Projection((strength * apart).astype(np.float32))


def _draw(frequencies: Floats) -> Floats:
    """How much of all attention words draw, by frequency and informativeness alone. [v] -> [v]"""
    weights: Floats = frequencies * RARE / (RARE + frequencies)
    weights /= weights.sum()
    return weights


def closed_form(vectors: Floats, key: Projection, *, informative: bool = True) -> Layer:
    """The layer, to be used with the word bias that `informativeness` gives. [V, d] -> layer

    The vectors are sorted by the frequency of their words. Where they are not and nothing tells the
    frequencies, `informative` is False: the layer does without the word bias.
    """
    return Layer(
        query=IDENTITY,
        key=key,
        value=half_whitening(vectors, by_frequency=informative),
        scoring=Scoring(
            scale=False, looks_at="other-words", position_bias=nearness(), word_bias=informative
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )


def _sample(vectors: Floats, *, by_frequency: bool) -> NDArray[np.float64]:
    """The most frequent words, or as many from everywhere in the file. [V, d] -> [v, d]"""
    if by_frequency or len(vectors) <= FREQUENT:
        return vectors[:FREQUENT].astype(np.float64)
    rows = np.arange(FREQUENT) * len(vectors) // FREQUENT
    return vectors[rows].astype(np.float64)
