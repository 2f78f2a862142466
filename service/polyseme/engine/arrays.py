"""The types of array the engine speaks of, and its one complaint."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Flags: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.integer[Any]]


class NonFiniteError(ArithmeticError):
    """The arithmetic left the range of its floating-point type."""


def require_finite(array: Floats) -> Floats:
    """Return the array as it is; raise NonFiniteError where it holds NaN or infinity."""
    # A finite sum of squares has finite numbers only; it is one pass without a copy.
    if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
        raise NonFiniteError("the result left the range of its floating-point type")
    return array
