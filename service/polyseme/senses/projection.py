"""The projection of occurrences to the points that are clustered.

A linear discriminant (Fisher 1936): directions in which the surroundings of every word vary count
less. `models/fit_senses.py` fits it to hidden words; the file is named by the checksum of the
weights whose contexts it projects. For other models, it is estimated from random sentences.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from polyseme.engine.arrays import Floats, unit
from polyseme.models.manifest import ATTENTION
from polyseme.models.model import Model
from polyseme.senses.clustering import DEFAULT_RULE
from polyseme.senses.occurrences import FoundOccurrence, encode_occurrences
from polyseme.tokenizer import ResolvedToken

FOLDER = Path(__file__).parent / "projections"
SHRINKAGE = 1.0
"""The part of the mean variance that is added to a covariance."""
MIN_EIGENVALUE = 1e-9
"""Lower bound of the eigenvalues of a covariance; they are 0 if all contexts are equal."""
RANDOM_SENTENCES, RANDOM_WORDS = 400, 20
"""The number of random sentences, and of the words in each."""
SEED = 1
_ABSENT = ResolvedToken("", None, None, None, "oov", None)
_estimated: WeakKeyDictionary[Model, "ContextProjection"] = WeakKeyDictionary()


class ContextProjection(NamedTuple):
    """What is subtracted from surroundings of norm 1, the directions to keep, and the rule."""

    mean: Floats
    """[3d], or [d] if only the contexts are projected"""
    directions: Floats
    """[3d, r], or [d, r]"""
    rule: Floats
    """[3], as `clustering.evidence` uses it"""


def project_occurrences(found: Sequence[FoundOccurrence], projection: ContextProjection) -> Floats:
    """Return the points to cluster. -> [m, r]"""
    return project(np.stack([one.surroundings for one in found]), projection)


def project(surroundings: Floats, projection: ContextProjection) -> Floats:
    """Return the points to cluster, of norm 1. [m, 3d] -> [m, r]

    A zero row stays zero.
    """
    points = unit(surroundings[:, : len(projection.mean)].astype(np.float64))
    projected = (points - projection.mean) @ projection.directions
    return unit(np.where(points.any(axis=1, keepdims=True), projected, 0))


def find_projection(model: Model) -> ContextProjection:
    """Return the projection that was fitted for the weights of a model, or an estimated one."""
    file = _file(model)
    if file and file.is_file():
        return _read(file)
    if model not in _estimated:
        _estimated[model] = estimate_projection(model)
    return _estimated[model]


def estimate_projection(model: Model) -> ContextProjection:
    """Estimate what all contexts of a model have in common, from sentences of random words.

    The words are drawn by their frequency p, which follows from the word bias log(1e-3/(1e-3 + p))
    of an import; without a word bias, all words are equally frequent. The mean of the contexts is
    subtracted, and the directions in which they vary count less. [d], [d, d]
    """
    size = model.manifest.vocabulary_size
    bias = np.zeros(size) if model.word_bias is None else model.word_bias.astype(np.float64)
    frequencies = np.maximum(np.expm1(-bias), 0)
    frequencies = frequencies if frequencies.any() else np.ones(size)
    rng = np.random.default_rng(SEED)
    shape = (RANDOM_SENTENCES, RANDOM_WORDS)
    place = RANDOM_WORDS // 2
    contexts = []
    for rows in rng.choice(size, shape, p=frequencies / frequencies.sum()).tolist():
        words = [(model.vocabulary.word(row), row) for row in rows]
        tokens = [ResolvedToken(word, None, None, word, "exact", row) for word, row in words]
        tokens.insert(place, _ABSENT)
        contexts.append(encode_occurrences(model, tokens, [place], 0)[0].context)
    points = np.stack(contexts).astype(np.float64)
    covariance = np.atleast_2d(np.cov(points.T))
    d = len(covariance)
    eigenvalues, directions = np.linalg.eigh(
        covariance + SHRINKAGE * np.trace(covariance) / d * np.eye(d)
    )
    scaled = directions / np.sqrt(np.maximum(eigenvalues, MIN_EIGENVALUE))
    return ContextProjection(points.mean(axis=0), scaled @ directions.T, np.array(DEFAULT_RULE))


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
