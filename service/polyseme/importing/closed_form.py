"""Compute attention weights in closed form: from the vectors, in seconds, without a corpus.

The queries of the single layer are the static vectors. A score is the sum of association, nearness
and the key's informativeness; the values are the half-whitened static vectors, in which the common
directions weigh less. docs/decisions/0003 has the measurements. The whitening of sentence vectors
follows from the vectors and the word biases. Letters: v words of a sample of the vocabulary.
"""

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats, unit
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import IDENTITY, FeatureProjection, Layer, Projection, Residual
from polyseme.engine.quantization import Rows
from polyseme.models.model import RARE, log_smooth_inverse_frequency

REACH = 16
"""The largest distance between positions; larger distances count as this one."""
EXPONENT = -0.375
"""The exponent of the eigenvalues: 0 keeps the covariance, −0.5 makes it the identity."""
SPREAD = 0.2
"""The standard deviation of the scores from association."""
SHARE, POSITION_SHARE = 0.2, 0.01
"""The factors of the static vector and of the position in the contextual vector."""
FREQUENT = 30_000
"""Maximum number of words from which means and covariances are estimated."""
MIN_EIGENVALUE = 1e-3
"""Lower bound of the eigenvalues, relative to the largest. Smaller ones are inaccurate for a small
vocabulary, and dividing by them would turn vectors composed of subwords into noise."""
PRECISION = 1e-6
"""Relative differences below this are rounding errors of float32."""
_MIN_DEVIATION = 1e-30
"""Minimum standard deviation; dividing by less can overflow float32."""


def informativeness(frequencies: Floats) -> NDArray[np.float32]:
    """Return log(s), the logarithm of the informativeness s of each word. [V] -> [V]

    s = 1e-3 / (1e-3 + p) is the smooth inverse frequency of Arora et al. 2017, where p is the
    relative frequency. The logarithm, which the word bias stores, is near 0 for rare words and
    about −4 for "the".
    """
    logs: NDArray[np.float32] = np.log(RARE / (RARE + frequencies)).astype(np.float32)
    return logs


def frequencies_by_rank(count: int) -> Floats:
    """Return relative frequencies of words sorted by frequency (Zipf–Mandelbrot law). -> [V]

    p ∝ 1 / (rank + 2.7), rank from 1.
    """
    weights = 1 / (np.arange(1, count + 1) + 2.7)
    frequencies: Floats = weights / weights.sum()
    return frequencies


def nearness(reach: int = REACH) -> NDArray[np.float32]:
    """Return log(1 + 2·exp(−(|Δ| − 1)/3)) for distances Δ = −reach … reach. -> [1, 2·reach+1]"""
    distances = np.abs(np.arange(-reach, reach + 1))
    table: NDArray[np.float32] = np.log1p(2 * np.exp(-(distances - 1) / 3)).astype(np.float32)
    return table[None]


def half_whitening(vectors: Floats) -> Projection:
    """Return the projection x ↦ ((x − mean)/deviation)·U·diag(λ^−0.375)·Uᵀ. [v, d] -> [d, d], [d]

    U and λ are the eigenvectors and eigenvalues of the covariance of the standardized vectors.
    U·diag(λ^−0.375)·Uᵀ is symmetric, so the results remain close to the standardized vectors. The
    returned weight also contains the division by the deviation. Constant columns become zero.
    """
    sample = vectors.astype(np.float64)
    mean, deviation = sample.mean(axis=0), sample.std(axis=0)
    least = np.maximum(PRECISION * np.abs(sample).max(axis=0), _MIN_DEVIATION)
    deviation = np.where(deviation > least, deviation, np.inf)
    standard = (sample - mean) / deviation
    eigenvalues, directions = np.linalg.eigh(standard.T @ standard / len(standard))
    floor = eigenvalues.max() * MIN_EIGENVALUE or 1.0  # 1 if all vectors are equal
    powers = np.maximum(eigenvalues, floor) ** EXPONENT
    weight = (directions * powers) @ directions.T / deviation[:, None]
    return Projection(weight.astype(np.float32), (-mean @ weight).astype(np.float32))


