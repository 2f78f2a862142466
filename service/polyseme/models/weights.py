"""Conversion between the tensors of `attention.safetensors` and the engine's layers; the senses.

`layers.0.query` and `.key` are `[d, h·k]`, `.value` is `[d, h·v]`, `.output` is `[h·v, d]`, each
with an optional `…_bias`; `.position_bias` is `[h, 2R+1]` for distances −R to R; `.word_bias_scale`
is `[h]`; `.attention_norm` and `.feed_forward_norm` have `.gain` and `.shift` `[d]`;
`.feed_forward.inner` is `[d, m]` and `.outer` `[m, d]`, with m hidden units and optional biases;
`.final` is `[d, d]`, with an optional bias, and is applied to the result of the layer; `.skip` is
`[d, d]`, is applied to the static vectors and added;
`word_bias` is `[V]`; `.features.context` is `[d, t]` and `.features.neighbors` `[d, m]` with the
bias `[m]`, where t + 2m = d; `sentence_whitening` is `[d, d]` and `sentence_whitening_bias` `[d]`.
An absent projection is the identity; other absent parts are skipped.

`senses.safetensors` has the projection and the rule with which `/v1/senses` finds senses.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import (
    IDENTITY,
    FeatureProjection,
    FeedForward,
    Layer,
    LayerNorm,
    Projection,
    Residual,
)
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import LayerEntry, ResidualEntry

Tensors = Mapping[str, NDArray[np.float32]]
WORD_BIAS = "word_bias"
WHITENING = "sentence_whitening"
RULE_SIZE = 3


class Wording(NamedTuple):
    """Where tensors and the entries of layers come from, in the words of error messages."""

    tensors: str = "attention.safetensors"
    entries: str = "the manifest"
    entries_set: str = "the manifest sets"


FOLDER = Wording()


def layers_from_tensors(
    tensors: Tensors,
    entries: list[LayerEntry],
    heads: int,
    dimension: int,
    wording: Wording = FOLDER,
) -> list[Layer]:
    """Build the layers; raise ModelFolderError if a shape is wrong or a tensor is unexpected."""
    reader = _TensorReader(tensors, dimension, wording)
    layers = [reader.layer(index, entry, heads) for index, entry in enumerate(entries)]
    widths = [[output_width(p, dimension) for p in (layer.key, layer.value)] for layer in layers]
    if any(width != widths[0] for width in widths):
        raise ModelFolderError(f"{wording.tensors} has layers of different head widths.")
    known = {WORD_BIAS, WHITENING, f"{WHITENING}_bias"}
    if left := sorted(set(tensors) - reader.used - known):
        raise ModelFolderError(f"{wording.tensors} has unexpected tensors: {left}.")
    return layers


def whitening_from_tensors(tensors: Tensors, dimension: int) -> Projection:
    """Build the whitening of sentence vectors; raise ModelFolderError if a shape is wrong."""
    return _TensorReader(tensors, dimension, FOLDER).projection(WHITENING, dimension, dimension)


class _TensorReader:
    """A reader of tensors that checks each shape and knows which tensors it has read."""

    def __init__(self, tensors: Tensors, d: int, wording: Wording) -> None:
        self.tensors, self.d, self.wording = tensors, d, wording
        self.prefix = ""
        self.used: set[str] = set()

    def layer(self, index: int, entry: LayerEntry, heads: int) -> Layer:
        self.prefix = f"layers.{index}."
        query, key, value = (self.projection(name, self.d) for name in ("query", "key", "value"))
        width, key_width, value_width = (output_width(p, self.d) for p in (query, key, value))
        self.require(width == key_width, "query and key differ in width")
        for name, each in (("query and key", width), ("value", value_width)):
            self.require(
                each % heads == 0,
                f"the width of {name} is not a multiple of the number of heads",
            )
        output = self.projection("output", value_width, self.d)
        attention_norm = self.norm("attention_norm", entry)
        feed_forward = self.feed_forward(entry)
        feed_forward_norm = self.norm("feed_forward_norm", entry)
        self.require(
            feed_forward is not None or feed_forward_norm is None,
            "feed_forward_norm is present, but the layer has no feed-forward network",
        )
        final = self.projection("final", self.d, self.d)
        position_bias = self.tensor("position_bias", heads, None)
        self.require(
            position_bias is None or position_bias.shape[1] % 2 == 1,
            "position_bias must have an odd number of columns",
        )
        factors = self.tensor("word_bias_scale", heads)
        self.require(
            factors is None or entry.word_bias,
            f"word_bias_scale requires `word_bias: true` in {self.wording.entries}",
        )
        return Layer(
            heads=heads,
            query=query,
            key=key,
            value=value,
            output=output,
            scoring=Scoring(entry.scale, entry.looks_at, position_bias, entry.word_bias, factors),
            residual=Residual(**entry.residual.model_dump()),
            norm=entry.norm,
            attention_norm=attention_norm,
            feed_forward=feed_forward,
            feed_forward_norm=feed_forward_norm,
            final=final,
            skip=self.tensor("skip", self.d, self.d),
            features=self.features(entry),
        )

    def require(self, condition: bool, sentence: str) -> None:
        if not condition:
            raise ModelFolderError(f"{self.wording.tensors}, {self.prefix[:-1]}: {sentence}.")

    def tensor(self, name: str, *shape: int | None) -> NDArray[np.float32] | None:
        """Read a tensor, or None if it is absent; None in the shape is any size except 0."""
        array = self.tensors.get(self.prefix + name)
        if array is not None:
            self.used.add(self.prefix + name)
            fits = len(array.shape) == len(shape) and all(
                side in {None, size} for side, size in zip(shape, array.shape, strict=True)
            )
            expected = ", ".join("≥1" if side is None else str(side) for side in shape)
            self.require(
                fits and array.size > 0,
                f"{name} has shape {list(array.shape)}, expected [{expected}]",
            )
        return array

    def projection(self, name: str, width: int, out: int | None = None) -> Projection:
        """Read a weight `[width, out]` and its bias `[out]`; None stands for any width."""
        weight = self.tensor(name, width, None)
        size = width if weight is None else weight.shape[1]
        projection = Projection(weight, self.tensor(f"{name}_bias", size))
        self.require(out in {None, size}, f"{name} has the wrong output width: expected {out}")
        return projection

    def norm(self, name: str, entry: LayerEntry) -> LayerNorm | None:
        gain = self.tensor(f"{name}.gain", self.d)
        shift = self.tensor(f"{name}.shift", self.d)
        self.require((gain is None) == (shift is None), f"{name} needs both gain and shift")
        if gain is None or shift is None:
            return None
        present = f"{name} is present, but {self.wording.entries_set} `norm: none`"
        self.require(entry.norm != "none", present)
        return LayerNorm(gain, shift, entry.norm_epsilon)

    def feed_forward(self, entry: LayerEntry) -> FeedForward | None:
        inner = self.projection("feed_forward.inner", self.d)
        width = output_width(inner, self.d)
        outer = self.projection("feed_forward.outer", width, self.d)
        if inner.weight is None and outer.weight is None:
            self.require(
                inner.bias is None and outer.bias is None, "feed_forward has biases but no weights"
            )
            return None
        return FeedForward(inner, outer, entry.activation)

    def features(self, entry: LayerEntry) -> FeatureProjection | None:
        context = self.tensor("features.context", self.d, None)
        neighbors = self.projection("features.neighbors", self.d)
        if context is None or neighbors.weight is None:
            absent = context is None and neighbors == Projection()
            self.require(absent, "features needs both context and neighbors")
            return None
        width = context.shape[1] + 2 * neighbors.weight.shape[1]
        self.require(width == self.d, f"features has {width} columns, expected {self.d}")
        self.require(entry.residual.kind == "unit", "features requires the residual unit")
        return FeatureProjection(context, neighbors)


def output_width(projection: Projection, width: int) -> int:
    """Return the width of the projected rows of `width` values."""
    return width if projection.weight is None else projection.weight.shape[1]


def tensors_from_layers(
    layers: list[Layer], word_bias: Floats | None = None, whitening: Projection = IDENTITY
) -> dict[str, Floats]:
    """Return the tensors of layers by name, the inverse of `layers_from_tensors`."""
    tensors = {WORD_BIAS: word_bias, **dict(_tensors(WHITENING, whitening))}
    for index, layer in enumerate(layers):
        tensors |= _tensors(f"layers.{index}", layer)
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _tensors(name: str, part: object) -> Iterator[tuple[str, Floats | None]]:
    """Yield the arrays of a part of a layer; the names of fields are those of tensors."""
    if isinstance(part, Projection):
        yield from ((name, part.weight), (f"{name}_bias", part.bias))
    elif isinstance(part, np.ndarray):
        yield name, part
    elif is_dataclass(part):
        for field in fields(part):
            prefix = name if field.name == "scoring" else f"{name}.{field.name}"
            yield from _tensors(prefix, getattr(part, field.name))


def layer_entry(layer: Layer) -> LayerEntry:
    """Return the manifest's entry for a layer."""
    norm = layer.attention_norm or layer.feed_forward_norm
    return LayerEntry(
        scale=layer.scoring.scale,
        looks_at=layer.scoring.mask,
        word_bias=layer.scoring.word_bias,
        residual=ResidualEntry(**vars(layer.residual)),
        norm=layer.norm,
        norm_epsilon=norm.epsilon if norm else 1e-5,
        activation=layer.feed_forward.activation if layer.feed_forward else "gelu",
    )


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
        return {name: np.ascontiguousarray(array) for name, array in self._asdict().items()}


def projection_from_tensors(tensors: Mapping[str, NDArray[Any]], d: int) -> ContextProjection:
    """Return the projection of a model of width d; raise ModelFolderError if it is invalid."""
    if set(tensors) != set(ContextProjection._fields):
        names = ", ".join(ContextProjection._fields)
        raise ModelFolderError(f"senses.safetensors: the tensors are not {names}.")
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise ModelFolderError(f"senses.safetensors, {name}: a value is not a finite number.")
    arrays = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    projection = ContextProjection(**arrays)
    width = len(projection.mean) if projection.mean.ndim == 1 else 0
    if not (
        width in {d, 3 * d}
        and projection.directions.ndim == 2
        and len(projection.directions) == width
        and projection.directions.size > 0
        and projection.rule.shape == (RULE_SIZE,)
    ):
        raise ModelFolderError(
            f"senses.safetensors: the shapes do not fit vectors of dimension {d}."
        )
    return projection
