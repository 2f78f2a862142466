"""Pre-norm layers in PyTorch that compute the rows of hidden words, fast enough to train from text.

The network holds the tensors of `attention.safetensors` by name and computes the same results as
`polyseme.engine`. Its last layer computes only the rows of the hidden words. Sentences in a batch
have similar lengths; unknown tokens pad them to one length.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeedForward, Layer, LayerNorm, Projection, Residual
from polyseme.importing.closed_form import nearness
from polyseme.models.weights import tensors_from_layers

EPSILON = 1e-5
"""The epsilon of layer norms."""
REACH = 16
"""The largest distance with a position bias of its own."""


def initial_stack(
    d: int, layers: int, heads: int, feed_forward: int, rng: np.random.Generator
) -> list[Layer]:
    """Return pre-norm layers with random weights (Glorot & Bengio 2010).

    The outputs of attention and of feed-forward networks are divided by √(2L), so that the sum of
    L layers is about as large for any number of layers (Radford et al. 2019). The first layer's
    values and outputs are the identity plus these weights, so that a hidden word begins with the
    mean of its context, which is a good guess in the space of static vectors.
    """
    small = 1 / math.sqrt(2 * layers)

    def projection(
        rows: int, columns: int, scale: float = 1.0, diagonal: float = 0.0
    ) -> Projection:
        bound = scale * math.sqrt(6 / (rows + columns))
        weight = rng.uniform(-bound, bound, (rows, columns)) + diagonal * np.eye(rows, columns)
        return Projection(weight.astype(np.float32), np.zeros(columns, np.float32))

    def norm() -> LayerNorm:
        return LayerNorm(np.ones(d, np.float32), np.zeros(d, np.float32), EPSILON)

    def layer(identity: float) -> Layer:
        width = heads * max(1, d // heads)
        return Layer(
            heads=heads,
            query=projection(d, width),
            key=projection(d, width),
            value=projection(d, width, diagonal=identity),
            output=projection(width, d, small, identity),
            scoring=Scoring(position_bias=np.repeat(nearness(REACH), heads, axis=0)),
            residual=Residual("add"),
            norm="before",
            attention_norm=norm(),
            feed_forward=FeedForward(
                projection(d, feed_forward), projection(feed_forward, d, small)
            ),
            feed_forward_norm=norm(),
        )

    return [layer(float(number == 0)) for number in range(layers)]


def stack_tensors(layers: list[Layer]) -> dict[str, Tensor]:
    """Return the tensors of layers by their names in `attention.safetensors`."""
    found: Mapping[str, Floats] = tensors_from_layers(layers)
    return {name: torch.tensor(array) for name, array in found.items()}


@dataclass(frozen=True)
class Stack:
    """Pre-norm layers with the residual `add` and a position bias."""

    tensors: Mapping[str, Tensor]
    layers: int
    heads: int
    dtype: torch.dtype
    """the type of matrix products; norms, residuals and softmax have the type of the input"""

    def __call__(self, vectors: Tensor, known: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return contextual vectors of all tokens, or of r rows. [B, n, d], [B, n] -> [B, r, d]

        `rows` [B, r] are the positions to compute in each sentence.
        """
        # A sentence without known words attends to zero values, as in the engine.
        some = known.any(dim=1, keepdim=True)
        mask = torch.zeros(known.shape, dtype=vectors.dtype, device=vectors.device)
        mask = mask.masked_fill(~known & some, -torch.inf)[:, None, None]
        empty = None if bool(some.all()) else ~some[:, :, None]
        x = vectors
        for number in range(self.layers):
            last = number == self.layers - 1
            x = self._layer(f"layers.{number}.", x, mask, empty, rows if last else None)
        return x

    def _layer(
        self, prefix: str, x: Tensor, mask: Tensor, empty: Tensor | None, rows: Tensor | None
    ) -> Tensor:
        """Apply a layer. [B, n, d] -> [B, r, d]"""
        start = self._normalize(x, f"{prefix}attention_norm")
        bias = self.tensors[f"{prefix}position_bias"][:, _distances(x.shape[1]).to(x.device)]
        if rows is None:
            names = ("query", "key", "value")
            queries, keys, values = self._project(start, *(f"{prefix}{name}" for name in names))
        else:
            keys, values = self._project(start, f"{prefix}key", f"{prefix}value")
            which = rows[:, :, None].expand(-1, -1, x.shape[2])
            x, start = x.gather(1, which), start.gather(1, which)
            (queries,) = self._project(start, f"{prefix}query")
            bias = bias[:, rows].transpose(0, 1)
        queries, keys, values = map(self._split, (queries, keys, values))
        scores = (queries @ keys.transpose(2, 3)) * (1 / math.sqrt(queries.shape[3]))
        weights = torch.softmax(scores + (bias + mask), dim=-1).to(self.dtype)
        context = (weights @ values).transpose(1, 2).flatten(2)
        if empty is not None:
            context = context.masked_fill(empty, 0)
        x = x + self._project(context, f"{prefix}output")[0]
        start = self._normalize(x, f"{prefix}feed_forward_norm")
        (inner,) = self._project(start, f"{prefix}feed_forward.inner")
        active = functional.gelu(inner, approximate="tanh")
        return x + self._project(active, f"{prefix}feed_forward.outer")[0]

    def _normalize(self, x: Tensor, name: str) -> Tensor:
        """Apply a layer norm; return the type of matrix products. [..., d] -> [..., d]"""
        gain, shift = self.tensors[f"{name}.gain"], self.tensors[f"{name}.shift"]
        return functional.layer_norm(x, x.shape[-1:], gain, shift, EPSILON).to(self.dtype)

    def _project(self, x: Tensor, *names: str) -> Sequence[Tensor]:
        """Return x·W + b of some projections, computed as one. [..., in] -> [..., out] each"""
        weights = [self.tensors[name] for name in names]
        biases = [self.tensors[f"{name}_bias"] for name in names]
        weight, bias = torch.cat(weights, 1).to(self.dtype), torch.cat(biases).to(self.dtype)
        y = functional.linear(x, weight.T, bias)
        parts: Sequence[Tensor] = torch.split(y, [one.shape[1] for one in weights], dim=-1)
        return parts

    def _split(self, x: Tensor) -> Tensor:
        """Split the heads. [B, n, h·k] -> [B, h, n, k]"""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


def _distances(n: int) -> Tensor:
    """Return the column of the position bias of each pair of tokens. -> [n, n]"""
    positions = torch.arange(n)
    return (positions[None] - positions[:, None]).clamp(-REACH, REACH) + REACH
