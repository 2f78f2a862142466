"""The training itself: steps down the loss, from a start that pulls back."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer
from polyseme.training.agreement import require_agreement
from polyseme.training.contexts import Entries
from polyseme.training.groups import Draw
from polyseme.training.heldout import Scores
from polyseme.training.lesson import Lesson
from polyseme.training.loss import contrastive
from polyseme.training.network import Batch, Network
from polyseme.training.recipe import Recipe
from polyseme.training.refusal import TrainingError
from polyseme.training.scale import scales, size_of

EMBEDDING = "embedding"
_CHECKED = 4
"""sentences on which a network is compared with the engine"""


@dataclass
class State:
    """What changes while it is trained, beside the tensors."""

    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_score: float | None = None


class Trainer:
    """Trains a network; the same recipe and lesson give the same bits."""

    def __init__(self, layers: list[Layer], lesson: Lesson, recipe: Recipe) -> None:
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(recipe.threads)
        self.recipe, self.lesson, self.state = recipe, lesson, State()
        vectors = lesson.tensors.vectors
        self.network = Network.from_layers(layers, vectors.shape[1])
        self.tensors = dict(self.network.tensors)
        if recipe.tune_embeddings:
            self.tensors[EMBEDDING] = vectors.clone()
        if not self.tensors:
            raise TrainingError(
                "The model has no weights to train: give --init closed-form or --init random."
            )
        self.start = {name: tensor.clone() for name, tensor in self.tensors.items()}
        table = lesson.contexts.table.vectors
        self._size = size_of(table)
        normed = layers[0].norm == "before"
        self._scales = scales(self.tensors, table, normed=normed)
        self.best: dict[str, Tensor] | None = None
        # One for lemmas, one for pseudo-words: that words differ is plainer than that senses do.
        self.log_temperature = torch.full((2,), math.log(recipe.temperature))
        self._learned = {**self.tensors, "log_temperature": self.log_temperature}
        for tensor in self._learned.values():
            tensor.requires_grad_()
        self._optimisers = self._of_parameters()

    def steps(self) -> Iterator[dict[str, Any]]:
        """Train; yield what is to be told of each step. Some have scores, the first and last do."""
        before, began = self.state.seconds, time.monotonic()
        if not self.state.history:
            yield self._scored({"step": 0})
        while not self.ended():
            loss = self._step()
            self.state.step += 1
            self.state.seconds = before + time.monotonic() - began
            told: dict[str, Any] = {"step": self.state.step, "loss": round(loss, 4)}
            if self.state.step % self.recipe.score_every == 0 or self.ended():
                told = self._scored(told)
            yield told

    def part_done(self) -> float:
        """How much of the training is behind, from 0 to 1."""
        recipe, parts = self.recipe, [0.0]
        if recipe.steps is not None:
            parts.append(self.state.step / recipe.steps if recipe.steps else 1.0)
        if recipe.minutes is not None:
            parts.append(self.state.seconds / (60 * recipe.minutes))
        return min(1.0, max(parts))

    def ended(self) -> bool:
        """Whether it has had its steps, or its time."""
        return self.part_done() >= 1

    def result(self) -> dict[str, Tensor]:
        """The tensors that are kept: the last or best ones, drawn back towards the start."""
        kept = self.best if self.recipe.keep == "best" and self.best else _plain(self.tensors)
        return between(self.start, kept, self.recipe.interpolate)

    def scores(self, tensors: Mapping[str, Tensor]) -> Scores:
        """The held-out scores of some tensors."""
        return self.lesson.held_out.scores(self._network(tensors), tensors.get(EMBEDDING))

    def layers(self, tensors: Mapping[str, Tensor]) -> list[Layer]:
        """The layers of some tensors; raise TrainingError where the engine does not agree."""
        batch = self._checked_batch(tensors)
        return require_agreement(self._network(tensors), batch)

    def saved(self) -> dict[str, Floats]:
        """All tensors that the state is made of, by names that tell what they are."""
        self.layers(_plain(self.tensors))
        named = {f"now.{name}": tensor for name, tensor in self._learned.items()}
        named |= {f"start.{name}": tensor for name, tensor in self.start.items()}
        named |= {f"best.{name}": tensor for name, tensor in (self.best or {}).items()}
        for name, tensor in self._learned.items():
            moments = self._moments(tensor)
            named |= {f"{key}.{name}": moment for key, moment in moments.items()}
        return {name: tensor.detach().numpy() for name, tensor in named.items()}

    def restore(self, tensors: Mapping[str, Floats], state: State) -> None:
        """Go on from what `saved` gave; raise TrainingError where it is of another shape."""
        self.state = state
        given = {name: torch.tensor(np.asarray(array)) for name, array in tensors.items()}
        try:
            with torch.no_grad():
                for name, tensor in self._learned.items():
                    tensor.copy_(_same(given[f"now.{name}"], tensor))
                for name, tensor in self.start.items():
                    tensor.copy_(_same(given[f"start.{name}"], tensor))
            for name, tensor in self._learned.items():
                self._set_moments(name, tensor, given)
            if any(name.startswith("best.") for name in given):
                self.best = {name: given[f"best.{name}"] for name in self.tensors}
        except (KeyError, ValueError):
            raise TrainingError(
                "The checkpoint is of a network of another shape: leave --resume away."
            ) from None

    def _of_parameters(self) -> list[torch.optim.Optimizer]:
        """Adam (Kingma & Ba 2015) for all, and its sparse form for the table of vectors."""
        rate = self.recipe.learning_rate
        dense = [
            {"params": [tensor], "lr": rate * self._scales.get(name, 1.0)}
            for name, tensor in self._learned.items()
            if name != EMBEDDING
        ]
        found: list[torch.optim.Optimizer] = [torch.optim.Adam(dense)]
        if EMBEDDING in self._learned:
            rate = self.recipe.embedding_rate * self._size
            found.append(torch.optim.SparseAdam([self._learned[EMBEDDING]], lr=rate))
        for one in found:
            for group in one.param_groups:
                group["full"] = group["lr"]
        return found

    def _moments(self, tensor: Tensor) -> dict[str, Tensor]:
        for one in self._optimisers:
            if tensor in one.state:
                state = one.state[tensor]
                count = torch.as_tensor(state["step"], dtype=torch.float32)
                return {"first": state["exp_avg"], "second": state["exp_avg_sq"], "count": count}
        return {}

    def _set_moments(self, name: str, tensor: Tensor, given: Mapping[str, Tensor]) -> None:
        if f"count.{name}" not in given:
            return
        one = self._optimisers[1 if name == EMBEDDING else 0]
        count = given[f"count.{name}"]
        one.state[tensor] = {
            "step": int(count) if name == EMBEDDING else count,
            "exp_avg": _same(given[f"first.{name}"], tensor),
            "exp_avg_sq": _same(given[f"second.{name}"], tensor),
        }

    def _step(self) -> float:
        recipe = self.recipe
        rng = np.random.default_rng([recipe.seed, self.state.step])
        draw = self.lesson.draw(recipe, rng)
        entries = self.lesson.contexts.varied(draw, recipe, rng)
        loss = self._loss(draw, entries)
        if not torch.isfinite(loss):
            raise TrainingError(
                f"The loss is no longer a number at step {self.state.step}: give a smaller"
                " --learning-rate."
            )
        for one in self._optimisers:
            for group in one.param_groups:
                group["lr"] = group["full"] * self._pace()
            one.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        for one in self._optimisers:
            one.step()
        return float(loss.detach())

    def _loss(self, draw: Draw, entries: Entries) -> Tensor:
        table = self.tensors.get(EMBEDDING)
        batch = self.lesson.tensors.batch(entries, table)
        vectors = self.network.targets(batch)
        groups = torch.from_numpy(draw.occurrences.groups)
        labels = torch.from_numpy(draw.occurrences.labels)
        loss, temperatures = torch.zeros(()), self.log_temperature.exp()
        for number, kind in enumerate((~draw.hidden, draw.hidden)):
            of = torch.from_numpy(kind)
            if kind.any():
                loss = loss + contrastive(vectors[of], groups[of], labels[of], temperatures[number])
        if table is not None:
            begin = torch.nn.functional.embedding(batch.rows, self.start[EMBEDDING])
            drift = ((batch.vectors - begin) / self._size).square().sum() / len(batch.targets)
            loss = loss + self.recipe.embedding_anchor * drift
        return loss + self.recipe.anchor * self._distance()

    def _distance(self) -> Tensor:
        """The square of how far the weights are from their start, each beside its scale."""
        squares = [
            ((tensor - self.start[name]) / self._scales.get(name, 1.0)).square().sum()
            for name, tensor in self.network.tensors.items()
        ]
        return torch.stack(squares).sum() if squares else torch.zeros(())

    def _pace(self) -> float:
        if self.recipe.schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * self.part_done()))

    def _scored(self, told: dict[str, Any]) -> dict[str, Any]:
        tensors = _plain(self.tensors)
        scores = self.scores(tensors)
        told = {**told, **scores.document()}
        self.state.history.append({**told, "seconds": round(self.state.seconds, 1)})
        if scores.auc is not None and scores.auc > (self.state.best_score or -math.inf):
            self.state.best_score = scores.auc
            if self.recipe.keep == "best":
                self.best = {name: tensor.clone() for name, tensor in tensors.items()}
        return told

    def _network(self, tensors: Mapping[str, Tensor]) -> Network:
        kept = {name: tensor for name, tensor in tensors.items() if name != EMBEDDING}
        return Network(kept, self.network.entries, self.network.heads, self.network.d)

    def _checked_batch(self, tensors: Mapping[str, Tensor]) -> Batch:
        rng = np.random.default_rng([self.recipe.seed, 0xCE])
        draw = self.lesson.draw(self.recipe, rng)
        few = np.arange(min(_CHECKED, len(draw.occurrences)))
        draw = Draw(draw.occurrences.chosen(few), draw.hidden[few])
        entries = self.lesson.contexts.varied(draw, self.recipe, rng)
        return self.lesson.tensors.batch(entries, tensors.get(EMBEDDING))


def between(
    start: Mapping[str, Tensor], trained: Mapping[str, Tensor], t: float
) -> dict[str, Tensor]:
    """start·(1 − t) + trained·t, tensor by tensor; exactly so where t is 0 or 1."""
    return {name: torch.lerp(start[name].detach(), trained[name], t) for name in trained}


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _same(given: Tensor, tensor: Tensor) -> Tensor:
    if given.shape != tensor.shape or given.dtype != tensor.dtype:
        raise ValueError
    return given
