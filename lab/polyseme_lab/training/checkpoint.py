"""Save and load checkpoints: the state of training as safetensors and JSON."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_write
from polyseme.engine.arrays import Floats
from polyseme.errors import CommandError
from polyseme_lab.training.config import HiddenWordsConfig, TrainingConfig
from polyseme_lab.training.corpus import sha256

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
    _remove_old(folder)


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
    found, tensors = load_checkpoint(folder)
    if differences := config.differences(found.recipe):
        raise CommandError(
            f"The checkpoint is from another recipe (different: {', '.join(differences)}); use"
            " the same options, or omit --resume."
        )
    if found.material != material:
        raise CommandError(
            "The checkpoint is from another model or other training files; omit --resume."
        )
    return found, tensors


def checkpoint_names(folder: Path) -> list[str]:
    """Return the names of the checkpoints, which are their steps, oldest first."""
    names = [path.stem for path in folder.glob("*.json") if path.stem.isdecimal()]
    return sorted(names, key=int)


def _remove_old(folder: Path) -> None:
    """Remove unfinished files and all but the newest checkpoints."""
    for name in checkpoint_names(folder)[:-KEPT]:
        for ending in ("json", "safetensors"):
            (folder / f"{name}.{ending}").unlink(missing_ok=True)
    newest = set(checkpoint_names(folder))
    for path in folder.glob("*.safetensors"):
        if path.stem.isdecimal() and path.stem not in newest:
            path.unlink(missing_ok=True)
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        path.unlink(missing_ok=True)
