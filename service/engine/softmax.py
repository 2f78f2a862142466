"""The softmax of scores, some of which may be hidden."""

import numpy as np

from service.engine.arrays import Flags, Floats


def softmax(scores: Floats, visible: Flags | None = None) -> Floats:
    """Softmax over the last axis. [..., n] -> [..., n]

    exp(s_j − max s) / Σ exp(s_j − max s), the maximum taken over visible entries; a hidden entry
    gets exactly 0. Every row needs at least one visible entry (`visibility.py` sees to that).
    """
    if visible is not None:
        scores = np.where(visible, scores, scores.dtype.type(-np.inf))
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    total: Floats = exponentials.sum(axis=-1, keepdims=True)
    weights: Floats = exponentials / total
    return weights
