"""Compute the initial weights of the bundled model's training: four heads in closed form.

The values of each head are a quarter of the columns of the half-whitened vectors, so the
concatenated heads have the columns of the vectors and need no output projection.

1. The first head has the closed form's nearness and informativeness, without association.
2. The second head also has association, reduced to the width of its keys.
3. The third and the fourth head attend to the words just before and just after.
"""

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer, Projection, Residual
from polyseme.importing.closed_form import (
    POSITION_SHARE,
    REACH,
    SHARE,
    association,
    half_whitening,
    nearness,
)

HEADS, KEY_WIDTH, SEED = 4, 16, 1
ASSOCIATING = 1
FREQUENT = 30_000
OFFSET = 4.0
"""Subtracted from the scores of the other side of a word, in heads that attend to one side."""
STRENGTHS = (1.0, 1.0, 0.6, 0.6)
"""The factor of each head's values."""
WORD_BIAS = (1.1, 1.1, 0.15, 0.15)
"""The factor of the word bias in each head; small in heads that attend to function words too."""
QUERY_SCALE = 0.05
"""The scale of random queries in heads whose keys are zero, so that gradients are not zero."""


def start(vectors: Floats, frequencies: Floats) -> Layer:
    """Return the initial layer. [V, d], [V] -> layer"""
    value, key = half_whitening(vectors), association(vectors, frequencies).weight
    assert value.weight is not None  # noqa: S101 - for mypy
    assert value.bias is not None  # noqa: S101 - for mypy
    assert key is not None  # noqa: S101 - for mypy
    top = _directions(vectors[:FREQUENT] @ key, frequencies[:FREQUENT])
    rng = np.random.default_rng(SEED)
    queries = [QUERY_SCALE * rng.standard_normal(top.shape) for _ in range(HEADS)]
    keys = [np.zeros(top.shape) for _ in range(HEADS)]
    queries[ASSOCIATING], keys[ASSOCIATING] = top, key @ top
    strengths = np.repeat(STRENGTHS, vectors.shape[1] // HEADS).astype(np.float32)
    return Layer(
        heads=HEADS,
        query=Projection(_concatenated(queries), np.zeros(HEADS * KEY_WIDTH, np.float32)),
        key=Projection(_concatenated(keys)),
        value=Projection(value.weight * strengths, value.bias * strengths),
        scoring=Scoring(
            scale=False,
            mask="other-words",
            position_bias=np.concatenate([nearness(), nearness(), one_side(-1), one_side(1)]),
            word_bias=True,
            word_bias_scale=np.array(WORD_BIAS, np.float32),
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )


def one_side(side: int) -> Floats:
    """Return 1 − |Δ| on one side, −4 − 0.3·|Δ| elsewhere, by distance Δ. -> [1, 2·REACH+1]

    `side` is −1 for the tokens before the query token, 1 for those after it.
    """
    distances = np.arange(-REACH, REACH + 1)
    near, far = 1.0 - np.abs(distances), -OFFSET - 0.3 * np.abs(distances)
    table: Floats = np.where(distances * side > 0, near, far).astype(np.float32)[None]
    return table


def _directions(keys: Floats, frequencies: Floats) -> Floats:
    """Return the directions of most variance of the keys, weighted by p·s. -> [d, k]"""
    weights = frequencies * 1e-3 / (1e-3 + frequencies)
    _, directions = np.linalg.eigh((keys.T * weights) @ keys)
    top: Floats = directions[:, ::-1][:, :KEY_WIDTH]
    return top


def _concatenated(parts: list[Floats]) -> Floats:
    joined: Floats = np.concatenate(parts, axis=1).astype(np.float32)
    return joined
