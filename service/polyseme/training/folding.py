"""Values folded into the vectors: a table whose rows are what attention adds up.

The values of a layer, x·Wv + bv, depend on nothing but the word, and so they can be stored in place
of its vector, once and for all: x' = x·Wv + bv. With x = (x' − bv)·Wv⁻¹ the queries and keys are
what they were,

    x·W + b = x'·W' + (b − bv·W'),     W' = Wv⁻¹·W

and a sentence is spared one product of its vectors with [d, d].
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import IDENTITY, Layer, Projection
from polyseme.training.refusal import TrainingError

SINGULAR = 1e-6
"""The least singular value beside the largest with which a matrix is divided by."""


def folded(vectors: Floats, layer: Layer) -> tuple[NDArray[np.float32], Layer]:
    """Vectors that are the layer's values, and the layer that they need. [V, d] -> [V, d]

    The weights of attention, and what it adds up, stay what they were; the share of the static
    vector is now one of x'. Raises TrainingError where the values are not as wide as the vectors,
    or where no x belongs to each x'.
    """
    weight = layer.value.weight
    if weight is None:
        return np.asarray(vectors, np.float32), layer
    if layer.norm == "before" or weight.shape[0] != weight.shape[1]:
        raise TrainingError("Only values as wide as the vectors, and of no norm, can be folded.")
    wide = weight.astype(np.float64)
    strengths = np.linalg.svd(wide, compute_uv=False)
    if strengths[-1] <= SINGULAR * strengths[0]:
        raise TrainingError("The values lose a direction of the vectors and cannot be folded.")
    back = np.linalg.inv(wide)
    shift = np.zeros(len(wide)) if layer.value.bias is None else layer.value.bias.astype(np.float64)
    values = vectors.astype(np.float64) @ wide + shift
    query, key = (_folded(part, back, shift) for part in (layer.query, layer.key))
    return values.astype(np.float32), replace(layer, query=query, key=key, value=IDENTITY)


def _folded(part: Projection, back: Floats, shift: Floats) -> Projection:
    """The projection of x' that gives what `part` gives of x."""
    weight = back if part.weight is None else back @ part.weight.astype(np.float64)
    bias = -shift @ weight
    if part.bias is not None:
        bias = bias + part.bias
    return Projection(weight.astype(np.float32), bias.astype(np.float32))
