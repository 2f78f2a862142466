"""Checkpoints: the state of a training as safetensors and JSON, from which it goes on."""

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
from polyseme.training.recipe import Recipe
from polyseme.training.refusal import TrainingError
from polyseme.training.source import digest

KEPT = 2
"""How many checkpoints are kept, the newest ones."""
RANDOM = "one generator for each step, of the seed and the step's number"


class Kept(BaseModel):
    """What a checkpoint says beside its tensors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["polyseme-checkpoint"] = "polyseme-checkpoint"
    format_version: Literal[1] = 1
    step: int = Field(ge=0)
    seconds: float = Field(ge=0, allow_inf_nan=False)
    recipe: Recipe
    material: dict[str, Any]
    """the model and the files that are learned from, by their sha256"""
    history: list[dict[str, Any]]
    best_score: float | None
    random: str = RANDOM
    torch: str
    sha256: str
    """of the tensors"""


def save(folder: Path, tensors: Mapping[str, Floats], **facts: Any) -> None:
    """Write a checkpoint beside older ones; it is there whole, or not at all.

    The JSON is written last, and names the tensors by their sha256.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{facts['step']:08}"
    # Not ascontiguousarray, which gives a single number an axis.
    whole = {key: np.array(tensor, order="C") for key, tensor in tensors.items()}
    atomic_write(folder / f"{name}.safetensors", save_tensors(whole))
    kept = Kept(sha256=digest(folder / f"{name}.safetensors"), **facts)
    atomic_write(folder / f"{name}.json", kept.model_dump_json(indent=1).encode())
    _clear(folder)


def load(folder: Path) -> tuple[Kept, dict[str, Floats]]:
    """The newest checkpoint in a folder; raise TrainingError where there is none or it is damaged.

    Nothing is unpickled.
    """
    names = steps_in(folder)
    if not names:
        raise TrainingError("There is no checkpoint to go on from: leave --resume away.")
    path = folder / f"{names[-1]}.json"
    with suppress(OSError, ValidationError, TrainingError, safetensors.SafetensorError):
        kept = Kept.model_validate_json(path.read_bytes())
        tensors = path.with_suffix(".safetensors")
        if digest(tensors) == kept.sha256:
            return kept, load_tensors(tensors.read_bytes())
    raise TrainingError(
        f"The checkpoint {path.stem} is damaged: remove its two files to go on from the one before"
        " it."
    )


def steps_in(folder: Path) -> list[str]:
    """The checkpoints in a folder by their step, the oldest first."""
    return sorted(path.stem for path in folder.glob("*.json") if path.stem.isdigit())


def _clear(folder: Path) -> None:
    """Remove what is older than the last checkpoints, and what was never finished."""
    for name in steps_in(folder)[:-KEPT]:
        for ending in ("json", "safetensors"):
            (folder / f"{name}.{ending}").unlink(missing_ok=True)
    newest = set(steps_in(folder))
    for path in folder.glob("*.safetensors"):
        if path.stem.isdigit() and path.stem not in newest:
            path.unlink(missing_ok=True)
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        path.unlink(missing_ok=True)
