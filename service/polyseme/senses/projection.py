"""The projection of the surroundings of occurrences, for the models that have one.

A linear discriminant of hidden words (Fisher 1936): directions in which the surroundings of every
word vary count less, directions in which words differ count more. `models/fit_senses.py` fits it.
The file is named by the checksum of the weights whose contexts it projects.
"""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from polyseme.engine.arrays import Floats, unit
from polyseme.models.manifest import ATTENTION
from polyseme.models.model import Model

FOLDER = Path(__file__).parent / "projections"


class ContextProjection(NamedTuple):
    """What is subtracted from surroundings of norm 1, the directions to keep, and the rule."""

    mean: Floats
    """[3d]"""
    directions: Floats
    """[3d, r]"""
    rule: Floats
    """[4], as `clustering.evidence` uses it"""


def project(surroundings: Floats, projection: ContextProjection) -> Floats:
    """Return the points to cluster, of norm 1. [m, 3d] -> [m, r]

    A zero row stays zero.
    """
    points = unit(surroundings.astype(np.float64))
    projected = (points - projection.mean) @ projection.directions
    return unit(np.where(points.any(axis=1, keepdims=True), projected, 0))


def read_projection(model: Model) -> ContextProjection | None:
    """Return the projection that was fitted for the weights of a model; None without one."""
    file = _file(model)
    return _read(file) if file and file.is_file() else None


@lru_cache
def _read(file: Path) -> ContextProjection:
    with np.load(file) as arrays:
        return ContextProjection(
            *(arrays[name].astype(np.float64) for name in ContextProjection._fields)
        )


def write_projection(model: Model, projection: ContextProjection) -> None:
    """Write the projection of a model to FOLDER; raise ValueError if the model has no weights."""
    file = _file(model)
    if file is None:
        raise ValueError("the model has no weights")
    file.parent.mkdir(exist_ok=True)
    mean, directions = (one.astype(np.float16) for one in projection[:2])
    np.savez(file, mean=mean, directions=directions, rule=projection.rule)


def _file(model: Model) -> Path | None:
    entry = model.manifest.files.get(ATTENTION)
    return FOLDER / f"{entry.sha256[:16]}.npz" if entry else None
