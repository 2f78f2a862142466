"""Initialize the weights of training: from the model, in closed form, or at random."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeedForward, Layer, LayerNorm, Projection, Residual
from polyseme.errors import CommandError
from polyseme.importing.closed_form import (
    FREQUENT,
    POSITION_SHARE,
    RARE,
    REACH,
    SHARE,
    association,
    closed_form,
    nearness,
)
from polyseme.models.model import Model
from polyseme.tokenizer import ResolvedToken
from polyseme_lab.training.config import TrainingConfig

_DISTANT = 0.02
"""The weight of distant words in `local_bias`, relative to words at a distance of 1 or 2."""


def initial_layers(model: Model, config: TrainingConfig) -> list[Layer]:
    """Return the initial layers of the training of a model."""
    if config.init == "model":
        shape = ("heads", "key_width", "value_width", "layers", "feed_forward")
        if config.norm != "none" or any(getattr(config, name) for name in shape):
            raise CommandError(
                "The options of the layers' shape do not apply to a model's existing layers; omit"
                " them, or use --init closed-form or --init random."
            )
        return list(model.layers)
    rng = np.random.default_rng([config.seed, 0x57])
    d, informative = model.manifest.dimension, model.word_bias is not None
    if config.init == "random":
        first = _random(rng, config, d, informative=informative)
    else:
        first = _in_closed_form(model, config)
    first = _with_parts(first, config, d, rng)
    return [first, *(_added_layer(first, config, d, rng) for _ in range((config.layers or 1) - 1))]


def _in_closed_form(model: Model, config: TrainingConfig) -> Layer:
    """Return the closed form of the model's vectors, in the configured shape."""
    size = model.manifest.vocabulary_size
    count = min(size, FREQUENT)
    if model.word_bias is None:
        rows, frequencies = np.arange(count) * size // count, np.full(count, 1 / size)
    else:
        rows, frequencies = (
            np.arange(count),
            RARE * np.expm1(-model.word_bias[:count].astype(float)),
        )
        frequencies = np.maximum(frequencies, 0)
    sample = vectors_of(model, rows)
    if config.norm == "before":
        sample = _identity_norm(model.manifest.dimension)(sample)
    key = association(sample, frequencies)
    layer = closed_form(sample, key, informative=model.word_bias is not None)
    if config.heads is None and config.key_width is None and config.value_width is None:
        return layer
    return _in_heads(layer, sample, frequencies, config)


