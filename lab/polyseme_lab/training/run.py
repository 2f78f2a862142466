"""Run a training: read the data, train, save checkpoints, and write the trained model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.engine.layers import Layer
from polyseme.engine.quantization import QuantizedRows, Rows, quantize
from polyseme.models.manifest import Manifest
from polyseme.models.model import Model
from polyseme.models.writer import write_model
from polyseme.progress import Progress
from polyseme_lab.training.checkpoint import checkpoint_to_resume, save_checkpoint
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.data import TrainingFiles, read_training_files
from polyseme_lab.training.held_out import split_data
from polyseme_lab.training.initialization import initial_layers
from polyseme_lab.training.loop import TrainerState, TrainingLoop
from polyseme_lab.training.trainer import EMBEDDING, Trainer

MAX_HISTORY = 40
"""Maximum number of points of the learning curve in the manifest."""

Metrics: TypeAlias = dict[str, Any]
"""`step`; `loss`, except for step 0; `auc` and `macro_f1` if the step is scored."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of training."""

    layers: list[Layer]
    facts: dict[str, Any]
    """description of the training for the manifest"""
    rows: NDArray[np.int64]
    """[r], rows of the vocabulary with trained vectors"""
    vectors: NDArray[np.float32]
    """[r, d], the trained vectors"""


_Config = TypeVar("_Config", TrainingConfig, HiddenWordsConfig)
_Trainer = TypeVar("_Trainer", bound=TrainingLoop)


@dataclass
class Run(ABC, Generic[_Config, _Trainer]):
    """The training of one model: data, steps, checkpoints and the result."""

    model: Model
    files: TrainingFiles
    config: _Config
    checkpoints: Path | None = None
    resume: bool = False

    def run(self, progress: Progress, report: Callable[[float, Metrics], None]) -> TrainingResult:
        """Train, and call `report` with the completed share and the metrics of each step.

        Raises CommandError if the data or a checkpoint cannot be used.
        """
        self.material = {
            "model": {n: entry.sha256 for n, entry in sorted(self.model.manifest.files.items())},
            "files": self.files.document(),
        }
        saved = checkpoint_to_resume(
            self.checkpoints, self.config, self.material, resume=self.resume
        )
        with ExitStack() as stack:
            trainer = self._trainer(progress, stack)
            if saved is not None:
                found, tensors = saved
                history = list(found.history)
                state = TrainerState(found.step, found.seconds, history, found.best_score)
                trainer.restore(tensors, state)
            for metrics in trainer.steps():
                report(trainer.part_done(), metrics)
                state = trainer.state
                if self.checkpoints is not None and state.history[-1]["step"] == metrics["step"]:
                    save_checkpoint(
                        self.checkpoints,
                        trainer.state_tensors(),
                        step=state.step,
                        seconds=state.seconds,
                        recipe=self.config,
                        material=self.material,
                        history=state.history,
                        best_score=state.best_score,
                        torch=torch.__version__,
                    )
            return self._result(trainer)

    @abstractmethod
    def _trainer(self, progress: Progress, stack: ExitStack) -> _Trainer:
        """Read the data; what `stack` closes is needed until the end of the training."""

    @abstractmethod
    def _result(self, trainer: _Trainer) -> TrainingResult: ...

    def _facts(self, trainer: _Trainer, scores: Sequence[str], data: Any) -> dict[str, Any]:
        """Return the facts for the manifest that every training has."""
        history = trainer.state.history
        # Evenly spaced points of the learning curve, including the first and the last.
        points = np.linspace(0, len(history) - 1, min(len(history), MAX_HISTORY))
        first, last = ({name: history[point][name] for name in scores} for point in (0, -1))
        return {
            "attention": "trained",
            "base": self.model.manifest.name,
            "recipe": self.config.document(),
            "data": {"files": self.material["files"], **data},
            "seed": self.config.seed,
            "steps": trainer.state.step,
            "seconds": round(trainer.state.seconds, 1),
            "torch": torch.__version__,
            "held_out": {"before": first, "kept": last},
            "history": [history[n] for n in np.unique(points.round().astype(int)).tolist()],
        }


class TrainingRun(Run[TrainingConfig, Trainer]):
    """A training with the objective `contrastive`."""

    def _trainer(self, progress: Progress, stack: ExitStack) -> Trainer:  # noqa: ARG002 - all in memory
        self.data = read_training_files(self.model, self.files, self.config, progress)
        training_data = split_data(self.data, self.config)
        return Trainer(initial_layers(self.model, self.config), training_data, self.config)

    def _result(self, trainer: Trainer) -> TrainingResult:
        tensors = trainer.result()
        layers = trainer.layers(tensors)
        facts = self._facts(trainer, ("auc", "macro_f1"), self.data.facts())
        facts["temperatures"] = [
            round(t, 4) for t in trainer.log_temperature.detach().exp().tolist()
        ]
        facts["held_out"] = {
            "occurrences": len(trainer.data.held_out),
            "before": facts["held_out"]["before"],
            "trained": facts["held_out"]["kept"],
            "kept": trainer.scores(tensors).document(),
        }
        rows, vectors = np.zeros(0, np.int64), np.zeros((0, trainer.network.d), np.float32)
        if EMBEDDING in tensors:
            known = self.data.table.rows >= 0
            rows, vectors = self.data.table.rows[known], tensors[EMBEDDING].numpy()[known]
        return TrainingResult(layers, facts, rows, vectors)


def write_trained_model(
    folder: Path, model: Model, result: TrainingResult, *, replacing: bool
) -> Manifest:
    """Write the base model with the trained weights and vectors; return the manifest."""
    manifest = model.manifest
    words = [model.vocabulary.word(row) for row in range(manifest.vocabulary_size)]
    uses_bias = any(layer.scoring.word_bias for layer in result.layers)
    rows: Rows = model.rows
    if len(result.rows):
        vectors = np.array(model.vectors)
        vectors[result.rows] = result.vectors.astype(vectors.dtype)
        rows = quantize(vectors) if isinstance(model.rows, QuantizedRows) else vectors
    of_base = {name: fact for name, fact in manifest.training.items() if name != "history"}
    return write_model(
        folder,
        words,
        rows,
        result.layers,
        model.word_bias if uses_bias else None,
        subwords=model.subwords,
        whitening=model.whitening,
        replace=replacing,
        cased=manifest.cased,
        languages=list(manifest.languages),
        licence=manifest.licence,
        source=manifest.source,
        training={**result.facts, "of_base": of_base},
    )
