"""Conversion between the tensors of `attention.safetensors` and the engine's layers.

`layers.0.query` and `.key` are `[d, h·k]`, `.value` is `[d, h·v]`, `.output` is `[h·v, d]`, each
with an optional `…_bias`; `.position_bias` is `[h, 2R+1]` for distances −R to R; `.word_bias_scale`
is `[h]`; `.attention_norm` and `.feed_forward_norm` have `.gain` and `.shift` `[d]`;
`.feed_forward.inner` is `[d, m]` and `.outer` `[m, d]`, with m hidden units and optional biases;
`word_bias` is `[V]`; `.features.context` is `[d, t]` and `.features.neighbors` `[d, m]` with the
bias `[m]`, where t + 2m = d; `sentence_whitening` is `[d, d]` and `sentence_whitening_bias` `[d]`.
An absent projection is the identity; other absent parts are skipped.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
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


def layers_from_tensors(
    tensors: Tensors, entries: list[LayerEntry], heads: int, dimension: int
) -> list[Layer]:
    """Build the layers; raise ModelFolderError if a shape is wrong or a tensor is unexpected."""
    used = {WORD_BIAS, WHITENING, f"{WHITENING}_bias"}
    layers = [
        _LayerReader(tensors, f"layers.{number}.", used, dimension).layer(entry, heads)
        for number, entry in enumerate(entries)
    ]
    if (
        len(
            {
                (_output_width(layer.key, dimension), _output_width(layer.value, dimension))
                for layer in layers
            }
        )
        > 1
    ):
        raise ModelFolderError("attention.safetensors has layers of different head widths.")
    if left := sorted(set(tensors) - used):
        raise ModelFolderError(f"attention.safetensors has unexpected tensors: {left}.")
    return layers


def whitening_from_tensors(tensors: Tensors, dimension: int) -> Projection:
    """Build the whitening of sentence vectors; raise ModelFolderError if a shape is wrong."""
    reader = _LayerReader(tensors, "", set(), dimension)
    whitening = reader.projection(WHITENING, dimension)
    reader.require_output(WHITENING, whitening, dimension)
    return whitening


class _LayerReader:
    """A reader of the tensors of one layer that checks each shape."""

    def __init__(self, tensors: Tensors, prefix: str, used: set[str], d: int) -> None:
        self.tensors, self.prefix, self.used, self.d = tensors, prefix, used, d

    def layer(self, entry: LayerEntry, heads: int) -> Layer:
        """Read the layer."""
        query, key = self.projection("query", self.d), self.projection("key", self.d)
        value = self.projection("value", self.d)
        width, key_width, value_width = (_output_width(p, self.d) for p in (query, key, value))
        self.require(width == key_width, "query and key differ in width")
        self.require(
            width % heads == 0,
            "the width of query and key is not a multiple of the number of heads",
        )
        self.require(
            value_width % heads == 0, "the width of value is not a multiple of the number of heads"
        )
        output = self.projection("output", value_width)
        self.require_output("output", output, value_width)
        attention_norm = self.norm("attention_norm", entry)
        feed_forward = self.feed_forward(entry)
        feed_forward_norm = self.norm("feed_forward_norm", entry)
        self.require(
            feed_forward is not None or feed_forward_norm is None,
            "feed_forward_norm is present, but the layer has no feed-forward network",
        )
        return Layer(
            heads=heads,
            query=query,
            key=key,
            value=value,
            output=output,
            scoring=self.scoring(entry, heads),
            residual=Residual(**entry.residual.model_dump()),
            norm=entry.norm,
            attention_norm=attention_norm,
            feed_forward=feed_forward,
            feed_forward_norm=feed_forward_norm,
            features=self.features(entry),
        )

    def require(self, condition: bool, sentence: str) -> None:
        """Raise ModelFolderError unless the condition holds."""
        if not condition:
            raise ModelFolderError(f"attention.safetensors, {self.prefix[:-1]}: {sentence}.")

    def require_output(self, name: str, projection: Projection, width: int) -> None:
        """Raise ModelFolderError unless a projection maps rows of `width` values to rows of d."""
        fits = _output_width(projection, width) == self.d
        self.require(fits, f"{name} has the wrong output width: expected {self.d}")

    def tensor(self, name: str, *shape: int | None) -> NDArray[np.float32] | None:
        """Read a tensor, or None if it is absent; None in the shape is any size except 0."""
        array = self.tensors.get(self.prefix + name)
        if array is not None:
            self.used.add(self.prefix + name)
            fits = len(array.shape) == len(shape) and all(
                size in {None, found} for size, found in zip(shape, array.shape, strict=True)
            )
            expected = ", ".join("≥1" if size is None else str(size) for size in shape)
            self.require(
                fits and array.size > 0,
                f"{name} has shape {list(array.shape)}, expected [{expected}]",
            )
        return array

    def projection(self, name: str, width: int) -> Projection:
        """Read a weight `[width, out]` and its bias `[out]`."""
        weight = self.tensor(name, width, None)
        out = width if weight is None else weight.shape[1]
        return Projection(weight, self.tensor(f"{name}_bias", out))

    def scoring(self, entry: LayerEntry, heads: int) -> Scoring:
        """Read the position bias, and each head's factor of the word bias."""
        table = self.tensor("position_bias", heads, None)
        odd = table is None or table.shape[1] % 2 == 1
        self.require(odd, "position_bias must have an odd number of columns")
        factors = self.tensor("word_bias_scale", heads)
        self.require(
            factors is None or entry.word_bias,
            "word_bias_scale requires `word_bias: true` in the manifest",
        )
        return Scoring(entry.scale, entry.looks_at, table, entry.word_bias, factors)

    def norm(self, name: str, entry: LayerEntry) -> LayerNorm | None:
        """Read a layer norm."""
        gain = self.tensor(f"{name}.gain", self.d)
        shift = self.tensor(f"{name}.shift", self.d)
        self.require((gain is None) == (shift is None), f"{name} needs both gain and shift")
        if gain is None or shift is None:
            return None
        present = f"{name} is present, but the manifest sets `norm: none`"
        self.require(entry.norm != "none", present)
        return LayerNorm(gain, shift, entry.norm_epsilon)

    def feed_forward(self, entry: LayerEntry) -> FeedForward | None:
        """Read a feed-forward network."""
        inner = self.projection("feed_forward.inner", self.d)
        width = _output_width(inner, self.d)
        outer = self.projection("feed_forward.outer", width)
        if inner.weight is None and outer.weight is None:
            self.require(
                inner.bias is None and outer.bias is None, "feed_forward has biases but no weights"
            )
            return None
        self.require_output("feed_forward.outer", outer, width)
        return FeedForward(inner, outer, entry.activation)

    def features(self, entry: LayerEntry) -> FeatureProjection | None:
        """Read the projection for features."""
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


