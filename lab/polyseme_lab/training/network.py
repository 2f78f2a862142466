"""The engine's layers in PyTorch, on padded batches, with gradients.

A network holds the tensors of `attention.safetensors` by name and computes the same results as
`polyseme.engine`. If only one vector of a sentence is needed, the last layer reorders its products
and computes no keys and values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyseme.engine.attention import sinusoids
from polyseme.engine.layers import Layer
from polyseme.errors import CommandError
from polyseme.models.manifest import LayerEntry, ResidualEntry
from polyseme.models.weights import layer_entry, layers_from_tensors, tensors_from_layers
from polyseme_lab.training.data import Contexts, TokenTable


@dataclass(frozen=True)
class TrainingBatch:
    """Sentences padded to one length with unknown tokens, which are masked."""

    vectors: Tensor
    """[B, n, d], zero rows for unknown tokens"""
    known: Tensor
    """[B, n]"""
    words: Tensor
    """[B, n], word IDs"""
    targets: Tensor
    """[B, r], the positions of the targets in each sentence"""
    word_bias: Tensor | None = None
    """[B, n]"""


class TableTensors:
    """The token table as tensors, from which batches are made."""

    def __init__(self, table: TokenTable) -> None:
        self.vectors = torch.from_numpy(table.vectors)
        self._words = torch.from_numpy(table.words)
        bias = table.word_bias
        self._bias = None if bias is None else torch.from_numpy(bias)
        self._unknown = table.unknown

    def batch(self, contexts: Contexts, vectors: Tensor | None = None) -> TrainingBatch:
        """Return the batch of some contexts. `vectors` [E, d] replace the table's own."""
        rows = torch.from_numpy(contexts.rows.astype(np.int64))
        source = self.vectors if vectors is None else vectors
        return TrainingBatch(
            # `padding_idx` excludes the unknown entry from training.
            torch.nn.functional.embedding(rows, source, self._unknown, sparse=vectors is not None),
            rows != self._unknown,
            self._words[rows],
            torch.from_numpy(contexts.targets)[:, None],
            None if self._bias is None else self._bias[rows],
        )


class Network:
    """A stack of layers with trainable tensors.

    `dtype` is the type of matrix products; norms, residuals and softmax have the type of the input.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        entries: Sequence[LayerEntry],
        heads: int,
        d: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.tensors = dict(tensors)
        self.entries, self.heads, self.d = tuple(entries), heads, d
        self.dtype = dtype

    def with_tensors(
        self, tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None
    ) -> "Network":
        """Return the same layers with other tensors."""
        return Network(tensors, self.entries, self.heads, self.d, dtype)

    @classmethod
    def from_layers(cls, layers: Sequence[Layer], d: int) -> "Network":
        """Return the network equivalent to some layers over vectors of width d."""
        tensors = {
            name: torch.tensor(np.asarray(array, np.float32))
            for name, array in tensors_from_layers(list(layers), None).items()
        }
        return cls(tensors, [layer_entry(layer) for layer in layers], layers[0].heads, d)

    def to_layers(self) -> list[Layer]:
        """Return the layers equivalent to this network; raise CommandError if one is not finite."""
        if not all(torch.isfinite(tensor).all() for tensor in self.tensors.values()):
            raise CommandError("A weight is no longer finite. Use a smaller learning rate.")
        arrays = {name: t.detach().cpu().numpy().copy() for name, t in self.tensors.items()}
        return layers_from_tensors(arrays, list(self.entries), self.heads, self.d)

    def contextual_targets(self, batch: TrainingBatch) -> Tensor:
        """Return the contextual vectors of the targets of each sentence. -> [B, r, d]"""
        *_, last = self.results(batch, batch.targets)
        return last

    def results(self, batch: TrainingBatch, targets: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the result of each layer, the last one only for `targets` [B, r]. [B, n, d]"""
        x, last = batch.vectors, len(self.entries) - 1
        for number in range(len(self.entries)):
            x = self._layer(number, x, batch, targets if number == last else None)
            yield x

    def _layer(
        self, number: int, x: Tensor, batch: TrainingBatch, targets: Tensor | None
    ) -> Tensor:
        """Apply a layer. [B, n, d] -> [B, r, d], where r is n without targets [B, r]."""
        layer = _LayerTensors(self.tensors, f"layers.{number}.", self.entries[number], self.heads,
                              self.dtype or x.dtype)  # fmt: skip
        normalized = rows = layer.normalize(x, "attention_norm", "before")
        static, positions = batch.vectors, torch.arange(x.shape[1], device=x.device)[None]
        if targets is not None:
            which, positions = targets[:, :, None].expand(-1, -1, x.shape[2]), targets
            rows, x, static = (part.gather(1, which) for part in (normalized, x, static))
        output = layer.attend(normalized, rows, positions, batch)
        x = residual(layer.entry.residual, x, output, positions)
        x = layer.normalize(x, "attention_norm", "after")
        x = layer.project("final", layer.feed_forward(x))
        if f"layers.{number}.skip" not in self.tensors:
            return x
        return x + layer.project("skip", static)


