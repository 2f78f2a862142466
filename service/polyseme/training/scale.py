"""How large the numbers of a tensor are, so that no recipe depends on the scale of the vectors.

Vectors c times as long have weights in closed form that are 1/c as large, or 1/c² where one weight
stands for both queries and keys. A step in proportion leads to the same contextual vectors.
"""

from collections.abc import Collection

import numpy as np

from polyseme.engine.arrays import Floats

REFERENCE = 0.32
"""The root mean square of the numbers in the bundled vectors, for which the scale is 1."""
FIRST = "layers.0."


def scales(names: Collection[str], vectors: Floats, *, normed: bool) -> dict[str, float]:
    """The scale of each tensor that is not 1. [E, d]

    Only the first layer sees the vectors as they are, and only where no norm comes before it.
    """
    if normed:
        return {}
    size = size_of(vectors)
    both = FIRST + "query" in names and FIRST + "key" in names
    look = 1 / size if both else 1 / size**2
    found = {FIRST + "query": look, FIRST + "key": look, FIRST + "value": 1 / size}
    return {name: scale for name, scale in found.items() if name in names}


def size_of(vectors: Floats) -> float:
    """The root mean square of the numbers beside the reference, 1 where there are none. [E, d]"""
    known = vectors[vectors.any(axis=1)].astype(np.float64)
    return float(np.sqrt(np.square(known).mean())) / REFERENCE if len(known) else 1.0
