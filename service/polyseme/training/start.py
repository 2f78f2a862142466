"""Where a training starts: in closed form, at random, or from what a model has."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeedForward, Layer, LayerNorm, Projection, Residual
from polyseme.models.model import Model
from polyseme.tokenizer import Token
from polyseme.training.closed_form import (
    FREQUENT,
    POSITION_SHARE,
    RARE,
    REACH,
    SHARE,
    attraction,
    closed_form,
    nearness,
)
from polyseme.training.recipe import Recipe
from polyseme.training.refusal import TrainingError

_NARROW = 0.02
"""How much a narrow head sees of what is far."""


def start(model: Model, recipe: Recipe) -> list[Layer]:
    """The layers that a training of a model starts from."""
    if recipe.init == "model":
        _require_same_shape(recipe)
        return list(model.layers)
    rng = np.random.default_rng([recipe.seed, 0x57])
    d, informative = model.manifest.dimension, model.word_bias is not None
    if recipe.init == "random":
        first = _random(rng, recipe, d, informative=informative)
    else:
        first = _in_closed_form(model, recipe)
    first = _with_parts(first, recipe, d, rng)
    return [first, *(_further(first, recipe, d, rng) for _ in range((recipe.layers or 1) - 1))]


def _require_same_shape(recipe: Recipe) -> None:
    shape = ("heads", "key_width", "value_width", "layers", "feed_forward")
    if recipe.norm != "none" or any(getattr(recipe, name) for name in shape):
        raise TrainingError(
            "Layers that a model has keep their shape: leave the options of shape away, or give"
            " --init closed-form or --init random."
        )


def _in_closed_form(model: Model, recipe: Recipe) -> Layer:
    """The closed form of the model's own vectors, in the shape that the recipe has."""
    sample, frequencies = _sample(model)
    if recipe.norm == "before":
        sample = LayerNorm(*_still(model.manifest.dimension))(sample)
    key = attraction(sample, frequencies)
    layer = closed_form(sample, key, informative=model.word_bias is not None)
    if recipe.heads is None and recipe.key_width is None and recipe.value_width is None:
        return layer
    return _in_heads(layer, sample, frequencies, recipe)


def _sample(model: Model) -> tuple[NDArray[np.float32], Floats]:
    """The words that the closed form looks at, and how frequent they are. -> [v, d], [v]"""
    size = model.manifest.vocabulary_size
    count = min(size, FREQUENT)
    if model.word_bias is None:
        rows = np.arange(count) * size // count
        return vectors_of(model, rows), np.full(count, 1 / size)
    frequencies = RARE * np.expm1(-model.word_bias[:count].astype(np.float64))
    return vectors_of(model, np.arange(count)), np.maximum(frequencies, 0)


