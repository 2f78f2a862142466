"""What a bulk run is to do: the same job gives the same bytes, whoever carries it out."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from threadpoolctl import threadpool_limits

from polyseme.bulk.refusal import BulkError
from polyseme.encoding.choice import Choice, Part
from polyseme.encoding.limits import Limits
from polyseme.encoding.pooling import Pooling
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import MANIFEST
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.registry import find_models

Format: TypeAlias = Literal["parquet", "npz"]
Packing: TypeAlias = Literal["none", "zstd"]
_MOST = 1 << 62
_HELD = 256 << 20
"""Bytes of an npz shard that are held at once; one that may be larger is gone through again for
each of its arrays."""


@dataclass(frozen=True)
class Wishes:
    """What becomes of each text, and how it is written."""

    choice: Choice = Choice(include=frozenset({"contextual"}))  # noqa: RUF009 - frozen
    pooling: Pooling | None = None
    """how one vector is made of each sentence; None for no such column"""
    format: Format = "parquet"
    packing: Packing = "none"
    """of numbers in Parquet, of which zstd takes a sixth away"""
    column: str = "text"
    keep: tuple[str, ...] = ()
    """columns of the input that are passed through"""
    shard_rows: int = 4096
    batch_rows: int = 1024
    """sentences that are encoded before they are written, at most"""
    most_tokens: int = 1024
    """of one sentence"""

    @property
    def listed(self) -> bool:
        """Whether tokens are written, beside their arrays."""
        return bool(self.choice.include)

    @property
    def limits(self) -> Limits:
        """Who works on his own machine limits nothing but a sentence."""
        return Limits(_MOST, self.most_tokens, _MOST, _MOST, _MOST, stream_bytes=_HELD)

    def document(self) -> dict[str, Any]:
        """What the bytes depend on."""
        choice = self.choice
        return {
            "include": sorted(choice.include),
            "heads": "mean" if choice.mean_of_heads else "all",
            "oov": choice.oov,
            "case": choice.case,
            "truncate": choice.truncate,
            "dtype": choice.dtype,
            **{
                name: getattr(self, name)
                for name in ("pooling", "format", "packing", "column", "shard_rows", "batch_rows")
            },
            "keep": list(self.keep),
            "max_sentence_tokens": self.most_tokens,
        }


@dataclass(frozen=True)
class Job:
    """What a worker has to know to write a shard, on this machine or on another."""

    wishes: Wishes
    out: Path
    model: str
    places: tuple[Path, ...]
    """the folders of models"""
    sha256: str
    """of the model's manifest, which names the sha256 of each file"""
    kept: Any = None
    """`pyarrow.Schema` of the columns that are passed through"""
    named: bool = False
    """whether there are several files, so that a row's number is not enough"""
    verify: bool = True
    """whether each worker compares the model's checksums"""

    def mapped(self) -> Model:
        """The model, mapped into this process once; raise BulkError where it is another one."""
        return _mapped(self.places, self.model, self.sha256, self.verify)


@cache
def _mapped(places: tuple[Path, ...], name: str, sha256: str, verify: bool) -> Model:
    folder = find_models(places).get(name)
    if folder is None or fingerprint(folder) != sha256:
        raise BulkError(f"A worker does not have the same model {name}: give each of them it.")
    threadpool_limits(1)  # as the service has it: the same bits, and a worker for each processor
    return read_model(folder, verify=verify)


def fingerprint(folder: Path) -> str:
    """The sha256 of a model's manifest, and so of the model."""
    try:
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        raise ModelFolderError(f"{MANIFEST} cannot be read.") from None


def written(choice: Choice) -> Sequence[Part]:
    """The arrays that are written, in the order of their columns."""
    order: tuple[Part, ...] = ("static", "contextual", "attention")
    return [part for part in order if part in choice.include]
