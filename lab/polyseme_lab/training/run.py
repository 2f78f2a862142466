"""Run a training: read the data, train, save checkpoints, and write the trained model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from safetensors.numpy import save as save_tensors

from polyseme.atomic_files import atomic_write
from polyseme.engine import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.quantization import QuantizedRows, Rows, quantize
from polyseme.errors import CommandError, counted
from polyseme.models.manifest import Manifest
from polyseme.models.model import Model
from polyseme.models.writer import write_model
from polyseme.terminal import Progress
from polyseme_lab.evaluation.datasets import Words
from polyseme_lab.training.comparison import (
    MIN_PAIRS,
    Comparison,
    compare,
    pseudowords,
    words_of,
)
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.data import TrainingFiles, read_training_files
from polyseme_lab.training.held_out import Scores, split_data
from polyseme_lab.training.hidden_words import HiddenWords, tokenize_files
from polyseme_lab.training.stack import StackTrainer
from polyseme_lab.training.trainer import EMBEDDING, Trainer, TrainerState, TrainingLoop

CHECKPOINT = "checkpoint.safetensors"
"""The file in the folder of checkpoints: the tensors, and a document in its metadata."""


class Checkpoint(BaseModel):
    """The JSON document of a checkpoint."""

    recipe: TrainingConfig | HiddenWordsConfig
    material: dict[str, Any]
    """sha256 of the model and of the training files"""
    state: TrainerState


def save_checkpoint(folder: Path, tensors: Mapping[str, Floats], checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically; it replaces the previous one."""
    folder.mkdir(parents=True, exist_ok=True)
    # np.ascontiguousarray would add an axis to scalars.
    contiguous = {name: np.array(tensor, order="C") for name, tensor in tensors.items()}
    data = save_tensors(contiguous, {"checkpoint": checkpoint.model_dump_json()})
    atomic_write(folder / CHECKPOINT, data)


