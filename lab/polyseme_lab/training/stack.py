"""Train pre-norm layers to name hidden words."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyseme.engine import Floats
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
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.hidden_words import UNKNOWN, HiddenBatch, HiddenWords
from polyseme_lab.training.network import Network, TrainingBatch
from polyseme_lab.training.trainer import TrainingLoop

EPSILON = 1e-5
"""The epsilon of layer norms."""
REACH = 16
"""The largest distance with a position bias of its own."""


def initial_stack(d: int, config: HiddenWordsConfig, rng: np.random.Generator) -> list[Layer]:
    """Return pre-norm layers with random weights (Glorot & Bengio 2010).

    The outputs of attention and of feed-forward networks are divided by √(2L), so that the sum of
    L layers is about as large for any number of layers (Radford et al. 2019). The first layer's
    values and outputs are the identity plus these weights, so that a hidden word begins with the
    mean of its context, which is a good guess in the space of static vectors.
    """
    heads, feed_forward = config.heads, config.feed_forward
    key_width, value_width = (
        heads * (width or max(1, d // heads)) for width in (config.key_width, config.value_width)
    )
    small = 1 / math.sqrt(2 * config.layers)

    def projection(
        rows: int, columns: int, scale: float = 1.0, diagonal: float = 0.0
    ) -> Projection:
        bound = scale * math.sqrt(6 / (rows + columns))
        weight = rng.uniform(-bound, bound, (rows, columns)) + diagonal * np.eye(rows, columns)
        return Projection(weight.astype(np.float32), np.zeros(columns, np.float32))

    def norm() -> LayerNorm:
        return LayerNorm(np.ones(d, np.float32), np.zeros(d, np.float32), EPSILON)

    def layer(identity: float) -> Layer:
        return Layer(
            heads=heads,
            query=projection(d, key_width),
            key=projection(d, key_width),
            value=projection(d, value_width, diagonal=identity),
            output=projection(value_width, d, small, identity),
            scoring=Scoring(position_bias=np.repeat(nearness(REACH), heads, axis=0)),
            residual=Residual("add"),
            norm="before",
            attention_norm=norm(),
            feed_forward=FeedForward(
                projection(d, feed_forward), projection(feed_forward, d, small), config.activation
            ),
            feed_forward_norm=norm(),
        )

    return [layer(float(number == 0)) for number in range(config.layers)]


HEAD = "head."
_CLIP = 1.0
"""Maximum norm of the gradient."""
_SENTENCES, _PER_WORD = 12_800, 30
"""Maximum numbers of sentences and of occurrences of a word for the final projection."""
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


def adam_w(tensors: Mapping[str, Tensor], rate: float, decay: float) -> torch.optim.AdamW:
    """Return the optimizer of some tensors; only matrices decay (Loshchilov & Hutter 2019)."""
    groups = [
        {"params": [t for t in tensors.values() if t.ndim > 1], "weight_decay": decay},
        {"params": [t for t in tensors.values() if t.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=True)


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
        torch.set_deterministic_debug_mode("error" if self.device.type == "cpu" else "default")
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
        layers = initial_stack(d, config, rng)
        self._network = Network.from_layers(layers, d)
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
            for name, tensor in (self._network.tensors | head).items()
        }
        self.averaged = {name: tensor.detach().clone() for name, tensor in self.tensors.items()}
        self._optimizer = adam_w(self.tensors, config.learning_rate, config.weight_decay)
        self.optimizers.append(self._optimizer)
        self._losses: list[float] = []

    def result(self) -> list[Layer]:
        """Return the averaged layers, with the final projection and the skip of some batches."""
        layers = self._layers_of(self.averaged).to_layers()
        final, skip = final_and_skip(*self._occurrences(layers))
        return [*layers[:-1], replace(layers[-1], final=final, skip=skip)]

    def _occurrences(self, layers: list[Layer]) -> tuple["Occurrences", "Occurrences"]:
        """Return hidden and shown words of the first batches, at most _PER_WORD of each."""
        table = self._table.cpu().numpy()
        found: tuple[list[Occurrences], list[Occurrences]] = ([], [])
        for number in range(max(1, _SENTENCES // max(64, self.config.sentences))):
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

    def named_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint, with the prefixes `now.` and `average.`."""
        named = {f"now.{name}": tensor for name, tensor in self.tensors.items()}
        return named | {f"average.{name}": tensor for name, tensor in self.averaged.items()}

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
        self.state.tokens += batch.tokens
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
        targets = torch.from_numpy(batch.targets).to(self.device)
        network = self._layers_of(tensors, self.precision)
        contextual = network.contextual_targets(self._inputs(batch))
        hidden = targets != UNKNOWN
        x = functional.layer_norm(
            contextual[hidden],
            contextual.shape[2:],
            tensors[f"{HEAD}gain"],
            tensors[f"{HEAD}shift"],
        ).to(self.precision)
        weight, bias = (tensors[f"{HEAD}{name}"].to(self.precision) for name in ("weight", "bias"))
        return functional.linear(x, weight.T, bias), targets[hidden]

    def _inputs(self, batch: HiddenBatch) -> TrainingBatch:
        """Return the sentences of a batch with their static vectors."""
        rows = torch.from_numpy(batch.rows).to(self.device)
        known, zero = rows != UNKNOWN, len(self._table) - 1
        vectors = functional.embedding(torch.where(known, rows, zero), self._table)
        targets = torch.from_numpy(batch.positions).to(self.device)
        return TrainingBatch(vectors, known, rows, targets)

    def _layers_of(
        self, tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None
    ) -> Network:
        own = {name: tensor for name, tensor in tensors.items() if HEAD not in name}
        return self._network.with_tensors(own, dtype)

    def _scores(self) -> dict[str, Any]:
        """Return the mean loss since the last scores, held-out scores and the number of tokens."""
        loss = {"loss": round(float(np.mean(self._losses)), 4)} if self._losses else {}
        self._losses.clear()
        return {**loss, **self.held_out_scores(self.averaged), "tokens": self.state.tokens}


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
