"""Two ways to set the length of a vector."""

from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Floats, require_finite


def unit(x: Floats) -> Floats:
    """Divide each row by its length; a zero row stays zero. [n, d] -> [n, d]"""
    peak = np.maximum.reduce(np.abs(x), axis=-1, keepdims=True, initial=0)
    nothing = None if np.count_nonzero(peak) == peak.size else peak == 0
    if nothing is not None:
        peak[nothing] = 1
    result: Floats = x / peak  # so that squaring neither overflows nor vanishes
    length = np.sqrt(np.add.reduce(result * result, axis=-1, keepdims=True))
    if nothing is not None:
        length[nothing] = 1
    result /= length
    return result


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation (Ba et al. 2016): (x − mean) / √(variance + epsilon) · gain + shift."""

    gain: Floats
    """[d]"""
    shift: Floats
    """[d]"""
    epsilon: float = 1e-5

    def __call__(self, x: Floats) -> Floats:
        """Normalise each row; raise NonFiniteError where a variance overflows. [n, d] -> [n, d]"""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = require_finite((centred * centred).mean(axis=-1, keepdims=True))
        y: Floats = centred / np.sqrt(variance + self.epsilon) * self.gain + self.shift
        return y
