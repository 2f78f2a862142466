"""`senses.safetensors`: the projection and the rule with which `/v1/senses` finds senses."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import SENSES

RULE_SIZE = 3


class ContextProjection(NamedTuple):
    """What is subtracted from surroundings of norm 1, the directions to keep, and the rule."""

    mean: Floats
    """[3d], or [d] if only the contexts are projected"""
    directions: Floats
    """[3d, r], or [d, r]"""
    rule: Floats
    """[3], as `senses.clustering.log_odds` uses it"""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, in C order."""
        return {name: np.ascontiguousarray(one) for name, one in self._asdict().items()}


def projection_from_tensors(tensors: Mapping[str, NDArray[Any]], d: int) -> ContextProjection:
    """Return the projection of a model of width d; raise ModelFolderError if it is invalid."""
    if set(tensors) != set(ContextProjection._fields):
        names = ", ".join(ContextProjection._fields)
        raise ModelFolderError(f"{SENSES}: the tensors are not {names}.")
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise ModelFolderError(f"{SENSES}, {name}: a value is not a finite number.")
    found = ContextProjection(**{name: one.astype(np.float64) for name, one in tensors.items()})
    width = len(found.mean) if found.mean.ndim == 1 else 0
    fits = (
        width in {d, 3 * d}
        and found.directions.ndim == 2
        and len(found.directions) == width
        and found.directions.size > 0
        and found.rule.shape == (RULE_SIZE,)
    )
    if not fits:
        raise ModelFolderError(f"{SENSES}: the shapes do not fit vectors of dimension {d}.")
    return found
