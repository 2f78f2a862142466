"""Pre-norm layers in PyTorch, and their training to name hidden words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import (
    IDENTITY,
    FeedForward,
    Layer,
    LayerNorm,
    Projection,
    Residual,
    contextualize,
)
from polyseme.importing.closed_form import nearness
from polyseme.models.manifest import LayerEntry
from polyseme.models.weights import layer_entry, layers_from_tensors, tensors_from_layers
from polyseme_lab.training.hidden_words import UNKNOWN, HiddenBatch, HiddenWords
from polyseme_lab.training.network import engine_difference, require_agreement, require_finite
from polyseme_lab.training.trainer import TrainingLoop

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
    return {name: torch.tensor(array) for name, array in tensors_from_layers(layers).items()}


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
        nonempty = known.any(dim=1, keepdim=True)
        mask = torch.zeros(known.shape, dtype=vectors.dtype, device=vectors.device)
        mask = mask.masked_fill(~known & nonempty, -torch.inf)[:, None, None]
        empty = None if bool(nonempty.all()) else ~nonempty[:, :, None]
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
        places = torch.arange(x.shape[1])
        distances = (places[None] - places[:, None]).clamp(-REACH, REACH) + REACH
        bias = self.tensors[f"{prefix}position_bias"][:, distances.to(x.device)]
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
        parts: Sequence[Tensor] = torch.split(y, [part.shape[1] for part in weights], dim=-1)
        return parts

    def _split(self, x: Tensor) -> Tensor:
        """Split the heads. [B, n, h·k] -> [B, h, n, k]"""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


HEAD = "head."
_CHECKED = 4
"""Number of sentences on which the stack is compared with the engine."""
_CLIP = 1.0
"""Maximum norm of the gradient."""
_BATCHES, _PER_WORD = 200, 30
"""Number of batches for the final projection, and maximum number of occurrences of a word."""
_POWER, _SHRINKAGE, _SHARE, _RIDGE = 0.25, 0.03, 0.5, 0.01
"""The power of the covariance that is divided by, what is added to its eigenvalues relative to
their mean, the share of the word's own part that is subtracted, and the penalty of the regression,
relative to the mean square of a column. docs/decisions/0024 has the choice."""
_SCORED_AT_ONCE = 256
"""Number of hidden words to compare with the whole vocabulary at once."""


class Occurrences(NamedTuple):
    """The words at some places of sentences, with what the layers compute there."""

    words: NDArray[np.int64]
    """[m], rows of the table"""
    results: Floats
    """[m, d], results of the last layer"""
    vectors: Floats
    """[m, d], the static vectors, zero for hidden words"""

    def first(self, count: int) -> "Occurrences":
        """Return the first occurrences of each word, in float64."""
        order = np.argsort(self.words, kind="stable")
        _, starts, counts = np.unique(self.words[order], return_index=True, return_counts=True)
        kept = order[np.arange(len(order)) - np.repeat(starts, counts) < count]
        results, vectors = (array[kept].astype(np.float64) for array in self[1:])
        return Occurrences(self.words[kept], results, vectors)


def final_and_skip(
    hidden: Occurrences, shown: Occurrences, *, power: float = _POWER, share: float = _SHARE
) -> tuple[Projection, Floats | None]:
    """Return the map from a result y and a static vector s to (y − m − share·s·R)·C^(−power).

    C is the covariance, within words, of the results of hidden words, and m is their mean. s·R is
    what s tells of the result of a shown word, by linear regression. The mean of the squared norms
    of shown words is 1. The map is the identity if the hidden occurrences of each word have equal
    results.
    """
    words, number, counts = np.unique(hidden.words, return_inverse=True, return_counts=True)
    sums = np.zeros((len(words), hidden.results.shape[1]))
    np.add.at(sums, number, hidden.results)
    rest = hidden.results - (sums / counts[:, None])[number]
    if not rest.any():
        return IDENTITY, None
    values, directions = np.linalg.eigh(rest.T @ rest / (len(number) - len(words)))
    weight = (directions * (values + _SHRINKAGE * values.mean()) ** -power) @ directions.T
    s, y, mean = shown.vectors, shown.results, hidden.results.mean(axis=0)
    penalty = _RIDGE * np.square(s).sum() / s.shape[1] * np.eye(s.shape[1])
    own = np.linalg.solve(s.T @ s + penalty, s.T @ (y - y.mean(axis=0)))
    squares = np.square((y - mean - share * s @ own) @ weight).sum(axis=1)
    weight /= np.sqrt(squares.mean())
    final = Projection(weight.astype(np.float32), (-mean @ weight).astype(np.float32))
    return final, (-share * own @ weight).astype(np.float32)


class StackTrainer(TrainingLoop):
    """Trains a stack. Without `minutes`, the weights are reproducible on one processor."""

    def __init__(self, vectors: NDArray[np.float32], words: int, data: HiddenWords) -> None:
        """Prepare the training.

        `vectors` [E, d] has those of the vocabulary of `words` words first, and a zero row last.
        """
        config = data.config
        torch.set_num_threads(config.threads)
        super().__init__(config)
        self.config, self.data = config, data
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.use_deterministic_algorithms(self.device.type == "cpu")
        fast = config.precision == "bfloat16"
        if config.precision == "auto":
            fast = (
                torch.cuda.is_bf16_supported()
                if self.device.type == "cuda"
                else torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - there is no public one
            )
        self.precision = torch.bfloat16 if fast else torch.float32
        d = vectors.shape[1]
        rng = np.random.default_rng([config.seed, 0x57])
        layers = initial_stack(d, config.layers, config.heads, config.feed_forward, rng)
        self._entries: list[LayerEntry] = [layer_entry(layer) for layer in layers]
        self._table = torch.from_numpy(vectors).to(self.device)
        self._classes = functional.normalize(self._table[:words], dim=1).to(self.precision)
        frequencies = np.maximum(data.counts, 1) / max(1, data.counts.sum())
        self._log_frequency = torch.from_numpy(np.log(frequencies).astype(np.float32)).to(
            self.device
        )
        expected = -np.expm1(config.negatives * np.log1p(-data.negative))
        self._log_expected = torch.from_numpy(
            np.log(np.maximum(expected, 1e-30)).astype(np.float32)
        ).to(self.device)
        head = {  # predicts a word's unit vector from its contextual vector
            f"{HEAD}gain": torch.ones(d),
            f"{HEAD}shift": torch.zeros(d),
            f"{HEAD}weight": torch.eye(d),
            f"{HEAD}bias": torch.zeros(d),
            f"{HEAD}frequency": torch.ones(()),
        }
        self.tensors = {
            name: tensor.to(self.device).requires_grad_()
            for name, tensor in (stack_tensors(layers) | head).items()
        }
        self.averaged = {name: tensor.detach().clone() for name, tensor in self.tensors.items()}
        matrices = [t for t in self.tensors.values() if t.ndim > 1]
        others = [t for t in self.tensors.values() if t.ndim <= 1]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=config.learning_rate,
            betas=(0.9, 0.98),
            fused=True,
        )
        self._tokens = 0
        self._losses: list[float] = []

    def layers(self, tensors: Mapping[str, Tensor]) -> list[Layer]:
        """Return the layers of some tensors; raise CommandError if the engine's results differ."""
        own = {name: tensor.detach().cpu() for name, tensor in tensors.items() if HEAD not in name}
        require_finite(own.values())
        arrays = {name: tensor.numpy() for name, tensor in own.items()}
        d = self._table.shape[1]
        layers = layers_from_tensors(arrays, self._entries, self.config.heads, d)
        rows = torch.from_numpy(self.data.batch(0).rows[:_CHECKED])
        vectors, known = self._vectors(rows.to(self.device)).cpu().double(), rows != UNKNOWN
        doubled = {name: tensor.double() for name, tensor in own.items()}
        with torch.no_grad():
            contextual = self._stack(doubled, torch.float64)(vectors, known).numpy()
        worst = np.float64(0)
        for number, own_rows in enumerate(contextual):
            sentence = SentenceArrays(
                vectors[number].numpy(), known[number].numpy(), rows[number].numpy()
            )
            difference = engine_difference(sentence, layers, own_rows, range(len(own_rows)))
            worst = np.maximum(worst, difference)
        require_agreement(float(worst))
        return layers

    def finished(self, layers: list[Layer]) -> list[Layer]:
        """Return the layers with the final projection and the skip of some training batches."""
        final, skip = final_and_skip(*self._occurrences(layers))
        return [*layers[:-1], replace(layers[-1], final=final, skip=skip)]

    def _occurrences(self, layers: list[Layer]) -> tuple["Occurrences", "Occurrences"]:
        """Return hidden and shown words of the first batches, at most _PER_WORD of each."""
        table = self._table.cpu().numpy()
        found: tuple[list[Occurrences], list[Occurrences]] = ([], [])
        for number in range(_BATCHES):
            batch = self.data.batch(number)
            known = batch.rows != UNKNOWN
            inputs = SentenceArrays(table[np.where(known, batch.rows, -1)], known, batch.rows)
            results = contextualize(inputs, layers).contextual
            words = np.full(batch.rows.shape, UNKNOWN)
            np.put_along_axis(words, batch.positions, batch.targets, 1)
            hidden = (words != UNKNOWN) & ~known
            shown = (words == UNKNOWN) & known
            for kept, of, where in zip(found, (words, batch.rows), (hidden, shown), strict=True):
                kept.append(Occurrences(of[where], results[where], inputs.vectors[where]))
        joined = (Occurrences(*map(np.concatenate, zip(*kept, strict=True))) for kept in found)
        hidden_words, shown_words = (one.first(_PER_WORD) for one in joined)
        return hidden_words, shown_words

    def state_tensors(self) -> dict[str, Floats]:
        """Return the tensors of a checkpoint, with prefixes such as `now.` and `average.`."""
        self.layers(self.averaged)  # raises CommandError if the engine disagrees
        named = {f"now.{name}": tensor for name, tensor in self.tensors.items()}
        named |= {f"average.{name}": tensor for name, tensor in self.averaged.items()}
        for name, tensor in self.tensors.items():
            state = self._optimizer.state[tensor]
            if state:
                named[f"first.{name}"] = state["exp_avg"]
                named[f"second.{name}"] = state["exp_avg_sq"]
        return {name: tensor.detach().cpu().numpy() for name, tensor in named.items()}

    def _restore(self, saved: Mapping[str, Tensor]) -> None:
        self._tokens = next((h["tokens"] for h in reversed(self.state.history)), 0)
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(saved[f"now.{name}"])
                self.averaged[name].copy_(saved[f"average.{name}"])
                if f"first.{name}" in saved:
                    self._optimizer.state[tensor] = {
                        "step": torch.tensor(float(self.state.step), device=self.device),
                        "exp_avg": saved[f"first.{name}"].to(self.device),
                        "exp_avg_sq": saved[f"second.{name}"].to(self.device),
                    }

    def held_out_scores(self, tensors: Mapping[str, Tensor]) -> dict[str, float | None]:
        """Return the mean loss on held-out hidden words, and the share that is named, in %.

        The loss is −log of the probability among all words of the vocabulary, not of a sample.
        """
        losses, right, count = 0.0, 0, 0
        with torch.no_grad():
            for batch in self.data.held_out():
                predicted, targets = self._predicted(tensors, batch)
                bias = _bias(tensors, self._log_frequency)
                for first in range(0, len(targets), _SCORED_AT_ONCE):
                    words = targets[first : first + _SCORED_AT_ONCE]
                    vectors = predicted[first : first + _SCORED_AT_ONCE]
                    scores = (vectors @ self._classes.T).float() + bias
                    losses += float(functional.cross_entropy(scores, words, reduction="sum"))
                    right += int((scores.argmax(dim=1) == words).sum())
                count += len(targets)
        if not count:
            return {"held_out_loss": None, "named": None}
        return {
            "held_out_loss": round(losses / count, 4),
            "named": round(100 * right / count, 2),
        }

    def _step(self) -> float:
        batch = self.data.batch(self.state.step)
        # The rate rises, is constant, and falls to 0. A constant rate allows to continue a training
        # for longer (Hägele et al. 2024).
        rise = (self.state.step + 1) / max(1, self.config.warmup)
        fall = (1 - self.part_done()) / self.config.decay if self.config.decay else 1.0
        for group in self._optimizer.param_groups:
            group["lr"] = self.config.learning_rate * min(1.0, rise, fall)
        loss = self._loss(batch)
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.tensors.values(), _CLIP)
        self._optimizer.step()
        # Without a correction, the average would remember the initial weights for long.
        factor = min(self.config.average, (1 + self.state.step) / (10 + self.state.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.averaged.values()), list(self.tensors.values()), 1 - factor
            )
        self._tokens += batch.tokens
        self._losses.append(float(loss.detach()))
        return self._losses[-1]

    def _loss(self, batch: HiddenBatch) -> Tensor:
        predicted, targets = self._predicted(self.tensors, batch)
        negatives = torch.from_numpy(self.data.negatives(self.state.step)).to(self.device)
        bias = _bias(self.tensors, self._log_frequency)
        return sampled_softmax_loss(
            predicted, targets, negatives, self._classes, bias, self._log_expected
        )

    def _predicted(
        self, tensors: Mapping[str, Tensor], batch: HiddenBatch
    ) -> tuple[Tensor, Tensor]:
        """Return the predicted vectors of the hidden words, and the words. -> [m, d], [m]"""
        rows = torch.from_numpy(batch.rows).to(self.device)
        positions = torch.from_numpy(batch.positions).to(self.device)
        targets = torch.from_numpy(batch.targets).to(self.device)
        contextual = self._stack(tensors, self.precision)(
            self._vectors(rows), rows != UNKNOWN, positions
        )
        hidden = targets != UNKNOWN
        x = functional.layer_norm(
            contextual[hidden],
            contextual.shape[2:],
            tensors[f"{HEAD}gain"],
            tensors[f"{HEAD}shift"],
        ).to(self.precision)
        weight, bias = (tensors[f"{HEAD}{name}"].to(self.precision) for name in ("weight", "bias"))
        return functional.linear(x, weight.T, bias), targets[hidden]

    def _vectors(self, rows: Tensor) -> Tensor:
        """Return the static vectors of some rows, zero for unknown tokens. [B, n] -> [B, n, d]"""
        zero = len(self._table) - 1
        return functional.embedding(torch.where(rows == UNKNOWN, zero, rows), self._table)

    def _stack(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Stack:
        return Stack(tensors, self.config.layers, self.config.heads, dtype)

    def _scores(self) -> dict[str, Any]:
        """Return the mean loss since the last scores, held-out scores and the number of tokens."""
        loss = {"loss": round(float(np.mean(self._losses)), 4)} if self._losses else {}
        self._losses.clear()
        return {**loss, **self.held_out_scores(self.averaged), "tokens": self._tokens}


def sampled_softmax_loss(
    predicted: Tensor,
    targets: Tensor,
    negatives: Tensor,
    classes: Tensor,
    bias: Tensor,
    log_expected: Tensor,
) -> Tensor:
    """Return the mean of −log of the estimated probability of each target. -> []

    The score of class j is predicted·classes_j + bias_j. [m, d], [m], [s], [V, d], [V], [V] -> []
    The sum over all classes is estimated from the target and a sample of s others (Jean et al.
    2015, §3.1): exp(score_j) of a sampled class is divided by the probability exp(log_expected_j)
    of being in the sample, so that the expected value of the sum is exact.
    """
    right = (predicted * classes[targets]).sum(dim=1).float() + bias[targets]
    scores = (predicted @ classes[negatives].T).float()
    scores = scores + (bias[negatives] - log_expected[negatives])
    scores = scores.masked_fill(targets[:, None] == negatives, -torch.inf)
    losses = torch.logaddexp(torch.logsumexp(scores, dim=1), right) - right
    return losses.sum() / max(1, len(targets))


def _bias(tensors: Mapping[str, Tensor], log_frequency: Tensor) -> Tensor:
    """Return the bias of each word, a multiple of its logarithmic frequency. [V] -> [V]"""
    return tensors[f"{HEAD}frequency"] * log_frequency
