"""Train a stack of layers to name hidden words."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme.errors import CommandError
from polyseme.models.manifest import LayerEntry
from polyseme.models.weights import layer_entry, layers_from_tensors
from polyseme_lab.training.hidden_words import HiddenBatch, HiddenWords
from polyseme_lab.training.loop import TrainerState, TrainingLoop
from polyseme_lab.training.stack import Stack, initial_stack, stack_tensors
from polyseme_lab.training.token_file import UNKNOWN

HEAD = "head."
TOLERANCE = 1e-6
"""Maximum difference from the engine in float64, relative to max(1, largest magnitude)."""
_CHECKED = 4
"""Number of sentences on which the stack is compared with the engine."""
_CLIP = 1.0
"""Maximum norm of the gradient."""
_SCORED_AT_ONCE = 256
"""Number of hidden words to compare with the whole vocabulary at once."""


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
        self.precision = _precision(config.precision, self.device)
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
        self.tensors = {
            name: tensor.to(self.device).requires_grad_()
            for name, tensor in (stack_tensors(layers) | _initial_head(d)).items()
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
        if not all(torch.isfinite(tensor).all() for tensor in own.values()):
            raise CommandError("A weight is no longer finite. Use a smaller learning rate.")
        arrays = {name: tensor.numpy() for name, tensor in own.items()}
        d = self._table.shape[1]
        layers = layers_from_tensors(arrays, self._entries, self.config.heads, d)
        found = self._disagreement(own, layers)
        if not found <= TOLERANCE:
            raise CommandError(
                f"PyTorch and the engine differ by {found:.1e} on the same weights. Nothing was"
                " written. Please report this."
            )
        return layers

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

    def restore(self, tensors: Mapping[str, Floats], state: TrainerState) -> None:
        """Continue from a checkpoint; raise CommandError if its shapes differ."""
        self.state = state
        self._tokens = next((h["tokens"] for h in reversed(state.history)), 0)
        given = {
            name: torch.tensor(np.asarray(array)).to(self.device) for name, array in tensors.items()
        }
        try:
            with torch.no_grad():
                for name, tensor in self.tensors.items():
                    tensor.copy_(given[f"now.{name}"])
                    self.averaged[name].copy_(given[f"average.{name}"])
                    if f"first.{name}" in given:
                        self._optimizer.state[tensor] = {
                            "step": torch.tensor(float(state.step), device=self.device),
                            "exp_avg": given[f"first.{name}"],
                            "exp_avg_sq": given[f"second.{name}"],
                        }
        except (KeyError, RuntimeError):
            raise CommandError(
                "The checkpoint is from a network of another shape; omit --resume."
            ) from None

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
                    some = targets[first : first + _SCORED_AT_ONCE]
                    scores = (predicted[first : first + len(some)] @ self._classes.T).float() + bias
                    losses += float(functional.cross_entropy(scores, some, reduction="sum"))
                    right += int((scores.argmax(dim=1) == some).sum())
                count += len(targets)
        if not count:
            return {"held_out_loss": None, "named": None}
        return {
            "held_out_loss": round(losses / count, 4),
            "named": round(100 * right / count, 2),
        }

    def _step(self) -> float:
        batch = self.data.batch(self.state.step)
        for group in self._optimizer.param_groups:
            group["lr"] = self.config.learning_rate * self._rate()
        loss = self._loss(batch)
        if not torch.isfinite(loss):
            raise CommandError(
                f"The loss is not finite at step {self.state.step}; use a smaller --learning-rate."
            )
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

    def _rate(self) -> float:
        """Return the factor of the learning rate: it rises, is constant, and falls to 0.

        A constant rate allows to continue a training for longer (Hägele et al. 2024).
        """
        rise = (self.state.step + 1) / max(1, self.config.warmup)
        fall = (1 - self.part_done()) / self.config.decay if self.config.decay else 1.0
        return min(1.0, rise, fall)

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
        found = targets != UNKNOWN
        x = functional.layer_norm(
            contextual[found],
            contextual.shape[2:],
            tensors[f"{HEAD}gain"],
            tensors[f"{HEAD}shift"],
        ).to(self.precision)
        weight, bias = (tensors[f"{HEAD}{name}"].to(self.precision) for name in ("weight", "bias"))
        return functional.linear(x, weight.T, bias), targets[found]

    def _vectors(self, rows: Tensor) -> Tensor:
        """Return the static vectors of some rows, zero for unknown tokens. [B, n] -> [B, n, d]"""
        zero = len(self._table) - 1
        return functional.embedding(torch.where(rows == UNKNOWN, zero, rows), self._table)

    def _stack(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Stack:
        return Stack(tensors, self.config.layers, self.config.heads, dtype)

    def _disagreement(self, tensors: Mapping[str, Tensor], layers: list[Layer]) -> float:
        """Return the largest relative difference between stack and engine in float64."""
        batch = self.data.batch(0)
        rows = torch.from_numpy(batch.rows[:_CHECKED])
        vectors, known = self._vectors(rows.to(self.device)).cpu().double(), rows != UNKNOWN
        doubled = {name: tensor.double() for name, tensor in tensors.items()}
        with torch.no_grad():
            found = self._stack(doubled, torch.float64)(vectors, known).numpy()
        worst = np.float64(0)
        for number, contextual in enumerate(found):
            sentence = SentenceArrays(
                vectors[number].numpy(), known[number].numpy(), rows[number].numpy()
            )
            expected = contextualize(
                sentence, [layer.astype(np.float64) for layer in layers]
            ).contextual
            largest = max(1.0, float(np.abs(expected).max()))
            # Unlike `max`, `np.maximum` keeps NaN.
            worst = np.maximum(worst, np.abs(contextual - expected).max() / largest)
        return float(worst)

    def _scored(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Add the mean loss, held-out scores and the number of tokens to metrics and history."""
        if self._losses:
            metrics = {**metrics, "loss": round(float(np.mean(self._losses)), 4)}
            self._losses.clear()
        metrics = {**metrics, **self.held_out_scores(self.averaged), "tokens": self._tokens}
        self.state.history.append({**metrics, "seconds": round(self.state.seconds, 1)})
        return metrics


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


def _initial_head(d: int) -> dict[str, Tensor]:
    """Return the tensors that predict a word's unit vector from its contextual vector."""
    return {
        f"{HEAD}gain": torch.ones(d),
        f"{HEAD}shift": torch.zeros(d),
        f"{HEAD}weight": torch.eye(d),
        f"{HEAD}bias": torch.zeros(d),
        f"{HEAD}frequency": torch.ones(()),
    }


def _bias(tensors: Mapping[str, Tensor], log_frequency: Tensor) -> Tensor:
    """Return the bias of each word, a multiple of its logarithmic frequency. [V] -> [V]"""
    return tensors[f"{HEAD}frequency"] * log_frequency


def _precision(name: str, device: torch.device) -> torch.dtype:
    """Return the type of matrix products."""
    if name == "auto":
        fast = (
            torch.cuda.is_bf16_supported()
            if device.type == "cuda"
            else torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - there is no public function
        )
        name = "bfloat16" if fast else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32
