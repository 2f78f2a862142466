"""A bulk job and its output folder. On one machine, the same job writes the same bytes."""

import fcntl
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson
from threadpoolctl import threadpool_limits

from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_write
from polyseme.errors import CommandError, ModelFolderError
from polyseme.models.manifest import MANIFEST as MODEL_MANIFEST
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.registry import find_models
from polyseme.operations.embed import Pooling
from polyseme.operations.inventory import SenseInventory
from polyseme.operations.limits import MAX_SENTENCE_TOKENS
from polyseme.operations.options import EncodeOptions, Part

ShardFormat: TypeAlias = Literal["parquet", "jsonl", "npz"]
RowKind: TypeAlias = Literal["sentences", "tokens"]
Compression: TypeAlias = Literal["none", "zstd"]
OnError: TypeAlias = Literal["null", "skip", "fail"]
"""What a row that cannot be encoded becomes: a row without vectors, no row, or the end of the job.
"""
MANIFEST = "_bulk.json"
"""The file of the job in the output folder. Parquet readers skip names that begin with `_`."""
ERRORS = "_errors.jsonl"
"""The rows with an error, of all shards."""
ROW_OPTIONS = ("on_error", "truncate", "max_sentence_tokens")
"""Options that concern single rows: shards without errors and truncated rows do not depend on them.
"""
_LOCK = "_lock"
_SHARD = re.compile(r"part-\d{5,}\.(?:parquet|jsonl|npz)")


@dataclass(frozen=True)
class BulkOptions:
    """How to encode the texts and write the results."""

    encoding: EncodeOptions = field(default_factory=lambda: EncodeOptions(include=["contextual"]))
    pooling: Pooling | None = None
    """pooling of the sentence vectors; None writes no sentence vectors"""
    format: ShardFormat = "parquet"
    compression: Compression = "none"
    """compression of the numbers in Parquet"""
    column: str = "text"
    keep: tuple[str, ...] = ()
    """columns of the input to copy to the output"""
    rows: RowKind = "sentences"
    """what a row of the output is; with `tokens`, `encoding` includes one array"""
    words: tuple[str, ...] = ()
    """with rows of tokens: write only the occurrences of these words; empty for every token"""
    exact: bool = False
    """whether an occurrence must have the same case as the word"""
    senses: tuple[SenseInventory, ...] = ()
    """with rows of sentences: the inventories whose senses are assigned"""
    shard_rows: int = 4096
    batch_rows: int = 1024
    """maximum number of rows to encode at once"""
    max_sentence_tokens: int = MAX_SENTENCE_TOKENS
    on_error: OnError = "null"

    @property
    def arrays(self) -> Sequence[Part]:
        """The arrays to write, in the order of their columns."""
        order: tuple[Part, ...] = ("static", "contextual", "features", "attention")
        return [part for part in order if part in self.encoding.include]

    def document(self) -> dict[str, Any]:
        """Return the options for the manifest: all that the bytes of the shards depend on."""
        # Manifests of earlier versions have these also with their default values.
        always = {"heads", "oov", "case", "truncate", "dtype"}
        options = {**vars(self), "keep": list(self.keep), "words": sorted(self.words)}
        options["packing"] = options.pop("compression")
        del options["senses"]
        if self.senses:
            options["senses"] = [hashlib.sha256(one.to_json()).hexdigest() for one in self.senses]
        encoding = options.pop("encoding")
        if self.rows == "sentences":
            for name in ("rows", "words", "exact"):
                del options[name]
        if self.on_error == "fail":  # as in jobs of earlier versions
            del options["on_error"]
        return {
            **encoding.model_dump(exclude=always, exclude_defaults=True),
            **encoding.model_dump(include=always),
            "include": sorted(set(encoding.include)),
            **options,
        }


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to write a shard, on this machine or on another."""

    options: BulkOptions
    out: Path
    model: str
    model_folders: tuple[Path, ...]
    """folders that contain model folders; later ones take precedence"""
    sha256: str
    """checksum of the model's manifest, which contains the checksum of each file"""
    kept: Any = None
    """`pyarrow.Schema` of the columns to copy"""
    several_files: bool = False
    """whether to write a column with the name of the input file"""

    def load_model(self) -> Model:
        """Return the model, mapped once per process.

        Raises CommandError if it is missing or its sha256 differs, ModelFolderError if it is
        damaged.
        """
        return _load_model(self.model_folders, self.model, self.sha256)

    def shard_path(self, number: int) -> Path:
        """Return the path of a shard."""
        return self.out / f"part-{number:05}.{self.options.format}"

    @property
    def strict(self) -> bool:
        """Whether the job ends at a row with an error."""
        return self.options.on_error == "fail"

    def finished_shards(self) -> set[str]:
        """Return the file names of the existing shards."""
        return {file.name for file in self.out.iterdir() if _SHARD.fullmatch(file.name)}


