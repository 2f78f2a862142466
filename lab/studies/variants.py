"""Variants of a model's layers: without a part, or with a part stronger, weaker or replaced."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer, Projection
from polyseme.importing.closed_form import association, closed_form, frequencies_by_rank
from polyseme.models.model import Model

Layers = list[Layer]
THE_MODEL = "the model"
SHARES = (0.0, 0.2, 0.4, 0.8)
STRENGTHS = {"× ⅓": 1 / 3, "× ⅔": 2 / 3, "× 2": 2.0}


@dataclass(frozen=True)
class CachedProjection(Projection):
    """A projection that caches its last result, for variants that share the projection."""

    last: list[Floats] = field(default_factory=list, compare=False)

    def __call__(self, x: Floats) -> Floats:
        """Project each row, or return the cached result for the same array. [n, in] -> [n, out]"""
        if not self.last or self.last[0] is not x:
            self.last[:] = [x, super().__call__(x)]
        return self.last[1]


def with_cache(layer: Layer) -> Layer:
    """Return the layer with cached projections."""
    parts = {name: getattr(layer, name) for name in ("query", "key", "value")}
    return replace(layer, **{n: CachedProjection(p.weight, p.bias) for n, p in parts.items()})


def variants(model: Model) -> dict[str, Layers]:
    """Return the model's layers, first, and their variants, by name."""
    layers = [with_cache(layer) for layer in model.layers]
    d, stacks = model.manifest.dimension, {THE_MODEL: layers}

    def add(name: str, change: Callable[[Layer], Layer]) -> None:
        stacks[name] = [change(layer) for layer in layers]

    for head in range(layers[0].heads if layers[0].heads > 1 else 0):
        add(f"head {head + 1} alone", lambda layer, head=head: only_head(layer, head, d))
    add("no query weights", lambda layer: with_query_scaled(layer, 0, d))
    for name, times in STRENGTHS.items():
        add(f"query {name}", lambda layer, times=times: with_query_scaled(layer, times, d))
    add("no nearness", lambda layer: scored(layer, position_bias=None))
    add("no informativeness", lambda layer: scored(layer, word_bias=False, word_bias_scale=None))
    add("attends to itself too", lambda layer: scored(layer, mask="all"))
    residual = layers[-1].residual
    if residual.kind == "unit":

        def with_share(**changes: float) -> Layers:
            return [*layers[:-1], replace(layers[-1], residual=replace(residual, **changes))]

        # A manifest may have a share that is rounded to float32, such as 0.20000000298.
        others = [share for share in SHARES if not np.isclose(share, residual.share)]
        stacks |= {f"static share {share:g}": with_share(share=share) for share in others}
        if residual.position_share:
            stacks["no position in the residual"] = with_share(position_share=0.0)
    # The static vectors as values, or parts of the closed form.
    first, vectors = layers[0], model.vectors
    key = association(vectors, frequencies_by_rank(len(vectors)))
    closed = closed_form(vectors, key, informative=model.word_bias is not None)
    plain = _averaged(first, Projection(np.eye(d, dtype=np.float32)), d)
    stacks["values: the static vectors"] = [plain, *layers[1:]]
    if len(layers) == 1:
        stacks["values: closed form"] = [_averaged(first, closed.value, d)]
        h, scoring, table = first.heads, closed.scoring, closed.scoring.position_bias
        if table is not None:  # the scores of the closed form, which has one head, in every head
            scoring = replace(scoring, position_bias=np.repeat(table, h, axis=0))
        query, tiled_key = (_tiled(part, h, d) for part in (closed.query, closed.key))
        alike = replace(first, query=query, key=tiled_key, scoring=scoring)
        stacks["scores: closed form"] = [alike]
        stacks["closed form"] = [closed]
    if len(layers) > 1:
        stacks |= {f"layers 1 to {last}": layers[:last] for last in range(1, len(layers))}
    stacks["parameter-free"] = [Layer()]
    return stacks


def _averaged(layer: Layer, value: Projection, d: int) -> Layer:
    """Return the layer with one value projection for all heads; the output is the heads' mean."""
    if layer.heads == 1:
        return replace(layer, value=value, output=Projection())
    output = np.tile(np.eye(d, dtype=np.float32), (layer.heads, 1)) / np.float32(layer.heads)
    return replace(layer, value=_tiled(value, layer.heads, d), output=Projection(output))


def _tiled(projection: Projection, heads: int, d: int) -> Projection:
    """Return a projection with the same columns for every head. [in, out] -> [in, h·out]"""
    if heads == 1:
        return projection
    weight, bias = weight_of(projection, d), projection.bias
    return Projection(np.tile(weight, heads), None if bias is None else np.tile(bias, heads))


def weight_of(projection: Projection, d: int) -> Floats:
    """Return the weight, or the identity if there is none. -> [in, out]"""
    return np.eye(d, dtype=np.float32) if projection.weight is None else projection.weight


def scored(layer: Layer, **changes: object) -> Layer:
    """Return the layer with changed scoring."""
    return replace(layer, scoring=replace(layer.scoring, **changes))


def with_query_scaled(layer: Layer, times: float, d: int) -> Layer:
    """Return the layer with the query's weights multiplied by `times`.

    The bias is unchanged, because its part of the scores is the same for all query tokens. With 0,
    only this part remains of the products of queries and keys.
    """
    weight = weight_of(layer.query, d) * np.float32(times)
    return replace(layer, query=Projection(weight, layer.query.bias))


def only_head(layer: Layer, head: int, d: int) -> Layer:
    """Return the layer with the values of the other heads set to zero."""
    value, output = layer.value, layer.output
    if output.weight is not None:
        kept = _block(output.weight.shape[0], layer.heads, head)
        weight = output.weight * kept[:, None]
        return replace(layer, output=Projection(weight, output.bias))
    weight = weight_of(value, d)
    kept = _block(weight.shape[1], layer.heads, head)
    bias = None if value.bias is None else value.bias * kept
    return replace(layer, value=Projection(weight * kept, bias))


def _block(width: int, heads: int, head: int) -> Floats:
    """Return 1 for the columns of a head, 0 for other columns. -> [h·v]"""
    edges = [number * width // heads for number in range(heads + 1)]
    start, stop = list(pairwise(edges))[head]
    kept = np.zeros(width, np.float32)
    kept[start:stop] = 1
    return kept