def vectors_of(model: Model, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors of some rows of the vocabulary, however the model keeps them. -> [n, d]"""
    return model.static([Token("", None, None, "", "exact", int(row)) for row in rows])


def _in_heads(layer: Layer, sample: Floats, frequencies: Floats, recipe: Recipe) -> Layer:
    """The same with several heads, or in fewer columns. The output is the mean of the heads.

    Every other head sees little but its neighbours: log(0.02 + exp(−max(|Δ| − 2, 0))).
    """
    heads, d = recipe.heads or 1, sample.shape[1]
    query, key = narrower_key(layer.key.weight, sample, frequencies, recipe.key_width or d)
    value, output = narrower_value(layer.value.weight, sample, recipe.value_width or d)
    bias = None if layer.value.bias is None else layer.value.bias
    shift = None if bias is None else np.tile(bias @ output.T, heads)
    tables = [nearness() if head % 2 == 0 else narrow() for head in range(heads)]
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
            word_bias_scale=_even(heads, informative=layer.scoring.word_bias),
        ),
    )


def narrow(reach: int = REACH) -> NDArray[np.float32]:
    """log(0.02 + exp(−max(|Δ| − 2, 0))) for each distance Δ. -> [1, 2·reach+1]"""
    distances = np.abs(np.arange(-reach, reach + 1))
    table: NDArray[np.float32] = np.log(_NARROW + np.exp(-np.maximum(distances - 2, 0)))
    return table.astype(np.float32)[None]


def narrower_key(
    weight: Floats | None, sample: Floats, frequencies: Floats, k: int
) -> tuple[Floats, Floats]:
    """W as a product of two of k columns: the directions in which words vary most. -> 2 × [d, k]

    x·(y·W)ᵀ ≈ (x·U)·(y·W·U)ᵀ, U being the first eigenvectors of what the keys y·W vary by, each
    word weighed by how much attention it draws.
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
    """W as a product over v columns: those in which values vary most. -> [d, v], [v, d]"""
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
    """The matrix with columns of zeros at its end. [d, e] -> [d, columns]"""
    wide = np.zeros((len(matrix), columns), np.float32)
    wide[:, : matrix.shape[1]] = matrix
    return wide


def _random(rng: np.random.Generator, recipe: Recipe, d: int, *, informative: bool) -> Layer:
    """A layer whose weights are drawn as Glorot & Bengio (2010) draw them."""
    heads = recipe.heads or 1
    k, v = recipe.key_width or max(1, d // heads), recipe.value_width or max(1, d // heads)
    return Layer(
        heads=heads,
        query=_drawn(rng, d, heads * k),
        key=_drawn(rng, d, heads * k),
        value=_drawn(rng, d, heads * v),
        output=_drawn(rng, heads * v, d),
        scoring=Scoring(
            looks_at="other-words",
            position_bias=np.zeros((heads, 2 * REACH + 1), np.float32),
            word_bias=informative,
            word_bias_scale=_even(heads, informative=informative),
        ),
        residual=Residual("unit", SHARE, POSITION_SHARE),
    )


def _further(first: Layer, recipe: Recipe, d: int, rng: np.random.Generator) -> Layer:
    """A layer after the first, which changes nothing yet: its output is zero and is added."""
    heads = first.heads
    k, v = (p.weight.shape[1] // heads if p.weight is not None else d // heads
            for p in (first.key, first.value))  # fmt: skip
    layer = Layer(
        heads=heads,
        query=_drawn(rng, d, heads * k),
        key=_drawn(rng, d, heads * k),
        value=_drawn(rng, d, heads * v),
        output=Projection(np.zeros((heads * v, d), np.float32)),
        scoring=Scoring(
            looks_at="others", position_bias=np.zeros((heads, 2 * REACH + 1), np.float32)
        ),
        residual=Residual("add"),
    )
    return _with_parts(layer, recipe, d, rng)


def _with_parts(layer: Layer, recipe: Recipe, d: int, rng: np.random.Generator) -> Layer:
    """The layer with the norm and the feed-forward network that the recipe wants."""
    if recipe.norm != "none":
        layer = replace(layer, norm=recipe.norm, attention_norm=LayerNorm(*_still(d)))
    if recipe.feed_forward:
        m = recipe.feed_forward
        outer = Projection(np.zeros((m, d), np.float32), np.zeros(d, np.float32))
        inner = replace(_drawn(rng, d, m), bias=np.zeros(m, np.float32))
        layer = replace(layer, feed_forward=FeedForward(inner, outer, "gelu"))
        if recipe.norm != "none":
            layer = replace(layer, feed_forward_norm=LayerNorm(*_still(d)))
    return layer


def _still(d: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Gain and shift of a norm that does nothing more. -> [d], [d]"""
    return np.ones(d, np.float32), np.zeros(d, np.float32)


def _even(heads: int, *, informative: bool) -> NDArray[np.float32] | None:
    """How much of the word bias each head adds at the start, to be learned. -> [h]"""
    return np.ones(heads, np.float32) if informative else None


def _drawn(rng: np.random.Generator, rows: int, columns: int) -> Projection:
    bound = float(np.sqrt(6 / (rows + columns)))
    return Projection(rng.uniform(-bound, bound, (rows, columns)).astype(np.float32))