@dataclass(frozen=True)
class _LayerTensors:
    """The tensors of one layer of a network."""

    tensors: Mapping[str, Tensor]
    prefix: str
    entry: LayerEntry
    heads: int
    dtype: torch.dtype

    def get(self, name: str) -> Tensor | None:
        """Return a tensor of this layer, or None."""
        return self.tensors.get(self.prefix + name)

    def project(self, name: str, x: Tensor) -> Tensor:
        """Return x·W + b. [..., in] -> [..., out]"""
        weight, bias = self.get(name), self.get(f"{name}_bias")
        y = x if weight is None else x.to(self.dtype) @ weight.to(self.dtype)
        return y if bias is None else y + bias.to(self.dtype)

    def attend(self, x: Tensor, rows: Tensor, positions: Tensor, batch: TrainingBatch) -> Tensor:
        """Return the output of attention for some rows. [B, n, d], [B, r, d] -> [B, r, d]

        `positions` [1 or B, r] are the positions of the rows.
        """
        queries = self._split(self.project("query", rows))
        scores = self._scores(queries, x)
        if self.entry.scale:
            scores = scores / math.sqrt(queries.shape[-1])
        table = self.get("position_bias")
        if table is not None:
            reach = table.shape[1] // 2
            distances = torch.arange(scores.shape[3], device=x.device) - positions[:, :, None]
            by_place = table[:, distances.clamp(-reach, reach) + reach]
            scores = scores + by_place.transpose(0, 1)
        if self.entry.word_bias and batch.word_bias is not None:
            bias, scale = batch.word_bias[:, None, None], self.get("word_bias_scale")
            scores = scores + (bias if scale is None else scale[:, None, None] * bias)
        masked = ~attention_mask(batch.known, batch.words, self.entry.looks_at, positions)
        weights = torch.softmax(scores.masked_fill(masked[:, None], -torch.inf), dim=-1)
        weights = (weights * batch.known[:, None, None]).to(self.dtype)
        context = self._context(weights, x)
        return self.project("output", context.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """Split the heads. [B, r, h·k] -> [B, h, r, k]"""
        return x.reshape(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def _scores(self, queries: Tensor, x: Tensor) -> Tensor:
        """Return the products of queries and keys. [B, h, r, k], [B, n, d] -> [B, h, r, n]

        With a single query row, use q·(x·W + b) = (q·Wᵀ)·x + q·b, which avoids computing the keys.
        """
        weight, bias = self.get("key"), self.get("key_bias")
        if weight is None or queries.shape[2] > 1:
            return queries @ self._split(self.project("key", x)).transpose(2, 3)
        by_head = weight.to(self.dtype).reshape(len(weight), self.heads, -1)
        projected = torch.einsum("bhk,dhk->bhd", queries[:, :, 0], by_head)
        scores = projected @ x.to(self.dtype).transpose(1, 2)
        if bias is not None:
            by_head = bias.to(self.dtype).view(self.heads, -1)
            shift = torch.einsum("bhk,hk->bh", queries[:, :, 0], by_head)
            scores = scores + shift[:, :, None]
        return scores[:, :, None]

    def _context(self, weights: Tensor, x: Tensor) -> Tensor:
        """Return the weighted sum of the values. [B, h, r, n], [B, n, d] -> [B, h, r, v]

        With a single query row, use Σ w·(x·W + b) = (Σ w·x)·W + b·Σ w, which avoids computing the
        values. The weights of unknown tokens are zero here.
        """
        weight, bias = self.get("value"), self.get("value_bias")
        if weight is None or weights.shape[2] > 1:
            return weights @ self._split(self.project("value", x))
        pooled = weights[:, :, 0] @ x.to(self.dtype)
        by_head = weight.to(self.dtype).reshape(len(weight), self.heads, -1)
        context = torch.einsum("bhd,dhv->bhv", pooled, by_head)
        if bias is not None:
            total = weights[:, :, 0].sum(dim=-1)
            context = context + total[:, :, None] * bias.to(self.dtype).view(self.heads, -1)
        return context[:, :, None]

    def normalize(self, x: Tensor, name: str, when: str) -> Tensor:
        """Apply a layer norm, if the layer has it in this place. [B, r, d] -> [B, r, d]

        `when` is `before` a sub-layer (pre-norm) or `after` it (post-norm).
        """
        gain, shift = self.get(f"{name}.gain"), self.get(f"{name}.shift")
        if gain is None or shift is None or self.entry.norm != when:
            return x
        epsilon = self.entry.norm_epsilon
        return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, shift, epsilon)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Apply the feed-forward network, if the layer has one. [B, r, d] -> [B, r, d]"""
        if self.get("feed_forward.inner") is None and self.get("feed_forward.outer") is None:
            return x
        normalized = self.normalize(x, "feed_forward_norm", "before")
        inner = self.project("feed_forward.inner", normalized)
        active = (
            torch.relu(inner)
            if self.entry.activation == "relu"
            else torch.nn.functional.gelu(inner, approximate="tanh")
        )
        sum_ = x + self.project("feed_forward.outer", active)
        return self.normalize(sum_, "feed_forward_norm", "after")


def attention_mask(known: Tensor, words: Tensor, mask: str, positions: Tensor) -> Tensor:
    """Return which keys each row may attend to. [B, n], [B, n], [1 or B, r] -> [B, r, n]"""
    itself = torch.arange(known.shape[1], device=known.device) == positions[:, :, None]
    visible = known[:, None].expand(-1, positions.shape[1], -1)
    if mask == "others":
        visible = visible & ~itself
    elif mask == "other-words":
        own = words.gather(1, positions.expand(len(words), -1))
        visible = visible & (words[:, None] != own[:, :, None])
    alone = ~visible.any(dim=2, keepdim=True)
    return visible | (itself & alone)


def residual(entry: ResidualEntry, x: Tensor, output: Tensor, positions: Tensor) -> Tensor:
    """Combine the input and the output of attention. [B, r, d], [B, r, d] -> [B, r, d]"""
    if entry.kind == "none":
        return output
    if entry.kind == "add":
        return x + output
    sum_ = unit(output) + entry.share * unit(x)
    if entry.position_share:
        table = entry.position_share * sinusoids(int(positions.max()) + 1, x.shape[2])
        added = torch.from_numpy(table).to(x.dtype)[positions]
        sum_ = torch.where(sum_.any(dim=2, keepdim=True), sum_ + added, sum_)
    return sum_


def unit(x: Tensor) -> Tensor:
    """Divide each row by its norm; a zero row stays zero. [..., d] -> [..., d]

    Rows are divided by their largest magnitude first: sums of squares neither overflow nor vanish.
    """
    peak = x.detach().abs().amax(dim=-1, keepdim=True)
    scaled = x / torch.where(peak > 0, peak, torch.ones_like(peak))
    square = (scaled * scaled).sum(dim=-1, keepdim=True)
    return scaled / torch.where(square > 0, square, torch.ones_like(square)).sqrt()