def vectors_of(model: Model, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors of some rows of the vocabulary, as floats. -> [n, d]"""
    return model.static([ResolvedToken("", None, None, "", "exact", int(row)) for row in rows])


def _in_heads(layer: Layer, sample: Floats, frequencies: Floats, config: TrainingConfig) -> Layer:
    """Return the closed form with several heads or narrower keys and values.

    The output is the mean of the heads. Every second head has the position bias `local_bias()`.
    """
    heads, d = config.heads or 1, sample.shape[1]
    query, key = narrower_key(layer.key.weight, sample, frequencies, config.key_width or d)
    value, output = narrower_value(layer.value.weight, sample, config.value_width or d)
    bias = layer.value.bias
    shift = None if bias is None else np.tile(bias @ output.T, heads)
    tables = [nearness() if head % 2 == 0 else local_bias() for head in range(heads)]
    return replace(
        layer,
        heads=heads,
        query=Projection(np.tile(query, heads)),
        key=Projection(np.tile(key, heads)),
        value=Projection(np.tile(value, heads), shift),
        output=Projection(np.tile(output / heads, (heads, 1))),
        scoring=replace(
            layer.scoring,
            position_bias=np.concatenate(tables),
            word_bias_scale=_unit_scale(heads, informative=layer.scoring.word_bias),
        ),
    )


def local_bias(reach: int = REACH) -> NDArray[np.float32]:
    """Return log(0.02 + exp(−max(|Δ| − 2, 0))) for each distance Δ. -> [1, 2·reach+1]

    It favors words at a distance of 1 or 2.
    """
    distances = np.abs(np.arange(-reach, reach + 1))
    table: NDArray[np.float32] = np.log(_DISTANT + np.exp(-np.maximum(distances - 2, 0)))
    return table.astype(np.float32)[None]


def narrower_key(
    weight: Floats | None, sample: Floats, frequencies: Floats, k: int
) -> tuple[Floats, Floats]:
    """Approximate W by query and key weights with k columns. -> [d, k], [d, k]

    x·(y·W)ᵀ ≈ (x·U)·(y·W·U)ᵀ. The columns of U are the k main eigenvectors of the second moment of
    the keys y·W. Each key is weighted by p·s, where p is the frequency of its word and
    s = RARE / (RARE + p).
    """
    d = sample.shape[1]
    full = np.eye(d) if weight is None else weight.astype(np.float64)
    if k >= d:
        return _padded(np.eye(d), k), _padded(full, k)
    keys = sample @ full
    weights = frequencies * RARE / (RARE + frequencies)
    moment = (keys.T * weights) @ keys
    _, directions = np.linalg.eigh(moment)
    top = directions[:, ::-1][:, :k]
    return top.astype(np.float32), (full @ top).astype(np.float32)


def narrower_value(weight: Floats | None, sample: Floats, v: int) -> tuple[Floats, Floats]:
    """Approximate W by the product (W·U)·Uᵀ. -> [d, v], [v, d]

    The columns of U are the v main directions of variance of the values.
    """
    d = sample.shape[1]
    full = np.eye(d) if weight is None else weight.astype(np.float64)
    if v >= d:
        return _padded(full, v), _padded(np.eye(d), v).T.copy()
    values = sample @ full
    values -= values.mean(axis=0)
    _, directions = np.linalg.eigh(values.T @ values)
    top = directions[:, ::-1][:, :v]
    return (full @ top).astype(np.float32), np.ascontiguousarray(top.T, np.float32)


def _padded(matrix: Floats, columns: int) -> Floats:
    """Append columns of zeros. [d, e] -> [d, columns]"""
    wide = np.zeros((len(matrix), columns), np.float32)
    wide[:, : matrix.shape[1]] = matrix
    return wide


def _random(
    rng: np.random.Generator, config: TrainingConfig, d: int, *, informative: bool
) -> Layer:
    """Return a layer with random weights (Glorot & Bengio 2010)."""
    heads = config.heads or 1
    k, v = config.key_width or max(1, d // heads), config.value_width or max(1, d // heads)
    return Layer(
        heads=heads,
        query=_glorot(rng, d, heads * k),
        key=_glorot(rng, d, heads * k),
        value=_glorot(rng, d, heads * v),
        output=_glorot(rng, heads * v, d),
        scoring=Scoring(
            mask="other-words",
            position_bias=np.zeros((heads, 2 * REACH + 1), np.float32),
            word_bias=informative,
            word_bias_scale=_unit_scale(heads, informative=informative),
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )


def _added_layer(first: Layer, config: TrainingConfig, d: int, rng: np.random.Generator) -> Layer:
    """Return a layer to add after the first. Its attention output is zero.

    Without a norm after the residual, it is the identity.
    """
    heads = first.heads
    k, v = (p.weight.shape[1] // heads if p.weight is not None else d // heads
            for p in (first.key, first.value))  # fmt: skip
    layer = Layer(
        heads=heads,
        query=_glorot(rng, d, heads * k),
        key=_glorot(rng, d, heads * k),
        value=_glorot(rng, d, heads * v),
        output=Projection(np.zeros((heads * v, d), np.float32)),
        scoring=Scoring(mask="others", position_bias=np.zeros((heads, 2 * REACH + 1), np.float32)),
        residual=Residual("add"),
    )
    return _with_parts(layer, config, d, rng)


def _with_parts(layer: Layer, config: TrainingConfig, d: int, rng: np.random.Generator) -> Layer:
    """Return the layer with the configured norm and feed-forward network."""
    if config.norm != "none":
        layer = replace(layer, norm=config.norm, attention_norm=_identity_norm(d))
    if config.feed_forward:
        m = config.feed_forward
        outer = Projection(np.zeros((m, d), np.float32), np.zeros(d, np.float32))
        inner = replace(_glorot(rng, d, m), bias=np.zeros(m, np.float32))
        layer = replace(layer, feed_forward=FeedForward(inner, outer, "gelu"))
        if config.norm != "none":
            layer = replace(layer, feed_forward_norm=_identity_norm(d))
    return layer


def _identity_norm(d: int) -> LayerNorm:
    """Return a layer norm with gain 1 and shift 0."""
    return LayerNorm(np.ones(d, np.float32), np.zeros(d, np.float32))


def _unit_scale(heads: int, *, informative: bool) -> NDArray[np.float32] | None:
    """Return a factor of 1 for each head, or None without a word bias. -> [h]"""
    return np.ones(heads, np.float32) if informative else None


def _glorot(rng: np.random.Generator, rows: int, columns: int) -> Projection:
    """Return random weights, uniform within ±√(6 / (rows + columns))."""
    bound = float(np.sqrt(6 / (rows + columns)))
    return Projection(rng.uniform(-bound, bound, (rows, columns)).astype(np.float32))