def load_checkpoint(folder: Path) -> tuple[Checkpoint, dict[str, Floats]]:
    """Return the document and the tensors of the checkpoint in a folder.

    Raises CommandError if there is no checkpoint, or if it is damaged.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        raise CommandError("There is no checkpoint to resume from; omit --resume.")
    try:
        with safetensors.safe_open(path, "numpy") as file:
            document = Checkpoint.model_validate_json(file.metadata()["checkpoint"])
            return document, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, TypeError, KeyError, ValidationError, safetensors.SafetensorError):
        raise CommandError("The checkpoint is damaged; remove it to start again.") from None


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
    rows: NDArray[np.int64] | None = None
    """[r], rows of the vocabulary with trained vectors"""
    vectors: NDArray[np.float32] | None = None
    """[r, d], the trained vectors"""


@dataclass
class Run(ABC):
    """The training of one model: data, steps, checkpoints and the result."""

    model: Model
    files: TrainingFiles
    config: TrainingConfig | HiddenWordsConfig
    checkpoints: Path | None = None
    resume: bool = False

    def run(self, progress: Progress, report: Callable[[float, Metrics], None]) -> TrainingResult:
        """Train, and call `report` with the completed share and the metrics of each step.

        Raises CommandError if the data or a checkpoint cannot be used.
        """
        files = sorted(self.model.manifest.files.items())
        # No training depends on how senses are found.
        tables = {name: entry.sha256 for name, entry in files if name != "senses.safetensors"}
        material: dict[str, Any] = {"model": tables, "files": self.files.document()}
        saved = self._saved(material)
        trainer = self.trainer(progress)
        if saved is not None:
            trainer.restore(*saved)
        for metrics in trainer.steps():
            report(trainer.part_done(), metrics)
            state = trainer.state
            if self.checkpoints is not None and state.history[-1]["step"] == metrics["step"]:
                checkpoint = Checkpoint(recipe=self.config, material=material, state=state)
                save_checkpoint(self.checkpoints, trainer.state_tensors(), checkpoint)
        result = self.result()
        return replace(result, facts=self._facts(trainer.state, material["files"], result.facts))

    def _saved(self, material: dict[str, Any]) -> tuple[dict[str, Floats], TrainerState] | None:
        """Return the tensors and the state to resume from, or None for a new training."""
        if not self.resume:
            if self.checkpoints is not None and (self.checkpoints / CHECKPOINT).exists():
                raise CommandError(
                    "The folder already has a checkpoint; use --resume to continue from it, or"
                    " another folder."
                )
            return None
        if self.checkpoints is None:
            raise CommandError("--resume requires --checkpoints, the folder of the checkpoints.")
        checkpoint, tensors = load_checkpoint(self.checkpoints)
        if differences := self.config.differences(checkpoint.recipe):
            raise CommandError(
                f"The checkpoint is from another recipe (different: {', '.join(differences)}); use"
                " the same options, or omit --resume."
            )
        if checkpoint.material != material:
            raise CommandError(
                "The checkpoint is from another model or other training files; omit --resume."
            )
        return tensors, checkpoint.state

    @abstractmethod
    def trainer(self, progress: Progress) -> TrainingLoop:
        """Read the data; return a new trainer."""

    @abstractmethod
    def result(self) -> TrainingResult:
        """Return the result of the trainer, with the facts that only this objective has."""

    @abstractmethod
    def held_out_sentences(self) -> list[Words]:
        """Return the sentences or paragraphs that training does not see."""

    def compare(self, result: TrainingResult, progress: Progress) -> Comparison | None:
        """Compare the result with the start; None if the held-out text is too small to tell."""
        pairs = pseudowords(self.held_out_sentences(), self.config.split)
        if len(pairs) < MIN_PAIRS:
            progress.say(
                "There is too little held-out text to tell whether training helped:"
                f" {counted(len(pairs), 'pseudo-word')} of at least {MIN_PAIRS}."
            )
            return None
        return compare(self.model, trained_model(self.model, result), pairs, progress)

    def _facts(
        self, state: TrainerState, files: list[dict[str, Any]], own: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the facts for the manifest."""
        history = state.history
        # Evenly spaced points of the learning curve, including the first and the last.
        points = np.linspace(0, len(history) - 1, min(len(history), MAX_HISTORY))
        return {
            "attention": "trained",
            "base": self.model.manifest.name,
            "recipe": self.config.model_dump(mode="json"),
            "seed": self.config.seed,
            "steps": state.step,
            "seconds": round(state.seconds, 1),
            "torch": torch.__version__,
            "history": [history[n] for n in np.unique(points.round().astype(int)).tolist()],
            **own,
            "data": {"files": files, **own["data"]},
        }


@dataclass
class TrainingRun(Run):
    """A training with the objective `contrastive`."""

    config: TrainingConfig

    def trainer(self, progress: Progress) -> Trainer:
        """Read the data; return a new trainer."""
        self._data = read_training_files(self.model, self.files, self.config, progress)
        training_data = split_data(self._data, self.config)
        progress.say(
            f"The training text has {len(self._data.sentences.entries):,} tokens; the gains of"
            " wiki-en needed 13 million and 252,000 sense tags."
        )
        if not len(training_data.held_out):
            need = "a larger --corpus"
            if training_data.lemmas:
                need = f"held-out lemmas with two senses of {self.config.fewest} tags each"
            progress.say(f"Warning: no scores are computed (–), because they need {need}.")
        self._trainer = Trainer(list(self.model.layers), training_data, self.config)
        return self._trainer

    def result(self) -> TrainingResult:
        """Return the result of the trainer."""
        trainer, data = self._trainer, self._data
        tensors, history = trainer.result(), trainer.state.history
        before, after = (
            {name: history[point][name] for name in Scores._fields} for point in (0, -1)
        )
        temperatures = trainer.log_temperature.detach().exp().tolist()
        facts = {
            "data": data.facts(),
            "temperatures": [round(t, 4) for t in temperatures],
            "held_out": {
                "occurrences": len(trainer.data.held_out),
                "before": before,
                "trained": after,
                "kept": trainer.scores(tensors)._asdict(),
            },
        }
        layers = trainer.layers(tensors)
        if EMBEDDING not in tensors:
            return TrainingResult(layers, facts)
        known = data.table.rows >= 0
        vectors = tensors[EMBEDDING].numpy()[known]
        return TrainingResult(layers, facts, data.table.rows[known], vectors)

    def held_out_sentences(self) -> list[Words]:
        """Return tagged sentences without tags to train on, and paragraphs."""
        sentences, words = self._data.sentences, self._data.table.keys[:-1]
        chosen = self._trainer.data.held_out_sentences
        return words_of(words, sentences.entries, sentences.offsets, chosen)


