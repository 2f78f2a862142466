"""Train a network on a contrastive loss with an L2 penalty on the change of the weights."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from polyseme.engine import Floats
from polyseme.engine.layers import Layer
from polyseme.errors import CommandError
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.data import Contexts, Draw
from polyseme_lab.training.held_out import Scores, TrainingData
from polyseme_lab.training.network import Network, unit


class TrainerState(BaseModel):
    """The state of a trainer, without its tensors."""

    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = []
    best_score: float | None = None
    tokens: int = 0


class TrainingLoop(ABC):
    """Repeats a step until all steps are done or the time has elapsed."""

    def __init__(self, recipe: TrainingConfig | HiddenWordsConfig) -> None:
        self._recipe, self.state = recipe, TrainerState()
        self.optimizers: list[torch.optim.Optimizer] = []

    def steps(self) -> Iterator[dict[str, Any]]:
        """Train; yield the metrics of each step, with scores every `score_every` steps.

        The initial state, as step 0, and the last step are scored too.
        """
        before, began = self.state.seconds, time.monotonic()
        if not self.state.history:
            yield self._scored({"step": 0})
        while not self.ended():
            loss = self._step()
            if not math.isfinite(loss):
                raise CommandError(
                    f"The loss is not finite at step {self.state.step}; use a smaller"
                    " --learning-rate."
                )
            self.state.step += 1
            self.state.seconds = before + time.monotonic() - began
            metrics: dict[str, Any] = {"step": self.state.step, "loss": round(loss, 4)}
            if self.state.step % self._recipe.score_every == 0 or self.ended():
                metrics = self._scored(metrics)
            yield metrics

    def _scored(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Add scores to the metrics of a step, and the result to the history."""
        metrics = {**metrics, **self._scores()}
        self.state.history.append({**metrics, "seconds": round(self.state.seconds, 1)})
        return metrics

    def state_tensors(self) -> dict[str, Floats]:
        """Return the tensors of a checkpoint, with those of the optimizers."""
        named = {**self.named_tensors()}
        for i, optimizer in enumerate(self.optimizers):
            for j, state in optimizer.state_dict()["state"].items():
                named |= {f"{i}.{j}.{key}": torch.as_tensor(x) for key, x in state.items()}
        return {name: tensor.detach().cpu().numpy() for name, tensor in named.items()}

    def restore(self, tensors: Mapping[str, Floats], state: TrainerState) -> None:
        """Continue from a checkpoint of the same configuration."""
        self.state = state
        saved = {name: torch.tensor(array) for name, array in tensors.items()}
        with torch.no_grad():
            for name, tensor in self.named_tensors().items():
                tensor.copy_(saved.pop(name))
        for i, optimizer in enumerate(self.optimizers):
            document = optimizer.state_dict()
            for name, tensor in saved.items():
                number, j, key = name.split(".")
                if int(number) == i:
                    # SparseAdam counts its steps with an integer.
                    value = tensor if tensor.is_floating_point() else int(tensor)
                    document["state"].setdefault(int(j), {})[key] = value
            optimizer.load_state_dict(document)

    def part_done(self) -> float:
        """Return the completed share of the training, from 0 to 1."""
        recipe, parts = self._recipe, [0.0]
        if recipe.steps is not None:
            parts.append(self.state.step / recipe.steps if recipe.steps else 1.0)
        if recipe.minutes is not None:
            parts.append(self.state.seconds / (60 * recipe.minutes))
        return min(1.0, max(parts))

    def ended(self) -> bool:
        """Return whether all steps are done or the time has elapsed."""
        return self.part_done() >= 1

    @abstractmethod
    def named_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint, without those of the optimizers."""

    @abstractmethod
    def _step(self) -> float:
        """Change the weights once; return the loss."""

    @abstractmethod
    def _scores(self) -> dict[str, Any]:
        """Return the scores of the present state."""


EMBEDDING = "embedding"
REFERENCE = 0.32
"""The root mean square of vectors for which all scales are 1."""
FIRST = "layers.0."


class Trainer(TrainingLoop):
    """Trains a network. Without `minutes`, the weights are reproducible bit for bit."""

    def __init__(self, layers: list[Layer], data: TrainingData, config: TrainingConfig) -> None:
        # torch.use_deterministic_algorithms does the same, and imports a compiler for seconds.
        torch.set_deterministic_debug_mode("error")
        torch.set_num_threads(config.threads)
        super().__init__(config)
        self.config, self.data = config, data
        vectors = data.tensors.vectors
        self.network = Network.from_layers(layers, vectors.shape[1])
        self.tensors = dict(self.network.tensors)
        if config.tune_embeddings:
            self.tensors[EMBEDDING] = vectors.clone()
        if not self.tensors:
            raise CommandError("The model has no weights to train.")
        self.initial = {name: tensor.clone() for name, tensor in self.tensors.items()}
        table = data.contexts.table.vectors
        self._vector_scale = relative_size(table)
        self._scales = {}
        if layers[0].norm != "before":
            self._scales = tensor_scales(self.tensors, table)
        self.best: dict[str, Tensor] = {}
        if config.keep == "best":
            self.best = {name: tensor.clone() for name, tensor in self.tensors.items()}
        # One temperature for lemmas and one for pseudo-words, which are easier to distinguish.
        self.log_temperature = torch.full((2,), math.log(config.temperature))
        self._trained = {**self.tensors, "log_temperature": self.log_temperature}
        for tensor in self._trained.values():
            tensor.requires_grad_()
        # Adam (Kingma & Ba 2015), and its sparse variant for the table of vectors.
        dense = [
            {"params": [tensor], "lr": config.learning_rate * self._scales.get(name, 1.0)}
            for name, tensor in self._trained.items()
            if name != EMBEDDING
        ]
        self.optimizers.append(torch.optim.Adam(dense))
        if EMBEDDING in self._trained:
            rate = config.embedding_rate * self._vector_scale
            self.optimizers.append(torch.optim.SparseAdam([self._trained[EMBEDDING]], lr=rate))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["full"] = group["lr"]

    def result(self) -> dict[str, Tensor]:
        """Return the last or the best tensors, interpolated with the initial tensors."""
        scored = self.config.keep == "best" and self.state.best_score is not None
        kept = _detached(self.best if scored else self.tensors)
        t = self.config.interpolate  # exact for 0 and 1
        return {n: torch.lerp(self.initial[n].detach(), tensor, t) for n, tensor in kept.items()}

    def scores(self, tensors: Mapping[str, Tensor]) -> Scores:
        """Return the held-out scores of some tensors."""
        return self.data.held_out.scores(self._network(tensors), tensors.get(EMBEDDING))

    def layers(self, tensors: Mapping[str, Tensor]) -> list[Layer]:
        """Return the layers of some tensors."""
        return self._network(tensors).to_layers()

    def named_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint, with prefixes such as `now.` and `start.`."""
        named = {f"now.{name}": tensor for name, tensor in self._trained.items()}
        named |= {f"start.{name}": tensor for name, tensor in self.initial.items()}
        return named | {f"best.{name}": tensor for name, tensor in self.best.items()}

    def _step(self) -> float:
        config = self.config
        rng = np.random.default_rng([config.seed, self.state.step])
        draw = self.data.draw(config, rng)
        contexts = self.data.contexts.augmented(draw, config, rng)
        loss = self._loss(draw, contexts)
        factor = 1.0
        if config.schedule == "cosine":
            factor = 0.5 * (1 + math.cos(math.pi * self.part_done()))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full"] * factor
            optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.detach())

    def _loss(self, draw: Draw, contexts: Contexts) -> Tensor:
        table = self.tensors.get(EMBEDDING)
        batch = self.data.tensors.batch(contexts, table)
        vectors = self.network.contextual_targets(batch)[:, 0]
        groups = torch.from_numpy(draw.occurrences.groups)
        labels = torch.from_numpy(draw.occurrences.labels)
        loss, temperatures = torch.zeros(()), self.log_temperature.exp()
        for number, selected in enumerate((~draw.hidden, draw.hidden)):
            mask = torch.from_numpy(selected)
            if selected.any():
                loss = loss + contrastive_loss(
                    vectors[mask], groups[mask], labels[mask], temperatures[number]
                )
        if table is not None:
            # The scaled squared distance of the vectors from their initial values, per context.
            rows = torch.from_numpy(contexts.rows.astype(np.int64))
            initial = torch.nn.functional.embedding(rows, self.initial[EMBEDDING])
            drift = ((batch.vectors - initial) / self._vector_scale).square().sum()
            loss = loss + self.config.embedding_anchor * (drift / len(batch.targets))
        squares = [
            ((tensor - self.initial[name]) / self._scales.get(name, 1.0)).square().sum()
            for name, tensor in self.network.tensors.items()
        ]
        distance = torch.stack(squares).sum() if squares else torch.zeros(())
        return loss + self.config.anchor * distance

    def _scores(self) -> dict[str, Any]:
        """Return the held-out scores; keep the best tensors."""
        tensors = _detached(self.tensors)
        scores = self.scores(tensors)
        if scores.auc is not None and scores.auc > (self.state.best_score or -math.inf):
            self.state.best_score = scores.auc
            if self.config.keep == "best":
                self.best = {name: tensor.clone() for name, tensor in tensors.items()}
        return scores._asdict()

    def _network(self, tensors: Mapping[str, Tensor]) -> Network:
        own = {name: tensor for name, tensor in tensors.items() if name != EMBEDDING}
        return self.network.with_tensors(own)