def association(vectors: Floats, frequencies: Floats) -> Projection:
    """Return key weights whose scores are scaled products of the vectors. [v, d], [v] -> [d, d]

    Wk = 0.2·P / ‖P·C·P‖, with the Frobenius norm. The weight w of a word is p·s, its frequency
    times s of `informativeness`, normalized to a sum of 1. P projects out the direction of the
    weighted mean, which all words share, and C = Σ w_j·x_jᵀ·x_j. If words i and j are drawn with
    the probabilities w, x_i·P·x_jᵀ has mean 0 and variance ‖P·C·P‖², so the scores have a standard
    deviation of 0.2 at any scale of the vectors. The result is zero if all vectors are multiples of
    their mean.
    """
    sample = vectors.astype(np.float64)
    weights = frequencies * RARE / (RARE + frequencies)
    weights /= weights.sum()
    direction = unit((weights @ sample)[None])
    complement = np.eye(sample.shape[1]) - direction.T @ direction
    sample *= np.sqrt(weights)[:, None]
    moment = sample.T @ sample
    spread = float(np.linalg.norm(complement @ moment @ complement))
    if spread <= PRECISION**2 * np.trace(moment):
        return Projection(np.zeros(complement.shape, np.float32))
    factor = min(SPREAD / spread, float(np.finfo(np.float32).max))
    return Projection((factor * complement).astype(np.float32))


def feature_projection(
    vectors: Floats, value: Projection, frequencies: Floats
) -> FeatureProjection | None:
    """Return the projection for features: context and both neighbors. [v, d], [v] -> [d, t], [d, m]

    m = 2d/5, rounded down, and t = d − 2m. Both consist of leading principal components of the
    values: of all words alike for the context, and weighted by frequency for the neighbors, since
    frequent words tell most of the grammar. The neighbors are scaled to a mean square norm of 1,
    the norm of the context. None if d is less than 3.
    """
    d = vectors.shape[1]
    width = 2 * d // 5
    if not width or len(vectors) < 2:
        return None
    values = value(vectors.astype(np.float64))
    topics = np.linalg.eigh(np.cov(values.T))[1][:, ::-1]
    p = frequencies / frequencies.sum()
    mean = p @ values
    values -= mean
    weighted = values * np.sqrt(p)[:, None]
    variances, directions = np.linalg.eigh(weighted.T @ weighted)
    scale = math.sqrt(variances[-width:].sum()) or 1.0  # 1 if all vectors are equal
    chosen = directions[:, ::-1][:, :width] / scale
    weight = cast("Floats", value.weight) @ chosen
    bias = (cast("Floats", value.bias) - mean) @ chosen
    return FeatureProjection(
        topics[:, : d - 2 * width].astype(np.float32),
        Projection(weight.astype(np.float32), bias.astype(np.float32)),
    )


def closed_form(vectors: Floats, frequencies: Floats, *, informative: bool = True) -> Layer:
    """Return the layer, with a word bias that `informativeness` returns or without. [v, d], [v]"""
    return Layer(
        query=IDENTITY,
        key=association(vectors, frequencies),
        value=half_whitening(vectors),
        scoring=Scoring(
            scale=False, mask="other-words", position_bias=nearness(), word_bias=informative
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )


def sentence_whitening(rows: Rows, word_bias: Floats | None) -> Projection:
    """Return the projection that whitens `sif` sentence vectors. [V, d], [V] -> [d, d], [d]

    Without word biases it is the identity, otherwise x ↦ (x − mean)·C^(−0.375), with the exponent
    of the values of the closed form.

    The mean and the covariance C are those of random sentences, whose words are drawn
    independently by their frequencies p ∝ exp(−word bias) − 1: a sentence vector is Σ s·u / Σ s of
    its words, with the unit vector u and the weight s of a word. So the mean is Σ p·s·u / Σ p·s,
    and C is proportional to Σ p·s²·(u − mean)ᵀ(u − mean), over the 30,000 most frequent words. The
    scale of C does not matter, because sentence vectors are scaled to norm 1. Eigenvalues are at
    least a thousandth of the largest.
    """
    if word_bias is None:
        return IDENTITY
    directions = unit(cast("Floats", rows)[:FREQUENT].astype(np.float64))
    bias = np.clip(word_bias[:FREQUENT].astype(np.float64), -50, 0)
    frequencies = np.expm1(-bias)
    if not frequencies.any():
        frequencies = np.ones(len(bias))
    weights = np.exp(log_smooth_inverse_frequency(bias))
    once = frequencies * weights
    mean = once @ directions / once.sum()
    centered = directions - mean
    covariance = (centered * (once * weights)[:, None]).T @ centered
    eigenvalues, axes = np.linalg.eigh(covariance)
    largest = eigenvalues.max()
    if largest <= 0:
        return Projection(np.eye(len(mean), dtype=np.float32), np.zeros(len(mean), np.float32))
    powers = np.maximum(eigenvalues / largest, MIN_EIGENVALUE) ** EXPONENT
    weight = (axes * powers) @ axes.T
    return Projection(weight.astype(np.float32), (-mean @ weight).astype(np.float32))
