"""A bulk job and its output folder. On one machine, the same job writes the same bytes."""

import fcntl
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from polyseme import __version__
from polyseme.arrow import ROW_OPTIONS, Encoder
from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_write
from polyseme.bulk.files import InputFile
from polyseme.errors import CommandError

ShardFormat: TypeAlias = Literal["parquet", "jsonl"]
Compression: TypeAlias = Literal["none", "zstd"]
MANIFEST = "_bulk.json"
"""The file of the job in the output folder. Parquet readers skip names that begin with `_`."""
ERRORS = "_errors.jsonl"
"""The rows with an error, of all shards."""
_LOCK = "_lock"
_SHARD = re.compile(r"part-\d{5,}\.(?:parquet|jsonl)")


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to write a shard."""

    encoder: Encoder
    out: Path
    format: ShardFormat = "parquet"
    compression: Compression = "none"
    """compression of the numbers in Parquet"""
    shard_rows: int = 4096
    has_files: bool = False
    """whether to write a column with the name of the input file"""
    kept: Any = None
    """`pyarrow.Schema` of the columns to copy, of which the first ones are `row` and `file`"""

    def shard_path(self, index: int) -> Path:
        """Return the path of a shard."""
        return self.out / f"part-{index:05}.{self.format}"

    def finished_shards(self) -> set[str]:
        """Return the file names of the existing shards."""
        return {file.name for file in self.out.iterdir() if _SHARD.fullmatch(file.name)}

    def document(self) -> dict[str, Any]:
        """Return what the bytes of the shards depend on, except for the input."""
        names = ("column", *ROW_OPTIONS)
        options = {name: getattr(self.encoder, name) for name in names}
        options |= {name: getattr(self, name) for name in ("format", "compression", "shard_rows")}
        options |= {"columns": {one.name: str(one.type) for one in self.kept}}
        options |= self.encoder.document()
        model = {"name": self.encoder.model, "sha256": self.encoder.sha256}
        facts = {"format": "polyseme-bulk", "format_version": 2, "polyseme": __version__}
        return {**facts, "model": model, "options": options}


@dataclass(frozen=True)
class Plan:
    """What is in the output folder of a job, and what is to be encoded."""

    groups: list[list[InputFile]]
    """the files of the first run, and those that were added before each later run"""
    document: dict[str, Any]
    rows_changed: bool
    """whether existing shards had other ROW_OPTIONS"""


@contextmanager
def lock_folder(job: Job, files: Sequence[InputFile]) -> Iterator[Plan]:
    """Reserve the output folder for a job; remove unfinished files at the start and at the end.

    Raises CommandError if the folder has other files but not this job's manifest, or if another run
    uses it.
    """
    job.out.mkdir(parents=True, exist_ok=True)
    with job.out.joinpath(_LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                "Another run is writing into this folder: wait until it ends."
            ) from None
        except OSError:
            pass  # the file system has no locks; docs/bulk.md rules out a second run
        plan = _plan(job, files)
        _remove_unfinished(job.out)
        try:
            yield plan
        finally:
            _remove_unfinished(job.out)


def _plan(job: Job, files: Sequence[InputFile]) -> Plan:
    """Return what to encode; raise CommandError if the folder does not belong to the job."""
    now = orjson.loads(orjson.dumps(job.document()))
    inputs = {file.name: file.document() for file in files}
    groups: list[list[dict[str, str]]] = []
    rows_changed = False
    names = {file.name for file in job.out.iterdir()} - {_LOCK, MANIFEST}
    if any(not name.startswith(TEMPORARY_PREFIX) for name in names):
        path = job.out / MANIFEST
        if not path.exists():
            raise CommandError("The folder contains other files: use an empty or a new folder.")
        try:
            before = orjson.loads(path.read_bytes())["job"]
            groups = before.pop("input")
            differing = _differences(before, now)
            rows_changed = any(before["options"][n] != now["options"][n] for n in ROW_OPTIONS)
            if any(inputs.get(one["name"]) != one for group in groups for one in group):
                differing.append("input")
        except (ValueError, TypeError, KeyError, AttributeError):
            message = f"{MANIFEST} in the folder is damaged: use another folder."
            raise CommandError(message) from None
        if differing:
            raise CommandError(
                f"The folder contains another job's shards (other {', '.join(differing)}):"
                " remove the folder or use another one."
            )
    earlier = {one["name"] for group in groups for one in group}
    added = [one for name, one in inputs.items() if name not in earlier]
    if added or not groups:
        groups = [*groups, added]
    document = {**now, "input": groups}
    if added or rows_changed:
        write_manifest(job.out, document, None)
    by_name = {file.name: file for file in files}
    return Plan(
        [[by_name[one["name"]] for one in group] for group in groups], document, rows_changed
    )


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the names of what differs between jobs, except for ROW_OPTIONS."""
    options, earlier = now["options"], before["options"]
    names = [name for name in now if name != "options" and before.get(name) != now[name]]
    changed = {n for n in {*options, *earlier} if earlier.get(n) != options.get(n)}
    # A lower limit concerns rows in shards without errors as well.
    is_lower = options["max_sentence_tokens"] < earlier["max_sentence_tokens"]
    kept = {"max_sentence_tokens"} if is_lower else set()
    return names + sorted(changed - (set(ROW_OPTIONS) - kept))


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