def trained_model(model: Model, result: TrainingResult) -> Model:
    """Return the base model with the trained weights and vectors."""
    rows: Rows = model.rows
    if result.rows is not None and result.vectors is not None:
        vectors = np.array(model.vectors)
        vectors[result.rows] = result.vectors.astype(vectors.dtype)
        rows = quantize(vectors) if isinstance(model.rows, QuantizedRows) else vectors
    return replace(model, rows=rows, layers=result.layers)


def write_trained_model(
    folder: Path, model: Model, result: TrainingResult, *, replacing: bool
) -> Manifest:
    """Write the base model with the trained weights and vectors; return the manifest.

    The tables of a bundled model that were not trained are not copied. The word bias stays even if
    no layer uses it, because sentence vectors and senses weight words by it.
    """
    manifest = model.manifest
    words = [model.vocabulary.word(row) for row in range(manifest.vocabulary_size)]
    of_base = {name: fact for name, fact in manifest.training.items() if name != "history"}
    return write_model(
        folder,
        words,
        trained_model(model, result).rows,
        result.layers,
        model.word_bias,
        subwords=model.subwords,
        whitening=model.whitening,
        base=manifest.base or manifest.name,
        replace=replacing,
        cased=manifest.cased,
        languages=list(manifest.languages),
        licence=manifest.licence,
        source=manifest.source,
        training={**result.facts, "of_base": of_base},
    )


@dataclass
class HiddenWordsRun(Run):
    """A training with the objective `hidden-words`."""

    config: HiddenWordsConfig

    def trainer(self, progress: Progress) -> StackTrainer:
        """Read the data; return a new trainer."""
        model, size = self.model, self.model.manifest.vocabulary_size
        self._text = tokenize_files(model, self.files.corpus, progress)
        progress.say(
            f"The training text has {len(self._text.rows):,} tokens; the gains of wiki-en-deep"
            " needed 96 million and ten hours of one core."
        )
        words = [model.vocabulary.word(row) for row in range(size)]
        data = HiddenWords(self._text, words, self.config)
        self._trainer = StackTrainer(self._text.table(model), size, data)
        return self._trainer

    def result(self) -> TrainingResult:
        """Return the result of the trainer."""
        trainer, text = self._trainer, self._text
        history = trainer.state.history
        before, after = (
            {name: history[point][name] for name in ("held_out_loss", "named")} for point in (0, -1)
        )
        facts = {
            "data": {"sentences": len(text.offsets) - 1, "tokens": len(text.rows)},
            "tokens": trainer.state.tokens,
            "held_out": {"before": before, "kept": after},
        }
        return TrainingResult(trainer.result(), facts)

    def held_out_sentences(self) -> list[Words]:
        """Return the held-out sentences; composed words are unknown."""
        vocabulary, text = self.model.vocabulary, self._text
        words = map(vocabulary.word, range(len(vocabulary)))
        chosen = self._trainer.data.held_out_sentences
        return words_of(words, text.rows, text.offsets, chosen)
