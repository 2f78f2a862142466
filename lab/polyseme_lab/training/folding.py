"""Store the values of a layer as the vectors of its model, which saves a product per sentence."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import IDENTITY, Layer, Projection
from polyseme.errors import CommandError

MIN_SINGULAR_VALUE = 1e-6
"""The smallest singular value, relative to the largest, of a matrix that is inverted."""


def fold_values(vectors: Floats, layer: Layer) -> tuple[NDArray[np.float32], Layer]:
    """Return the layer's values as new vectors, and the adapted layer. [V, d] -> [V, d], layer

    The values x·Wv + bv depend only on the word. If the layer has query and key weights, storing
    x' = x·Wv + bv instead of x saves one product with a [d, d] matrix per sentence. The queries and
    keys remain the same, because x = (x' − bv)·Wv⁻¹:

        x·W + b = x'·W' + (b − bv·W'),     W' = Wv⁻¹·W

    Attention weights and context are unchanged; the residual adds a share of x' instead of x.
    Raises CommandError if the values are not as wide as the vectors, if Wv is singular, or for a
    layer norm before attention.
    """
    weight = layer.value.weight
    if weight is None:
        return np.asarray(vectors, np.float32), layer
    if layer.norm == "before" or weight.shape[0] != weight.shape[1]:
        raise CommandError(
            "The values cannot be folded: they must be as wide as the vectors, without a layer norm"
            " before attention."
        )
    weight = weight.astype(np.float64)
    singular_values = np.linalg.svd(weight, compute_uv=False)
    if singular_values[-1] <= MIN_SINGULAR_VALUE * singular_values[0]:
        raise CommandError("The matrix of the values is singular, so they cannot be folded.")
    inverse = np.linalg.inv(weight)
    bias = layer.value.bias
    shift = np.zeros(len(weight)) if bias is None else bias.astype(np.float64)
    values = vectors.astype(np.float64) @ weight + shift

    def folded(projection: Projection) -> Projection:
        old = projection.weight
        weight = inverse if old is None else inverse @ old.astype(np.float64)
        bias = -shift @ weight
        if projection.bias is not None:
            bias = bias + projection.bias
        return Projection(weight.astype(np.float32), bias.astype(np.float32))

    query, key = folded(layer.query), folded(layer.key)
    return values.astype(np.float32), replace(layer, query=query, key=key, value=IDENTITY)
