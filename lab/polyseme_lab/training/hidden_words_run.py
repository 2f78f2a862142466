"""Run a training with the objective `hidden-words`."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from polyseme.errors import CommandError
from polyseme.progress import Progress
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.hidden_words import HiddenWords
from polyseme_lab.training.run import Run, TrainingResult
from polyseme_lab.training.stack_trainer import StackTrainer
from polyseme_lab.training.token_file import open_tokens

TOKENS = "tokens"
"""The folder of the tokenized corpus in the folder of the checkpoints."""


class HiddenWordsRun(Run[HiddenWordsConfig, StackTrainer]):
    """A training with the objective `hidden-words`."""

    def _trainer(self, progress: Progress, stack: ExitStack) -> StackTrainer:
        if self.files.tags:
            raise CommandError("The objective hidden-words uses text without tags; omit --tags.")
        if self.checkpoints:
            folder = self.checkpoints / TOKENS
        else:
            folder = Path(stack.enter_context(TemporaryDirectory()))
        model = self.model
        tokens = self.tokens = open_tokens(
            folder, model, self.files.corpus, self.material, progress
        )
        size = model.manifest.vocabulary_size
        words = [model.vocabulary.word(row) for row in range(size)]
        return StackTrainer(tokens.table(model), size, HiddenWords(tokens, words, self.config))

    def _result(self, trainer: StackTrainer) -> TrainingResult:
        data = {"sentences": len(self.tokens.offsets) - 1, "tokens": len(self.tokens.rows)}
        facts = self._facts(trainer, ("held_out_loss", "named"), data)
        facts["tokens"] = trainer.state.history[-1]["tokens"]
        return TrainingResult(
            trainer.layers(trainer.averaged),
            facts,
            np.zeros(0, np.int64),
            np.zeros((0, self.model.manifest.dimension), np.float32),
        )
