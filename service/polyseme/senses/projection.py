"""The projection of occurrences to the points that are clustered.

A model folder has it in `senses.safetensors`. For the bundled model, it is a linear discriminant
(Fisher 1936): directions in which the surroundings of one word vary count less, directions in which
different words differ count more; `lab/factory/fit_senses.py` fits it. An import computes a
whitening of the contexts, estimated from random sentences. For a folder without the file, the first
request of a process computes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakKeyDictionary

import numpy as np

from polyseme.engine.arrays import Floats, NonFiniteError, unit
from polyseme.models.model import Model
from polyseme.models.weights import ContextProjection
from polyseme.senses.clustering import DEFAULT_RULE
from polyseme.senses.occurrences import FoundOccurrence, encode_occurrences
from polyseme.tokenizer import ResolvedToken

SHRINKAGE = 1.0
"""The part of the mean variance that is added to each variance."""
RANDOM_SENTENCES, RANDOM_WORDS = 400, 20
"""The number of random sentences, and of the words in each."""
BIAS_RANGE = (-6.9, -1e-9)
"""The word biases of an import: log(1e-3/(1e-3 + p)) for frequencies p from 1 to 1e-12."""
SEED = 1
_ROWS_AT_ONCE = 1024
"""Occurrences that are projected together; this bound limits memory."""
EQUAL = 1e-5
"""Contexts nearer than this to the mean differ from it by rounding errors only."""
_HIDDEN = ResolvedToken("", None, None, None, "oov", None)
_estimated: WeakKeyDictionary[Model, "ContextProjection"] = WeakKeyDictionary()


def project_occurrences(found: Sequence[FoundOccurrence], projection: ContextProjection) -> Floats:
    """Return the points to cluster. -> [m, r]"""
    parts = (found[at : at + _ROWS_AT_ONCE] for at in range(0, len(found), _ROWS_AT_ONCE))
    return np.concatenate(
        [project(np.stack([one.surroundings for one in part]), projection) for part in parts]
    )


def project(surroundings: Floats, projection: ContextProjection) -> Floats:
    """Project the first c columns of surroundings, where c is the length of the mean.

    The points have norm 1. A row that is zero or equal to the mean becomes zero. [m, 3d] -> [m, r]
    """
    rows = unit(surroundings[:, : len(projection.mean)].astype(np.float64))
    centered = rows - projection.mean
    distinct = rows.any(axis=1) & (np.linalg.norm(centered, axis=1) > EQUAL)
    return unit(np.where(distinct[:, None], centered @ projection.directions, 0))


def find_projection(model: Model) -> ContextProjection:
    """Return the projection in the folder of a model, or an estimated one."""
    if model.senses is not None:
        return model.senses
    if model not in _estimated:
        # Several threads may estimate it at the same time, with equal results.
        _estimated[model] = estimate_projection(model)
    return _estimated[model]


def estimate_projection(model: Model) -> ContextProjection:
    """Estimate the mean and the whitening of a model's contexts from random sentences.

    The words are drawn by their frequency, which follows from the word bias of an import
    (`importing.closed_form.informativeness`), and approximately from a trained one. Without a word
    bias, all words are equally frequent. The directions are at most as many as the sentences; those
    in which contexts vary more count less. -> [d], [d, r]
    """
    contexts = _random_contexts(model)
    mean = contexts.mean(axis=0)
    _, deviations, directions = np.linalg.svd(contexts - mean, full_matrices=False)
    variances = deviations**2 / len(contexts)
    shrunk = variances + SHRINKAGE * variances.sum() / len(mean)
    scales = 1 / np.sqrt(np.maximum(shrunk, EQUAL**2))
    return ContextProjection(mean, directions.T * scales, np.array(DEFAULT_RULE))


def _random_contexts(model: Model) -> Floats:
    """Return the contexts of a hidden word in random sentences. -> [s, d]

    Sentences without a context are left out, and so are those with vectors that are too large. If
    there are no others, all rows are zero.
    """
    size, d = model.manifest.vocabulary_size, model.manifest.dimension
    bias = np.zeros(size, np.float32) if model.word_bias is None else model.word_bias
    cumulative = np.cumsum(np.expm1(-np.clip(bias, *BIAS_RANGE)), dtype=np.float64)
    drawn = np.random.default_rng(SEED).random((RANDOM_SENTENCES, RANDOM_WORDS)) * cumulative[-1]
    place = RANDOM_WORDS // 2
    found = []
    for rows in np.searchsorted(cumulative, drawn).tolist():
        words = [(model.vocabulary.word(row), row) for row in rows]
        tokens = [ResolvedToken(word, None, None, word, "exact", row) for word, row in words]
        tokens.insert(place, _HIDDEN)
        with suppress(NonFiniteError):
            found.append(encode_occurrences(model, tokens, [place], 0)[0].context)
    found = [one for one in found if one.any()] or [np.zeros(d)] * RANDOM_SENTENCES
    return np.array(found, np.float64)
