"""The engine's layers in PyTorch, on padded batches of sentences, for gradients.

A network is the tensors of `attention.safetensors` by their names, those that a model has and no
others, so that what is trained is what is stored. It computes what `polyseme.engine` computes, in
another order where that is cheaper: where only one row of a sentence is asked for, the sum over the
keys comes before the projections.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyseme.engine.layers import Layer
from polyseme.engine.positions import sinusoids
from polyseme.models.manifest import LayerEntry, ResidualEntry
from polyseme.models.weights import layer_entry, layers_from_tensors, tensors_from_layers


@dataclass(frozen=True)
class Batch:
    """Sentences of one length: a shorter one has unknown tokens at its end, which nobody sees."""

    vectors: Tensor
    """[B, n, d], zero rows for unknown tokens"""
    known: Tensor
    """[B, n]"""
    words: Tensor
    """[B, n], equal where two tokens are occurrences of one word"""
    word_bias: Tensor | None
    """[B, n]"""
    targets: Tensor
    """[B], the place whose vector is wanted"""
    rows: Tensor
    """[B, n], the entries of the table that the vectors are"""


class Network:
    """A stack of layers whose tensors can be trained."""

    def __init__(
        self, tensors: Mapping[str, Tensor], entries: Sequence[LayerEntry], heads: int, d: int
    ) -> None:
        self.tensors = dict(tensors)
        self.entries, self.heads, self.d = tuple(entries), heads, d

    @classmethod
    def from_layers(cls, layers: Sequence[Layer], d: int) -> "Network":
        """A network that computes what some layers over vectors of width d compute."""
        tensors = {
            name: torch.tensor(np.asarray(array, np.float32))
            for name, array in tensors_from_layers(list(layers), None).items()
        }
        return cls(tensors, [layer_entry(layer) for layer in layers], layers[0].heads, d)

    def to_layers(self) -> list[Layer]:
        """The layers that compute what this network computes."""
        arrays = {name: tensor.detach().numpy().copy() for name, tensor in self.tensors.items()}
        return layers_from_tensors(arrays, list(self.entries), self.heads, self.d)

    def targets(self, batch: Batch) -> Tensor:
        """The contextual vector of each sentence's target. -> [B, d]"""
        x, last = batch.vectors, len(self.entries) - 1
        for number in range(last):
            x = self._layer(number, x, batch, None)
        return self._layer(last, x, batch, batch.targets)[:, 0]

    def rows(self, batch: Batch) -> Tensor:
        """The contextual vector of each token. -> [B, n, d]"""
        x = batch.vectors
        for number in range(len(self.entries)):
            x = self._layer(number, x, batch, None)
        return x

    def _layer(self, number: int, x: Tensor, batch: Batch, targets: Tensor | None) -> Tensor:
        """One layer, for all rows or for one of each sentence. [B, n, d] -> [B, r, d]"""
        part = _Part(self.tensors, f"layers.{number}.", self.entries[number], self.heads)
        start = part.normed(x, "attention_norm", "before")
        places = _places(x, targets)
        output = part.attended(start, _rows(start, targets), places, batch)
        x = residual(part.entry.residual, _rows(x, targets), output, places)
        x = part.normed(x, "attention_norm", "after")
        return part.fed_forward(x)


def _places(x: Tensor, targets: Tensor | None) -> Tensor:
    """Where in its sentence each wanted row stands. -> [B, r]"""
    if targets is None:
        return torch.arange(x.shape[1]).expand(x.shape[0], -1)
    return targets[:, None]


def _rows(x: Tensor, targets: Tensor | None) -> Tensor:
    """The wanted rows. [B, n, d] -> [B, r, d]"""
    return x if targets is None else x[torch.arange(len(x)), targets][:, None]


