"""The layer of `wiki-en`: its initial weights, its values as vectors, and its centered contexts."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from lab.factory.wiki_text import paragraphs
from numpy.typing import NDArray

from polyseme.engine import Floats
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import IDENTITY, Layer, Projection, Residual, contextualize
from polyseme.importing.closed_form import (
    POSITION_SHARE,
    REACH,
    SHARE,
    association,
    half_whitening,
    nearness,
)
from polyseme.models.model import Model

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
    sample, p = vectors[:FREQUENT], frequencies[:FREQUENT]
    value, key = half_whitening(sample), association(sample, p).weight
    keys = sample @ key
    # The directions of most variance of the keys, weighted by p·s. [d, k]
    _, directions = np.linalg.eigh((keys.T * (p * 1e-3 / (1e-3 + p))) @ keys)
    top = directions[:, ::-1][:, :KEY_WIDTH]
    rng = np.random.default_rng(SEED)
    queries = [QUERY_SCALE * rng.standard_normal(top.shape) for _ in range(HEADS)]
    narrow_keys = [np.zeros(top.shape) for _ in range(HEADS)]
    queries[ASSOCIATING], narrow_keys[ASSOCIATING] = top, key @ top
    strengths = np.repeat(STRENGTHS, vectors.shape[1] // HEADS).astype(np.float32)
    return Layer(
        heads=HEADS,
        query=Projection(
            np.concatenate(queries, axis=1).astype(np.float32),
            np.zeros(HEADS * KEY_WIDTH, np.float32),
        ),
        key=Projection(np.concatenate(narrow_keys, axis=1).astype(np.float32)),
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


def fold_values(vectors: Floats, layer: Layer) -> tuple[NDArray[np.float32], Layer]:
    """Return the layer's values as new vectors, and the adapted layer. [V, d] -> [V, d], layer

    The values x·Wv + bv depend only on the word. If the layer has query and key weights, storing
    x' = x·Wv + bv instead of x saves one product with a [d, d] matrix per sentence. The queries and
    keys remain the same, because x = (x' − bv)·Wv⁻¹:

        x·W + b = x'·W' + (b − bv·W'),     W' = Wv⁻¹·W

    Attention weights and context are unchanged; the residual adds a share of x' instead of x.
    Raises LinAlgError if Wv is singular.
    """
    weight = layer.value.weight.astype(np.float64)
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


CENTERED = 0.75
"""The factor of the mean context; the scores with 0.5 to 1 differ by less than their noise."""
STEP, TOKENS = 400, 40
"""The mean is taken over the first 40 tokens of every 400th paragraph of the corpus."""


def mean_context(model: Model, corpus: Path) -> Floats:
    """Return the mean output of attention over a corpus. -> [d], float64"""
    total, count = np.zeros(model.manifest.dimension), 0
    for paragraph in islice(paragraphs(corpus), 0, None, STEP):
        tokens = model.tokenizer.tokens(paragraph, "auto", TOKENS)[:TOKENS]
        if tokens:
            contexts = contextualize(model.inputs(tokens), model.layers).attended
            total += contexts.sum(axis=0, dtype=np.float64)
            count += len(contexts)
    return total / max(count, 1)


def centered(model: Model, corpus: Path) -> Layer:
    """Return the layer of a model with −CENTERED · mean context as the bias of the values."""
    (layer,) = model.layers
    bias = (-CENTERED * mean_context(model, corpus)).astype(np.float32)
    return replace(layer, value=Projection(layer.value.weight, bias))
