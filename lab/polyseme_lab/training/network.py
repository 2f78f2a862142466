"""The engine's layers in PyTorch, on padded batches, with gradients.

A network holds the tensors of `attention.safetensors` by name and computes the same results as
`polyseme.engine`. If only the vector of the target is needed, the last layer reorders its products
and computes no keys and values. `checked_layers` compares the network with the engine.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme.engine.positions import sinusoids
from polyseme.errors import CommandError
from polyseme.models.manifest import LayerEntry, ResidualEntry
from polyseme.models.weights import layer_entry, layers_from_tensors, tensors_from_layers
from polyseme_lab.training.data import Contexts, TokenTable

TOLERANCE = 1e-6
"""Maximum difference from the engine in float64, relative to max(1, largest magnitude)."""


@dataclass(frozen=True)
class TrainingBatch:
    """Sentences padded to one length with unknown tokens, which are masked."""

    vectors: Tensor
    """[B, n, d], zero rows for unknown tokens"""
    known: Tensor
    """[B, n]"""
    words: Tensor
    """[B, n], word IDs"""
    word_bias: Tensor | None
    """[B, n]"""
    targets: Tensor
    """[B], the position of the target in each sentence"""
    token_ids: Tensor
    """[B, n], rows of the token table"""


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
        token_ids = torch.from_numpy(contexts.rows.astype(np.int64))
        source = self.vectors if vectors is None else vectors
        return TrainingBatch(
            # `padding_idx` excludes the unknown entry from training.
            torch.nn.functional.embedding(
                token_ids, source, self._unknown, sparse=vectors is not None
            ),
            token_ids != self._unknown,
            self._words[token_ids],
            None if self._bias is None else self._bias[token_ids],
            torch.from_numpy(contexts.targets),
            token_ids,
        )


class Network:
    """A stack of layers with trainable tensors."""

    def __init__(
        self, tensors: Mapping[str, Tensor], entries: Sequence[LayerEntry], heads: int, d: int
    ) -> None:
        self.tensors = dict(tensors)
        self.entries, self.heads, self.d = tuple(entries), heads, d

    @classmethod
    def from_layers(cls, layers: Sequence[Layer], d: int) -> "Network":
        """Return the network equivalent to some layers over vectors of width d."""
        tensors = {
            name: torch.tensor(np.asarray(array, np.float32))
            for name, array in tensors_from_layers(list(layers), None).items()
        }
        return cls(tensors, [layer_entry(layer) for layer in layers], layers[0].heads, d)

    def to_layers(self) -> list[Layer]:
        """Return the layers equivalent to this network."""
        arrays = {name: tensor.detach().numpy().copy() for name, tensor in self.tensors.items()}
        return layers_from_tensors(arrays, list(self.entries), self.heads, self.d)

    def contextual_targets(self, batch: TrainingBatch) -> Tensor:
        """Return the contextual vector of each sentence's target. -> [B, d]"""
        x, last = batch.vectors, len(self.entries) - 1
        for number in range(last):
            x = self._layer(number, x, batch, None)
        return self._layer(last, x, batch, batch.targets)[:, 0]

    def contextual(self, batch: TrainingBatch) -> Tensor:
        """Return the contextual vector of each token. -> [B, n, d]"""
        x = batch.vectors
        for number in range(len(self.entries)):
            x = self._layer(number, x, batch, None)
        return x

    def _layer(
        self, number: int, x: Tensor, batch: TrainingBatch, targets: Tensor | None
    ) -> Tensor:
        """Apply a layer. [B, n, d] -> [B, r, d], where r is n, or 1 if `targets` are given."""
        layer = _LayerTensors(self.tensors, f"layers.{number}.", self.entries[number], self.heads)
        normalized = rows = layer.normalize(x, "attention_norm", "before")
        positions = torch.arange(x.shape[1]).expand(x.shape[0], -1)
        if targets is not None:
            places = torch.arange(len(x)), targets
            rows, x, positions = normalized[places][:, None], x[places][:, None], targets[:, None]
        output = layer.attend(normalized, rows, positions, batch)
        x = residual(layer.entry.residual, x, output, positions)
        x = layer.normalize(x, "attention_norm", "after")
        x = layer.project("final", layer.feed_forward(x))
        if f"layers.{number}.skip" not in self.tensors:
            return x
        static = batch.vectors
        if targets is not None:
            static = static[torch.arange(len(x)), targets][:, None]
        return x + layer.project("skip", static)