@dataclass(frozen=True)
class _Part:
    """One layer of a network."""

    tensors: Mapping[str, Tensor]
    prefix: str
    entry: LayerEntry
    heads: int

    def get(self, name: str) -> Tensor | None:
        """A tensor of this layer, None where it has none of the name."""
        return self.tensors.get(self.prefix + name)

    def projected(self, name: str, x: Tensor) -> Tensor:
        """x·W + b. [..., in] -> [..., out]"""
        weight, bias = self.get(name), self.get(f"{name}_bias")
        y = x if weight is None else x @ weight
        return y if bias is None else y + bias

    def attended(self, x: Tensor, rows: Tensor, places: Tensor, batch: Batch) -> Tensor:
        """The output of attention for some rows. [B, n, d], [B, r, d] -> [B, r, d]"""
        queries = self._split(self.projected("query", rows))
        scores = self._scores(queries, x)
        if self.entry.scale:
            scores = scores / math.sqrt(queries.shape[-1])
        scores = self._biased(scores, places, batch)
        hidden = ~visible_keys(batch.known, batch.words, self.entry.looks_at, places)
        weights = torch.softmax(scores.masked_fill(hidden[:, None], -torch.inf), dim=-1)
        context = self._context(weights * batch.known[:, None, None].to(x.dtype), x)
        return self.projected("output", context.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """[B, r, h·k] -> [B, h, r, k]"""
        return x.reshape(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def _scores(self, queries: Tensor, x: Tensor) -> Tensor:
        """The products of queries and keys. [B, h, r, k], [B, n, d] -> [B, h, r, n]

        For one row q·(x·W + b) = (q·Wᵀ)·x + q·b, so that no key is ever made.
        """
        weight, bias = self.get("key"), self.get("key_bias")
        if weight is None or queries.shape[2] > 1:
            return queries @ self._split(self.projected("key", x)).transpose(2, 3)
        by_head = weight.reshape(len(weight), self.heads, -1)
        looking = torch.einsum("bhk,dhk->bhd", queries[:, :, 0], by_head)
        scores = looking @ x.transpose(1, 2)
        if bias is not None:
            own = torch.einsum("bhk,hk->bh", queries[:, :, 0], bias.view(self.heads, -1))
            scores = scores + own[:, :, None]
        return scores[:, :, None]

    def _biased(self, scores: Tensor, places: Tensor, batch: Batch) -> Tensor:
        """Add what distance and word add. [B, h, r, n] -> [B, h, r, n]"""
        table = self.get("position_bias")
        if table is not None:
            reach = table.shape[1] // 2
            distances = torch.arange(scores.shape[3]) - places[:, :, None]
            found = table[:, distances.clamp(-reach, reach) + reach]
            scores = scores + found.transpose(0, 1)
        if self.entry.word_bias and batch.word_bias is not None:
            bias, scale = batch.word_bias[:, None, None], self.get("word_bias_scale")
            scores = scores + (bias if scale is None else scale[:, None, None] * bias)
        return scores

    def _context(self, weights: Tensor, x: Tensor) -> Tensor:
        """The weighted sum of the values. [B, h, r, n], [B, n, d] -> [B, h, r, v]

        For one row Σ w·(x·W + b) = (Σ w·x)·W + b·Σ w, so that no value is ever made. The weights
        of unknown tokens are zero by now, as their values are.
        """
        weight, bias = self.get("value"), self.get("value_bias")
        if weight is None or weights.shape[2] > 1:
            return weights @ self._split(self.projected("value", x))
        pooled = weights[:, :, 0] @ x
        context = torch.einsum("bhd,dhv->bhv", pooled, weight.reshape(len(weight), self.heads, -1))
        if bias is not None:
            total = weights[:, :, 0].sum(dim=-1)
            context = context + total[:, :, None] * bias.view(self.heads, -1)
        return context[:, :, None]

    def normed(self, x: Tensor, name: str, place: str) -> Tensor:
        """Layer norm, where the layer has it at this place. [B, r, d] -> [B, r, d]"""
        gain, shift = self.get(f"{name}.gain"), self.get(f"{name}.shift")
        if gain is None or shift is None or self.entry.norm != place:
            return x
        epsilon = self.entry.norm_epsilon
        return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, shift, epsilon)

    def fed_forward(self, x: Tensor) -> Tensor:
        """The feed-forward network, where the layer has one. [B, r, d] -> [B, r, d]"""
        if self.get("feed_forward.inner") is None and self.get("feed_forward.outer") is None:
            return x
        start = self.normed(x, "feed_forward_norm", "before")
        inner = self.projected("feed_forward.inner", start)
        active = (
            torch.relu(inner)
            if self.entry.activation == "relu"
            else torch.nn.functional.gelu(inner, approximate="tanh")
        )
        sum_ = x + self.projected("feed_forward.outer", active)
        return self.normed(sum_, "feed_forward_norm", "after")


def visible_keys(known: Tensor, words: Tensor, looks_at: str, places: Tensor) -> Tensor:
    """Which keys each row may look at. [B, n], [B, n], [B, r] -> [B, r, n]"""
    itself = torch.arange(known.shape[1]) == places[:, :, None]
    visible = known[:, None].expand_as(itself)
    if looks_at == "others":
        visible = visible & ~itself
    elif looks_at == "other-words":
        visible = visible & (words[:, None] != words.gather(1, places)[:, :, None])
    alone = ~visible.any(dim=2, keepdim=True)
    return visible | (itself & alone)


def residual(entry: ResidualEntry, x: Tensor, output: Tensor, places: Tensor) -> Tensor:
    """Combine start and output. [B, r, d], [B, r, d] -> [B, r, d]"""
    if entry.kind == "none":
        return output
    if entry.kind == "add":
        return x + output
    sum_ = unit(output) + entry.share * unit(x)
    if entry.position_share:
        table = entry.position_share * sinusoids(int(places.max()) + 1, x.shape[2])
        place = torch.from_numpy(table).to(x.dtype)[places]
        sum_ = torch.where(sum_.any(dim=2, keepdim=True), sum_ + place, sum_)
    return sum_


def unit(x: Tensor) -> Tensor:
    """Divide each row by its length; a zero row stays zero. [..., d] -> [..., d]

    The length is taken of the row with its largest entry made 1, so that squaring neither overflows
    nor vanishes.
    """
    peak = x.detach().abs().amax(dim=-1, keepdim=True)
    scaled = x / torch.where(peak > 0, peak, torch.ones_like(peak))
    square = (scaled * scaled).sum(dim=-1, keepdim=True)
    return scaled / torch.where(square > 0, square, torch.ones_like(square)).sqrt()
