"""A training from beginning to end: reading, steps, checkpoints, and what comes of it."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.engine.layers import Layer
from polyseme.models.model import Model
from polyseme.training import checkpoint
from polyseme.training.lesson import Lesson, lesson
from polyseme.training.reading import Material, Reading, Sources, gather
from polyseme.training.recipe import Recipe
from polyseme.training.refusal import TrainingError
from polyseme.training.start import start
from polyseme.training.trainer import EMBEDDING, State, Trainer

MOST_HISTORY = 40
"""points of the learning curve that the manifest keeps"""

Told: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """What comes of a training."""

    layers: list[Layer]
    facts: Told
    """what the manifest says of it"""
    rows: NDArray[np.int64]
    """[r], rows of the vocabulary whose vectors are learned as well"""
    vectors: NDArray[np.float32]
    """[r, d]"""


@dataclass
class Course:
    """One training of one model."""

    model: Model
    sources: Sources
    recipe: Recipe
    checkpoints: Path | None = None
    resume: bool = False
    _document: Told = field(default_factory=dict)

    def run(self, reading: Reading, tell: Callable[[float, Told], None]) -> Trained:
        """Train; `tell` is told how much is done, and of each step.

        Raises TrainingError with one sentence on what is wrong.
        """
        kept = self._found()
        material = gather(self.model, self.sources, self.recipe, reading)
        trainer = self._trainer(lesson(material, self.recipe))
        if kept is not None:
            self._restore(trainer, kept)
        for told in trainer.steps():
            tell(trainer.part_done(), told)
            if "auc" in told:
                self._save(trainer)
        return self._trained(trainer, material)

    def _trainer(self, one: Lesson) -> Trainer:
        return Trainer(start(self.model, self.recipe), one, self.recipe)

    def _found(self) -> tuple[checkpoint.Kept, dict[str, Any]] | None:
        """The checkpoint to go on from, where there is to be one. It has to be of this training."""
        files = self.model.manifest.files
        self._document = {
            "model": {name: entry.sha256 for name, entry in sorted(files.items())},
            "files": self.sources.document(),
        }
        if not self.resume:
            self._require_no_checkpoint()
            return None
        if self.checkpoints is None:
            raise TrainingError("Give --checkpoints, the folder to go on from.")
        kept, tensors = checkpoint.load(self.checkpoints)
        if differences := kept.recipe.differences(self.recipe):
            raise TrainingError(
                f"The checkpoint is of another recipe ({', '.join(differences)}): give the same"
                " options, or leave --resume away."
            )
        if kept.material != self._document:
            raise TrainingError(
                "The checkpoint is of another model or of other files: leave --resume away."
            )
        return kept, tensors

    def _require_no_checkpoint(self) -> None:
        """Refuse a folder with the checkpoints of another training, which would be mixed up."""
        if self.checkpoints is not None and checkpoint.steps_in(self.checkpoints):
            raise TrainingError(
                "The folder has checkpoints already: give --resume to go on from the newest one, or"
                " another folder."
            )

    def _restore(self, trainer: Trainer, found: tuple[checkpoint.Kept, dict[str, Any]]) -> None:
        kept, tensors = found
        state = State(kept.step, kept.seconds, list(kept.history), kept.best_score)
        trainer.restore(tensors, state)

    def _save(self, trainer: Trainer) -> None:
        if self.checkpoints is None:
            return
        checkpoint.save(
            self.checkpoints,
            trainer.saved(),
            step=trainer.state.step,
            seconds=trainer.state.seconds,
            recipe=self.recipe,
            material=self._document,
            history=trainer.state.history,
            best_score=trainer.state.best_score,
            torch=torch.__version__,
        )

    def _trained(self, trainer: Trainer, material: Material) -> Trained:
        tensors = trainer.result()
        layers = trainer.layers(tensors)
        history = trainer.state.history
        facts = {
            "attention": "trained",
            "base": self.model.manifest.name,
            "recipe": self.recipe.document(),
            "data": {"files": self._document["files"], **material.facts()},
            "seed": self.recipe.seed,
            "steps": trainer.state.step,
            "seconds": round(trainer.state.seconds, 1),
            "torch": torch.__version__,
            "temperatures": [round(t, 4) for t in trainer.log_temperature.detach().exp().tolist()],
            "held_out": {
                "occurrences": len(trainer.lesson.held_out),
                "before": _scores(history[0]),
                "trained": _scores(history[-1]),
                "kept": trainer.scores(tensors).document(),
            },
            "history": list(_thinned(history)),
        }
        rows, vectors = np.zeros(0, np.int64), np.zeros((0, trainer.network.d), np.float32)
        if EMBEDDING in tensors:
            own = material.table.rows >= 0
            rows, vectors = material.table.rows[own], tensors[EMBEDDING].numpy()[own]
        return Trained(layers, facts, rows, vectors)


def _scores(told: Told) -> Told:
    return {name: told[name] for name in ("auc", "macro_f1")}


def _thinned(history: list[Told]) -> Iterator[Told]:
    """Points of the learning curve, evenly spread, the first and last among them."""
    count = len(history)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_HISTORY)).round().astype(int))
    yield from itertools.starmap(history.__getitem__, zip(chosen.tolist(), strict=True))
