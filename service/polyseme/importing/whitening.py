"""Compute the whitening of sentence vectors from the vectors and the word biases of a model."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, unit
from polyseme.engine.layers import Projection
from polyseme.engine.quantization import Rows
from polyseme.importing.closed_form import EXPONENT, FREQUENT, MIN_EIGENVALUE
from polyseme.models.model import log_smooth_inverse_frequency


def sentence_whitening(rows: Rows, word_bias: NDArray[np.float32]) -> Projection:
    """Return the projection that whitens `sif` sentence vectors. [V, d], [V] -> [d, d], [d]

    It is x ↦ (x − mean)·C^(−0.375), with the exponent of the values of the closed form.

    The mean and the covariance C are those of random sentences, whose words are drawn
    independently by their frequencies p ∝ exp(−word bias) − 1: a sentence vector is Σ s·u / Σ s of
    its words, with the unit vector u and the weight s of a word. So the mean is Σ p·s·u / Σ p·s,
    and C is proportional to Σ p·s²·(u − mean)ᵀ(u − mean), over the 30,000 most frequent words. The
    scale of C does not matter, because sentence vectors are scaled to norm 1. Eigenvalues are at
    least a thousandth of the largest.
    """
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
