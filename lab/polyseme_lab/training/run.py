"""Run a training: read the data, train, save checkpoints, and write the trained model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_write
from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.quantization import QuantizedRows, Rows, quantize
from polyseme.errors import CommandError
from polyseme.models.manifest import SENSES, Manifest
from polyseme.models.model import Model
from polyseme.models.writer import write_model
from polyseme.progress import Progress
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.corpus import sha256
from polyseme_lab.training.data import TrainingFiles, read_training_files
from polyseme_lab.training.held_out import split_data
from polyseme_lab.training.hidden_words import HiddenWords, open_tokens
from polyseme_lab.training.initialization import initial_layers
from polyseme_lab.training.stack import StackTrainer
from polyseme_lab.training.trainer import EMBEDDING, Trainer, TrainerState, TrainingLoop

KEPT = 2
"""The number of newest checkpoints to keep."""
RANDOM = "one generator for each step, of the seed and the step's number"
"""A description of the random generators, whose state need not be stored."""


class Checkpoint(BaseModel):
    """The JSON document of a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["polyseme-checkpoint"] = "polyseme-checkpoint"
    format_version: Literal[1] = 1
    step: int = Field(ge=0)
    seconds: float = Field(ge=0, allow_inf_nan=False)
    recipe: TrainingConfig | HiddenWordsConfig
    material: dict[str, Any]
    """sha256 of the model and of the training files"""
    history: list[dict[str, Any]]
    best_score: float | None
    random: str = RANDOM
    torch: str
    sha256: str
    """sha256 of the tensors' file"""