def _output_width(projection: Projection, width: int) -> int:
    return width if projection.weight is None else projection.weight.shape[1]


def tensors_from_layers(
    layers: list[Layer], word_bias: Floats | None = None, whitening: Projection = IDENTITY
) -> dict[str, Floats]:
    """Return the tensors of layers by name, the inverse of `layers_from_tensors`."""
    tensors: dict[str, Floats | None] = {
        WORD_BIAS: word_bias,
        **_projection_tensors(WHITENING, whitening),
    }
    for number, layer in enumerate(layers):
        scoring = layer.scoring
        found: dict[str, Floats | None] = {
            "position_bias": scoring.position_bias,
            "word_bias_scale": scoring.word_bias_scale,
        }
        for name in ("query", "key", "value", "output"):
            found |= _projection_tensors(name, getattr(layer, name))
        for name in ("attention_norm", "feed_forward_norm"):
            norm: LayerNorm | None = getattr(layer, name)
            if norm is not None:
                found |= {f"{name}.gain": norm.gain, f"{name}.shift": norm.shift}
        if layer.feed_forward is not None:
            found |= _projection_tensors("feed_forward.inner", layer.feed_forward.inner)
            found |= _projection_tensors("feed_forward.outer", layer.feed_forward.outer)
        if layer.features is not None:
            found["features.context"] = layer.features.context
            found |= _projection_tensors("features.neighbors", layer.features.neighbors)
        tensors |= {f"layers.{number}.{name}": tensor for name, tensor in found.items()}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _projection_tensors(name: str, projection: Projection) -> dict[str, Floats | None]:
    return {name: projection.weight, f"{name}_bias": projection.bias}


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