def contrastive_loss(
    vectors: Tensor, groups: Tensor, labels: Tensor, temperature: Tensor
) -> Tensor:
    """Return the supervised contrastive loss within groups. [B, d], [B], [B] -> []

    Equation 2 of Khosla et al. 2020, where c are unit vectors, A(i) the other occurrences in the
    group of i, and P(i) the occurrences in A(i) with the label of i:

        −1/|P(i)| Σ_{p ∈ P(i)} log( exp(c_i·c_p/τ) / Σ_{a ∈ A(i)} exp(c_i·c_a/τ) )

    The result is the mean over the occurrences with a nonempty P(i), 0 if there are none.
    """
    c = unit(vectors)
    scores = c @ c.T / temperature
    others = (groups[:, None] == groups) & ~torch.eye(len(groups), dtype=torch.bool)
    same = others & (labels[:, None] == labels)
    counts = same.sum(dim=1)
    rows = counts > 0
    if not rows.any():
        return scores.sum() * 0
    masked = scores.masked_fill(~others, -torch.inf)[rows]
    totals = torch.logsumexp(masked, dim=1)
    means = (scores[rows] * same[rows]).sum(dim=1) / counts[rows]
    return (totals - means).mean()


def tensor_scales(names: Collection[str], vectors: Floats) -> dict[str, float]:
    """Return factors of the learning rate for tensors that depend on the vectors' scale. [E, d]

    If the vectors are multiplied by c, the value weights are multiplied by 1/c, and the query and
    key weights by 1/c each, or by 1/c² if only one of them has weights, as in the closed form. With
    learning rates in the same proportion, training gives the same contextual vectors. Only the
    first layer depends on the scale of the vectors. Other tensors have the factor 1.
    """
    size = relative_size(vectors)
    both = FIRST + "query" in names and FIRST + "key" in names
    product = 1 / size if both else 1 / size**2
    scales = {FIRST + "query": product, FIRST + "key": product, FIRST + "value": 1 / size}
    return {name: scale for name, scale in scales.items() if name in names}


def relative_size(vectors: Floats) -> float:
    """Return the root mean square of the nonzero vectors divided by REFERENCE, 1 if none. [E, d]"""
    known = vectors[vectors.any(axis=1)].astype(np.float64)
    return float(np.sqrt(np.square(known).mean())) / REFERENCE if len(known) else 1.0


def _detached(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in tensors.items()}