def save_checkpoint(folder: Path, tensors: Mapping[str, Floats], **facts: Any) -> None:
    """Write a checkpoint atomically, and remove old ones.

    The JSON is written last, and has the sha256 of the tensors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{facts['step']:08}"
    # np.ascontiguousarray would add an axis to scalars.
    contiguous = {key: np.array(tensor, order="C") for key, tensor in tensors.items()}
    atomic_write(folder / f"{name}.safetensors", save_tensors(contiguous))
    document = Checkpoint(sha256=sha256(folder / f"{name}.safetensors"), **facts)
    atomic_write(folder / f"{name}.json", document.model_dump_json(indent=1).encode())
    # Remove old checkpoints, and files that were not finished.
    for name in checkpoint_names(folder)[:-KEPT]:
        (folder / f"{name}.json").unlink(missing_ok=True)
    newest = set(checkpoint_names(folder))
    for path in [*folder.glob("*.safetensors"), *folder.glob(f"{TEMPORARY_PREFIX}*")]:
        numbered = path.suffix == ".safetensors" and path.stem.isdecimal()
        if path.name.startswith(TEMPORARY_PREFIX) or (numbered and path.stem not in newest):
            path.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> tuple[Checkpoint, dict[str, Floats]]:
    """Return the document and the tensors of the newest checkpoint in a folder.

    Raises CommandError if there is no checkpoint, or if the newest one is damaged.
    """
    names = checkpoint_names(folder)
    if not names:
        raise CommandError("There is no checkpoint to resume from; omit --resume.")
    path = folder / f"{names[-1]}.json"
    with suppress(OSError, ValidationError, CommandError, safetensors.SafetensorError):
        document = Checkpoint.model_validate_json(path.read_bytes())
        tensors = path.with_suffix(".safetensors")
        if sha256(tensors) == document.sha256:
            return document, load_tensors(tensors.read_bytes())
    raise CommandError(
        f"The checkpoint {path.stem} is damaged; remove its two files to resume from the previous"
        " one."
    )


def checkpoint_to_resume(
    folder: Path | None,
    config: TrainingConfig | HiddenWordsConfig,
    material: dict[str, Any],
    *,
    resume: bool,
) -> tuple[Checkpoint, dict[str, Floats]] | None:
    """Return the checkpoint to resume from, or None to start from the beginning.

    Raises CommandError if the checkpoint is missing, damaged or from another training, or if the
    folder has checkpoints but `resume` is False.
    """
    if not resume:
        if folder is not None and checkpoint_names(folder):
            raise CommandError(
                "The folder already has checkpoints; use --resume to continue from the newest"
                " one, or another folder."
            )
        return None
    if folder is None:
        raise CommandError("--resume requires --checkpoints, the folder of the checkpoints.")
    checkpoint, tensors = load_checkpoint(folder)
    if differences := config.differences(checkpoint.recipe):
        raise CommandError(
            f"The checkpoint is from another recipe (different: {', '.join(differences)}); use"
            " the same options, or omit --resume."
        )
    if checkpoint.material != material:
        raise CommandError(
            "The checkpoint is from another model or other training files; omit --resume."
        )
    return checkpoint, tensors


def checkpoint_names(folder: Path) -> list[str]:
    """Return the names of the checkpoints, which are their steps, oldest first."""
    names = [path.stem for path in folder.glob("*.json") if path.stem.isdecimal()]
    return sorted(names, key=int)


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
        files = sorted(self.model.manifest.files.items())
        self.material = {
            # No training depends on how senses are found.
            "model": {name: entry.sha256 for name, entry in files if name != SENSES},
            "files": self.files.document(),
        }
        saved = checkpoint_to_resume(
            self.checkpoints, self.config, self.material, resume=self.resume
        )
        with TemporaryDirectory() as scratch:
            trainer = self._trainer(progress, Path(scratch))
            if saved is not None:
                checkpoint, tensors = saved
                state = TrainerState(
                    checkpoint.step,
                    checkpoint.seconds,
                    list(checkpoint.history),
                    checkpoint.best_score,
                )
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
    def _trainer(self, progress: Progress, scratch: Path) -> _Trainer:
        """Read the data; `scratch` is removed at the end of the training."""

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
            "recipe": self.config.model_dump(mode="json"),
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

    def _trainer(self, progress: Progress, scratch: Path) -> Trainer:
        del scratch
        self.data = read_training_files(self.model, self.files, self.config, progress)
        training_data = split_data(self.data, self.config)
        if not len(training_data.held_out):
            need = "a larger --corpus"
            if training_data.lemmas:
                need = f"held-out lemmas with two senses of {self.config.fewest} tags each"
            progress.say(f"Warning: no scores are computed (–), because they need {need}.")
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
            "kept": trainer.scores(tensors)._asdict(),
        }
        if EMBEDDING not in tensors:
            return TrainingResult(layers, facts)
        known = self.data.table.rows >= 0
        vectors = tensors[EMBEDDING].numpy()[known]
        return TrainingResult(layers, facts, self.data.table.rows[known], vectors)


def write_trained_model(
    folder: Path, model: Model, result: TrainingResult, *, replacing: bool
) -> Manifest:
    """Write the base model with the trained weights and vectors; return the manifest.

    The tables of a bundled model that were not trained are not copied. The word bias stays even if
    no layer uses it, because sentence vectors and senses weight words by it.
    """
    manifest = model.manifest
    words = [model.vocabulary.word(row) for row in range(manifest.vocabulary_size)]
    rows: Rows = model.rows
    if result.rows is not None and result.vectors is not None:
        vectors = np.array(model.vectors)
        vectors[result.rows] = result.vectors.astype(vectors.dtype)
        rows = quantize(vectors) if isinstance(model.rows, QuantizedRows) else vectors
    of_base = {name: fact for name, fact in manifest.training.items() if name != "history"}
    return write_model(
        folder,
        words,
        rows,
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


TOKENS = "tokens"
"""The folder of the tokenized corpus in the folder of the checkpoints."""


class HiddenWordsRun(Run[HiddenWordsConfig, StackTrainer]):
    """A training with the objective `hidden-words`."""

    def _trainer(self, progress: Progress, scratch: Path) -> StackTrainer:
        if self.files.tags:
            raise CommandError("The objective hidden-words uses text without tags; omit --tags.")
        model, folder = self.model, self.checkpoints / TOKENS if self.checkpoints else scratch
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
        layers = trainer.finished(trainer.layers(trainer.averaged))
        return TrainingResult(layers, facts)
