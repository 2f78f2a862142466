"""One vector of the vectors of a sentence."""

import numpy as np

from polyseme.engine.arrays import Floats


def weighted_mean(vectors: Floats, weights: Floats) -> Floats:
    """The mean of rows, each as often as its weight says. [n, d], [n] -> [d]

    The weighted average of Arora et al. 2017 ("A simple but tough-to-beat baseline for sentence
    embeddings"), equation 3. Without rows, or where all weights are 0, it is the zero vector. The
    weights are finite and not negative.
    """
    total = float(weights.sum(dtype=np.float64))
    if not total:
        return np.zeros(vectors.shape[1], vectors.dtype)
    shares = (weights / total).astype(vectors.dtype)
    mean: Floats = shares @ vectors
    return mean