@cache
def _load_model(folders: tuple[Path, ...], name: str, sha256: str) -> Model:
    folder = find_models(folders).get(name)
    if folder is None or fingerprint(folder) != sha256:
        raise CommandError(
            f"A worker has no model {name}, or another version of it: copy it to each worker."
        )
    threadpool_limits(1)  # as in the service: the same bits, and one worker per processor
    return read_model(folder)


def fingerprint(folder: Path) -> str:
    """Return the sha256 of a model's manifest, which identifies the model."""
    try:
        return hashlib.sha256((folder / MODEL_MANIFEST).read_bytes()).hexdigest()
    except OSError:
        raise ModelFolderError(f"{MODEL_MANIFEST} cannot be read.") from None


@contextmanager
def lock_folder(folder: Path, document: dict[str, Any]) -> Iterator[bool]:
    """Reserve the output folder for a job; remove unfinished files at the start and at the end.

    Yields whether the folder has shards of the same job with other ROW_OPTIONS. Raises CommandError
    if the folder has other files but not this job's manifest, or if another run uses it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with folder.joinpath(_LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                "Another run is writing into this folder: wait until it ends."
            ) from None
        except OSError:
            pass  # the file system has no locks; docs/bulk.md rules out a second run
        path = folder / MANIFEST
        names = {file.name for file in folder.iterdir()} - {_LOCK, MANIFEST}
        others = [name for name in names if not name.startswith(TEMPORARY_PREFIX)]
        rows_changed = False
        if not others:  # a job that failed before its first shard does not bind the next one
            write_manifest(folder, document, None)
        elif not path.exists():
            raise CommandError("The folder contains other files: use an empty or a new folder.")
        else:
            try:
                before = orjson.loads(path.read_bytes()).pop("job")
                earlier, options = before["options"], document["options"]
                rows = {name: options[name] for name in ROW_OPTIONS if name in options}
                rows_before = {name: earlier.pop(name) for name in ROW_OPTIONS if name in earlier}
                rows_changed = rows != rows_before
                # A lower limit concerns rows in shards without errors as well.
                if rows["max_sentence_tokens"] < rows_before["max_sentence_tokens"]:
                    rows = {}
                earlier = {**earlier, **rows}
                before = {**before, "options": earlier}
                changed = sorted(name for name in document if before.get(name) != document[name])
                if "options" in changed:
                    known = sorted({*filter(str.isidentifier, earlier), *options})
                    differ = [name for name in known if earlier.get(name) != options.get(name)]
                    changed[changed.index("options")] = f"options: {', '.join(differ)}"
            except (ValueError, TypeError, KeyError, AttributeError):
                raise CommandError(
                    f"{MANIFEST} in the folder is damaged: use another folder."
                ) from None
            if before != document:
                raise CommandError(
                    f"The folder contains another job's shards (other {' and '.join(changed)}):"
                    " remove the folder or use another one."
                )
        _remove_unfinished(folder)
        try:
            yield rows_changed
        finally:
            _remove_unfinished(folder)


def write_manifest(folder: Path, document: dict[str, Any], totals: dict[str, Any] | None) -> None:
    """Write the manifest of a job, with the totals when the job is complete."""
    manifest = {"job": document, "complete": totals is not None}
    if totals:
        manifest["totals"] = totals
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    atomic_write(folder / MANIFEST, orjson.dumps(manifest, option=style))


def _remove_unfinished(folder: Path) -> None:
    for file in folder.glob(f"{TEMPORARY_PREFIX}*"):
        file.unlink(missing_ok=True)
