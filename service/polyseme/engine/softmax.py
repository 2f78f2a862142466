"""The softmax of scores, some of which may be hidden."""

import numpy as np

from polyseme.engine.arrays import Flags, Floats


def softmax(scores: Floats, hidden: Flags | None = None) -> Floats:
    """Softmax over the last axis, in place. [..., n] -> [..., n]

    exp(s_j − max s) / Σ exp(s_j − max s), the maximum taken over visible entries; a hidden entry
    gets exactly 0. Every row needs at least one visible entry (`visibility.py` sees to that).
    """
    if hidden is not None:
        np.copyto(scores, -np.inf, where=hidden)
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True, initial=-np.inf)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=-1, keepdims=True)
    return scores
