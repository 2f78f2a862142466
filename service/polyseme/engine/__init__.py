"""The mathematics, as functions of NumPy arrays: no files, network, framework or state.

Letters used throughout: n tokens of a sentence, d width of a vector, k width of a head's queries
and keys, v width of its values, h heads, L layers, V words of the vocabulary, b rows of a block.
Weights are stored `[in, out]`, so the code reads `x @ wq` as the formulas do.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Flags: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.integer[Any]]

SAFE_LENGTHS = (2.0**-50, 2.0**50)
"""The range of vector lengths whose squares neither overflow nor underflow in float32."""


class NonFiniteError(ArithmeticError):
    """A result overflows its floating-point type."""


def require_finite(array: Floats) -> Floats:
    """Return the array unchanged; raise NonFiniteError if it contains NaN or infinity."""
    # A finite sum of squares implies finite numbers: one pass, no copy.
    if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
        raise NonFiniteError("a result overflows its floating-point type")
    return array


def unit(x: Floats) -> Floats:
    """Divide each row by its length; a zero row stays zero. [..., d] -> [..., d]"""
    with np.errstate(all="ignore"):
        return rescale(x, 1)


def rescale(x: Floats, length: float) -> Floats:
    """Scale each row to a length; a zero row stays zero. [..., d] -> [..., d]

    A row whose squares would overflow or underflow is first divided by its largest magnitude. The
    bits of a row do not depend on other rows. The caller must disable NumPy's warnings.
    """
    norms: Floats = np.sqrt(np.vecdot(x, x))[..., None]
    if norms.size and not (SAFE_LENGTHS[0] <= norms.min() and norms.max() <= SAFE_LENGTHS[1]):
        unsafe = ~((norms >= SAFE_LENGTHS[0]) & (norms <= SAFE_LENGTHS[1]))
        peak = np.abs(x).max(axis=-1, keepdims=True, initial=0)
        x = x / np.where(unsafe & (peak > 0), peak, 1).astype(x.dtype)
        norms = np.sqrt(np.vecdot(x, x))[..., None]
        norms[norms == 0] = 1
    if length != 1:
        norms /= x.dtype.type(length)
    scaled: Floats = x / norms
    return scaled
