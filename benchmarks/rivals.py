"""Baselines of the engine: matrix products and torch's attention."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import IDENTITY, Projection
from polyseme.engine.positions import relative_bias, scaled_sinusoids
from polyseme.models.model import Model

Way: TypeAlias = Literal["as they are", "padded"]


def products(model: Model, x: Floats) -> Callable[[], None]:
    """Return a function that computes only the layer's matrix products for x [n, d]."""
    layer, n = model.layers[0], len(x)
    heads, wide = layer.heads, model.value_width
    weights = [np.ascontiguousarray(_weight(part)) for part in (layer.query, layer.key)]
    projected = [np.empty((n, weight.shape[1]), np.float32) for weight in weights]
    queries, keys = (_heads(x @ weight, heads) for weight in weights)
    transposed = np.ascontiguousarray(keys.transpose(0, 2, 1))
    values, scores = _heads(x, heads), np.empty((heads, n, n), np.float32)
    mixed, attention = np.empty((heads, n, wide), np.float32), np.full_like(scores, 1 / n)

    def run() -> None:
        for weight, out in zip(weights, projected, strict=True):
            np.matmul(x, weight, out=out)
        np.matmul(queries, transposed, out=scores)
        np.matmul(attention, values, out=mixed)

    return run


def _heads(x: Floats, heads: int) -> Floats:
    return np.ascontiguousarray(x.reshape(len(x), heads, -1).transpose(1, 0, 2))


def _weight(projection: Projection) -> Floats:
    if projection.weight is None:
        raise SystemExit("The bundled model's layer lacks a weight that this script expects.")
    return projection.weight


class TorchLayer:
    """The bundled model's layer, with torch's scaled_dot_product_attention.

    The constructor computes everything that does not depend on the sentence. All words of a
    sentence must be known, and two must differ, as in `sentences.py`.
    """

    def __init__(self, model: Model, longest: int) -> None:
        layer, width = model.layers[0], model.manifest.dimension
        scoring, residual = layer.scoring, layer.residual
        same = layer.value.weight is None and layer.output == IDENTITY and scoring.scale is False
        if not (same and residual.kind == "unit" and scoring.mask == "other-words"):
            raise SystemExit("The bundled model's layer has another form than this script expects.")
        self.heads, self.share = layer.heads, residual.share
        both = [_weight(layer.query), _weight(layer.key)]
        self.weight = torch.from_numpy(np.concatenate(both, axis=1))
        self.shift = torch.from_numpy(np.concatenate([layer.query.bias, layer.key.bias]))
        bias = relative_bias(scoring.position_bias, range(longest), longest)
        nothing = np.zeros(width, np.float32)
        self.value = torch.from_numpy(nothing if layer.value.bias is None else layer.value.bias)
        self.bias = torch.from_numpy(np.array(bias))
        self.scale = torch.from_numpy(np.array(scoring.word_bias_scale))[:, None]
        kind = np.dtype(np.float32)
        position = scaled_sinusoids(longest, width, residual.position_share, kind)
        self.position = torch.from_numpy(np.array(position))

    def __call__(self, x: Tensor, words: Tensor, word_bias: Tensor, way: Way) -> Tensor:
        """Run the layer. [n, d], [n], [n] -> [n, d]

        Torch has a faster kernel if queries and keys are as wide as values; `padded` pads them.
        """
        n, d = x.shape
        projected = torch.addmm(self.shift, x, self.weight).view(n, 2 * self.heads, -1)
        values = (x + self.value).view(n, self.heads, -1).transpose(0, 1)
        if way == "padded":
            projected = functional.pad(projected, (0, values.shape[2] - projected.shape[2]))
        queries, keys = projected.transpose(0, 1).split(self.heads)
        mask = self.bias[:, :n, :n] + (self.scale * word_bias)[:, None]
        mask.masked_fill_(words[:, None] == words, -torch.inf)
        context = functional.scaled_dot_product_attention(
            queries[None], keys[None], values[None], attn_mask=mask[None], scale=1.0
        )
        output = functional.normalize(context[0].transpose(0, 1).reshape(n, d))
        output.add_(functional.normalize(x), alpha=self.share)
        return output.add_(self.position[:n])


def tensors(sentence: SentenceArrays) -> tuple[Tensor, Tensor, Tensor]:
    """Return the input of the layer in torch."""
    bias = np.array(sentence.word_bias, np.float32)
    return tuple(map(torch.from_numpy, (sentence.vectors, sentence.words, bias)))