@dataclass(frozen=True)
class _LayerTensors:
    """The tensors of one layer of a network."""

    tensors: Mapping[str, Tensor]
    prefix: str
    entry: LayerEntry
    heads: int

    def get(self, name: str) -> Tensor | None:
        """Return a tensor of this layer, or None."""
        return self.tensors.get(self.prefix + name)

    def project(self, name: str, x: Tensor) -> Tensor:
        """Return x·W + b. [..., in] -> [..., out]"""
        weight, bias = self.get(name), self.get(f"{name}_bias")
        y = x if weight is None else x @ weight
        return y if bias is None else y + bias

    def attend(self, x: Tensor, rows: Tensor, positions: Tensor, batch: TrainingBatch) -> Tensor:
        """Return the output of attention for some rows. [B, n, d], [B, r, d] -> [B, r, d]"""
        queries = self._split(self.project("query", rows))
        scores = self._scores(queries, x)
        if self.entry.scale:
            scores = scores / math.sqrt(queries.shape[-1])
        table = self.get("position_bias")
        if table is not None:
            reach = table.shape[1] // 2
            distances = torch.arange(scores.shape[3]) - positions[:, :, None]
            by_place = table[:, distances.clamp(-reach, reach) + reach]
            scores = scores + by_place.transpose(0, 1)
        if self.entry.word_bias and batch.word_bias is not None:
            bias, scale = batch.word_bias[:, None, None], self.get("word_bias_scale")
            scores = scores + (bias if scale is None else scale[:, None, None] * bias)
        masked = ~attention_mask(batch.known, batch.words, self.entry.looks_at, positions)
        weights = torch.softmax(scores.masked_fill(masked[:, None], -torch.inf), dim=-1)
        context = self._context(weights * batch.known[:, None, None].to(x.dtype), x)
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
        by_head = weight.reshape(len(weight), self.heads, -1)
        projected = torch.einsum("bhk,dhk->bhd", queries[:, :, 0], by_head)
        scores = projected @ x.transpose(1, 2)
        if bias is not None:
            shift = torch.einsum("bhk,hk->bh", queries[:, :, 0], bias.view(self.heads, -1))
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
        pooled = weights[:, :, 0] @ x
        context = torch.einsum("bhd,dhv->bhv", pooled, weight.reshape(len(weight), self.heads, -1))
        if bias is not None:
            total = weights[:, :, 0].sum(dim=-1)
            context = context + total[:, :, None] * bias.view(self.heads, -1)
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
    """Return which keys each row may attend to. [B, n], [B, n], [B, r] -> [B, r, n]"""
    itself = torch.arange(known.shape[1]) == positions[:, :, None]
    visible = known[:, None].expand_as(itself)
    if mask == "others":
        visible = visible & ~itself
    elif mask == "other-words":
        visible = visible & (words[:, None] != words.gather(1, positions)[:, :, None])
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


def checked_layers(network: Network, batch: TrainingBatch) -> list[Layer]:
    """Return the layers of a network after a comparison with the engine.

    Raises CommandError if a weight is not finite, or if the results on the batch differ by more
    than TOLERANCE; NonFiniteError if the engine's overflow.
    """
    layers = network.to_layers()
    require_finite(network.tensors.values())
    require_agreement(disagreement(network, layers, batch))
    return layers


def require_finite(tensors: Iterable[Tensor]) -> None:
    """Raise CommandError if a weight is not finite."""
    if not all(torch.isfinite(tensor).all() for tensor in tensors):
        raise CommandError("A weight is no longer finite. Use a smaller learning rate.")


def require_agreement(difference: float) -> None:
    """Raise CommandError if PyTorch and the engine differ by more than TOLERANCE."""
    if not difference <= TOLERANCE:
        raise CommandError(
            f"PyTorch and the engine differ by {difference:.1e} on the same weights. Nothing was"
            " written. Please report this."
        )


def disagreement(network: Network, layers: list[Layer], batch: TrainingBatch) -> float:
    """Return the largest relative difference between network and engine on a batch, in float64.

    NaN if the network's output contains NaN. Raises NonFiniteError if the engine's overflows.
    """
    bias = None if batch.word_bias is None else batch.word_bias.double()
    wide = replace(batch, vectors=batch.vectors.double(), word_bias=bias)
    doubled = {name: tensor.detach().double() for name, tensor in network.tensors.items()}
    network = Network(doubled, network.entries, network.heads, network.d)
    with torch.no_grad():
        rows = network.contextual(wide).numpy()
        targets = network.contextual_targets(wide).numpy()
    worst = np.float64(0)
    for number, target in enumerate(batch.targets.tolist()):
        sentence = SentenceArrays(
            wide.vectors[number].numpy(),
            wide.known[number].numpy(),
            wide.words[number].numpy(),
            None if bias is None else bias[number].numpy(),
        )
        both = np.vstack([rows[number], targets[number][None]])
        places = [*range(len(rows[number])), target]
        # Unlike `max`, `np.maximum` keeps NaN.
        worst = np.maximum(worst, engine_difference(sentence, layers, both, places))
    return float(worst)


def engine_difference(
    sentence: SentenceArrays, layers: Sequence[Layer], rows: Floats, places: Sequence[int]
) -> np.float64:
    """Return the largest difference of rows from the engine's, relative to its largest number."""
    expected = contextualize(sentence, [layer.astype(np.float64) for layer in layers]).contextual
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    return np.float64(np.abs(rows - expected[list(places)]).max(initial=0) / largest)
