"""Attention weights in closed form: no corpus, no training, seconds.

One layer whose queries are the static vectors themselves. Its scores say how strongly two words
attract each other (association), how near they stand (nearness) and how much the looked-at word
tells (informativeness); its values are the half-whitened static vectors, so that what is common to
all words does not drown what tells them apart. docs/decisions/0003 has the measurements.
"""

import numpy as np
from numpy.typing import NDArray

from service.engine.arrays import Floats
from service.engine.attention import Scoring
from service.engine.layer import Layer
from service.engine.projection import IDENTITY, Projection
from service.engine.residual import Residual

REACH = 16
"""Distances beyond this count the same."""
RARE = 1e-3
"""The relative frequency at which a word is half as informative as the rarest."""
EXPONENT = -0.375
"""Half-whitening: 0 leaves the covariance as it is, −0.5 makes it the identity."""
ATTRACTION = 0.3
"""How much association counts beside nearness and informativeness."""
SHARE, POSITION_SHARE = 0.2, 0.01
"""How much of the static vector, and of the token's place, stays in the contextual one."""
FREQUENT = 30_000
"""The most frequent words, from which means and covariances are taken."""


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


def half_whitening(vectors: Floats) -> Projection:
    """Project x to ((x − mean)/deviation)·U·diag(λ^−0.375)·Uᵀ. [V, d] -> [d, d], [d]

    The vectors are sorted by the frequency of their words, the most frequent first.
    U and λ are the eigenvectors and eigenvalues of the covariance of the standardised vectors. The
    matrix is symmetric, so that the result stays near the static space and can be read there.
    """
    sample = vectors[:FREQUENT].astype(np.float64)
    mean, deviation = sample.mean(axis=0), sample.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1)
    standard = (sample - mean) / deviation
    eigenvalues, directions = np.linalg.eigh(standard.T @ standard / len(standard))
    floor = eigenvalues.max() * 1e-6 or 1.0  # nothing varies, nothing is to be whitened
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


def closed_form(vectors: Floats, key: Projection) -> Layer:
    """The layer, to be used with the word bias that `informativeness` gives. [V, d] -> layer"""
    return Layer(
        query=IDENTITY,
        key=key,
        value=half_whitening(vectors),
        scoring=Scoring(
            scale=False, looks_at="other-words", position_bias=nearness(), word_bias=True
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )
