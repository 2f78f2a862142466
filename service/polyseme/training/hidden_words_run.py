"""Run a training with the objective `hidden-words`."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from polyseme.command_error import CommandError
from polyseme.models.model import Model
from polyseme.progress import Progress
from polyseme.training.checkpoint import checkpoint_to_resume, save_checkpoint
from polyseme.training.config import HiddenWordsConfig
from polyseme.training.data import TrainingFiles
from polyseme.training.hidden_words import HiddenWords
from polyseme.training.loop import TrainerState
from polyseme.training.run import MAX_HISTORY, Metrics, TrainingResult
from polyseme.training.stack_trainer import StackTrainer
from polyseme.training.token_file import TokenFile, open_tokens

TOKENS = "tokens"
"""The folder of the tokenized corpus in the folder of the checkpoints."""


@dataclass
class HiddenWordsRun:
    """The training of one model to name hidden words."""

    model: Model
    files: TrainingFiles
    config: HiddenWordsConfig
    checkpoints: Path | None = None
    resume: bool = False

    def run(self, progress: Progress, report: Callable[[float, Metrics], None]) -> TrainingResult:
        """Train, and call `report` with the completed share and the metrics of each step.

        Raises CommandError if the data or a checkpoint cannot be used.
        """
        if self.files.tags:
            raise CommandError("The objective hidden-words uses text without tags; omit --tags.")
        material = {
            "model": {n: entry.sha256 for n, entry in sorted(self.model.manifest.files.items())},
            "files": self.files.document(),
        }
        saved = checkpoint_to_resume(self.checkpoints, self.config, material, resume=self.resume)
        with ExitStack() as stack:
            folder = (
                self.checkpoints / TOKENS
                if self.checkpoints
                else Path(stack.enter_context(TemporaryDirectory()))
            )
            tokens = open_tokens(folder, self.model, self.files.corpus, material, progress)
            trainer = self._trainer(tokens)
            if saved is not None:
                found, tensors = saved
                trainer.restore(
                    tensors, TrainerState(found.step, found.seconds, list(found.history))
                )
            for metrics in trainer.steps():
                report(trainer.part_done(), metrics)
                if "held_out_loss" in metrics and self.checkpoints is not None:
                    save_checkpoint(
                        self.checkpoints,
                        trainer.state_tensors(),
                        step=trainer.state.step,
                        seconds=trainer.state.seconds,
                        recipe=self.config,
                        material=material,
                        history=trainer.state.history,
                        best_score=None,
                        torch=torch.__version__,
                    )
            return self._result(trainer, tokens, material["files"])

    def _trainer(self, tokens: TokenFile) -> StackTrainer:
        size = self.model.manifest.vocabulary_size
        words = [self.model.vocabulary.word(row) for row in range(size)]
        return StackTrainer(tokens.table(self.model), size, HiddenWords(tokens, words, self.config))

    def _result(self, trainer: StackTrainer, tokens: TokenFile, files: Any) -> TrainingResult:
        history = trainer.state.history
        # Evenly spaced points of the learning curve, including the first and the last.
        points = np.linspace(0, len(history) - 1, min(len(history), MAX_HISTORY))
        first, last = (
            {name: history[point][name] for name in ("held_out_loss", "named")} for point in (0, -1)
        )
        facts = {
            "attention": "trained",
            "base": self.model.manifest.name,
            "recipe": self.config.document(),
            "data": {
                "files": files,
                "sentences": len(tokens.offsets) - 1,
                "tokens": len(tokens.rows),
            },
            "seed": self.config.seed,
            "steps": trainer.state.step,
            "tokens": history[-1]["tokens"],
            "seconds": round(trainer.state.seconds, 1),
            "torch": torch.__version__,
            "held_out": {"before": first, "kept": last},
            "history": [history[n] for n in np.unique(points.round().astype(int)).tolist()],
        }
        d = self.model.manifest.dimension
        return TrainingResult(
            trainer.layers(trainer.averaged),
            facts,
            np.zeros(0, np.int64),
            np.zeros((0, d), np.float32),
        )
