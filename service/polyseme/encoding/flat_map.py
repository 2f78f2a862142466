"""A flat map of occurrences and of the words near them, to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Flags, Floats
from polyseme.engine.components import principal_components
from polyseme.engine.norm import unit
from polyseme.models.model import Model


@dataclass(frozen=True)
class FlatMap:
    """Places in the plane; None for a vector that is zero and so has no direction."""

    explained_variance_ratio: list[float]
    """the share of each axis in how far the points lie apart"""
    static: list[list[float] | None]
    """of each occurrence"""
    contextual: list[list[float] | None]
    """of each occurrence"""
    neighbours: dict[str, list[float]]


def flat_map(
    model: Model, static: Floats, contextual: Floats, neighbours: Sequence[str]
) -> FlatMap:
    """The first two principal components of all directions together. [m, d], [m, d]

    Directions, because cosines compare them: the length of a vector says nothing here.
    """
    rows = [model.vocabulary.row(word) for word in neighbours]
    words = model.rows[np.array([row or 0 for row in rows], np.int64)]
    directions = unit(np.concatenate([static, contextual, words]).astype(np.float64))
    real: Flags = np.any(directions != 0, axis=1)
    places, shares = np.zeros((len(directions), 2)), [0.0, 0.0]
    if real.any():
        # A static vector that several occurrences share is one point, not several.
        points, which = np.unique(directions[real], axis=0, return_inverse=True)
        flat, kept = principal_components(points)
        shares = kept.tolist()
        places[real] = flat[which.reshape(-1)]
    found = [place if there else None for place, there in zip(places.tolist(), real, strict=True)]
    m = len(static)
    return FlatMap(
        shares,
        found[:m],
        found[m : 2 * m],
        dict(zip(neighbours, places[2 * m :].tolist(), strict=True)),
    )
