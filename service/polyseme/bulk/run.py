"""Run a job: write its missing shards with processes on this machine.

On one machine, the same job writes the same bytes.
"""

import fcntl
import gc
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from polyseme import __version__
from polyseme.arrow import ROW_OPTIONS, Counts, Encoding
from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_files, atomic_write
from polyseme.bulk.read import InputFile, Shard, read_schema, split_shards
from polyseme.bulk.write import Job, facts_path, read_facts, write_shard
from polyseme.errors import CommandError, PolysemeError
from polyseme.processes import run_in_processes
from polyseme.terminal import ProgressBar

JOB_FILE = "_bulk.json"
"""The file of the job in the output folder. Parquet readers skip names that begin with `_`."""
ERRORS = "_errors.jsonl"
"""The rows with an error, of all shards."""
_LOCK = "_lock"
_SHARD = re.compile(r"part-\d{5,}\.(?:parquet|jsonl)")


@dataclass
class Outcome:
    """The progress of a run and its result."""

    bytes_read: float = 0
    """approximate bytes of the input whose rows are written, also by earlier runs"""
    written: Counts = field(default_factory=Counts)
    """counts of the shards that this run has written"""
    existing: int = 0
    """number of shards that an earlier run has written"""
    counts: Counts = field(default_factory=Counts)
    """counts of all shards, also of earlier runs"""
    errors: Counter[str] = field(default_factory=Counter)
    """number of rows with an error by code"""
    without_values: set[str] = field(default_factory=set)
    """the columns to copy that are null in all rows"""
    shards: int = 0
    bytes: int = 0
    """size of the shards so far"""


def with_schema(job: Job, files: Sequence[InputFile]) -> Job:
    """Return the job with the schema of the columns to copy.

    Raises the errors of `read` and of `Encoding`, and CommandError if the input is in OUT.
    """
    out = Path(os.path.realpath(job.out))
    if any(out in Path(os.path.realpath(file.path)).parents for file in files):
        raise CommandError("The input is in the folder of the output: use another folder.")
    columns = [pa.field("row", pa.int64()), pa.field("file", pa.string())][: 1 + job.has_files]
    schema = read_schema(files, job.encoder.column, job.encoder.keep)
    job = replace(job, copy_schema=pa.schema([*columns, *schema]))
    Encoding(job.encoder, job.copy_schema)
    return job


def run(
    job: Job,
    files: Sequence[InputFile],
    bar: ProgressBar,
    workers: int,
) -> Outcome:
    """Write the missing shards of a job of `with_schema`, and mark the job as complete.

    Raises CommandError if a shard cannot be written, or if workers die repeatedly of one shard, and
    ModelFolderError if a worker finds the model damaged; the next run of the same job writes only
    the missing shards.
    """
    outcome = Outcome(without_values={*job.encoder.keep})
    paths: list[Path] = []
    schema = pa.schema(list(job.copy_schema)[1 + job.has_files :])

    def count(shard: Shard) -> None:
        outcome.bytes_read += shard.bytes
        outcome.bytes += job.shard_path(shard.index).stat().st_size

    def missing_shards() -> Iterator[Shard]:
        finished = finished_shards(job.out)
        for shard in split_shards(groups, job.encoder.column, schema, job.shard_rows):
            outcome.without_values -= {
                name
                for part in shard.parts
                for name, column in zip(schema.names, part.columns, strict=True)
                if column.null_count < len(column)
            }
            paths.append(job.shard_path(shard.index))
            if paths[-1] in finished:
                outcome.existing += 1
                count(shard)
            else:
                yield shard

    def on_shard(shard: Shard, counts: Counts) -> None:
        outcome.written += counts
        count(shard)
        bar.reach(int(outcome.bytes_read), outcome.written.rows)

    with _lock_folder(job.out):
        document = _plan(job, files)
        by_name = {file.name: file for file in files}
        groups = [[by_name[one["name"]] for one in group] for group in document["input"]]
        try:
            run_in_processes(
                partial(write_shard, job),
                missing_shards(),
                on_shard,
                workers=workers,
                start=partial(_start_worker, job),
            )
        except BrokenProcessPool:
            raise CommandError(
                "Workers die repeatedly, perhaps for lack of memory: use fewer --workers."
                " Finished shards are kept."
            ) from None
        if finished_shards(job.out) != {*paths}:
            raise CommandError("The folder contains shards of another job: use another folder.")
        with atomic_files(job.out / ERRORS) as (file,):
            for path in paths:
                counts, errors = read_facts(path)
                outcome.counts += counts
                outcome.errors.update(error["code"] for error in errors)
                file.writelines(orjson.dumps(error) + b"\n" for error in errors)
        if not outcome.errors:
            job.out.joinpath(ERRORS).unlink()
        outcome.shards = len(paths)
        _write_manifest(job.out, document, {"shards": len(paths), **asdict(outcome.counts)})
    return outcome


def finished_shards(folder: Path) -> set[Path]:
    """Return the paths of the existing shards."""
    return {path for path in folder.iterdir() if _SHARD.fullmatch(path.name)}


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Reserve the output folder for a run; remove its unfinished files at the end.

    Raises CommandError if another run uses it.
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
        try:
            yield
        finally:
            _remove_unfinished(folder)


def _remove_unfinished(folder: Path) -> None:
    for file in folder.glob(f"{TEMPORARY_PREFIX}*"):
        file.unlink(missing_ok=True)


def _document(job: Job) -> dict[str, Any]:
    """Return what the bytes of the shards depend on, except for the input, as JSON has it."""
    encoder = job.encoder
    options = {name: getattr(encoder, name) for name in ("column", *ROW_OPTIONS)}
    options |= {name: getattr(job, name) for name in ("format", "compression", "shard_rows")}
    options |= {
        "columns": {one.name: str(one.type) for one in job.copy_schema},
        **encoder.document(),
    }
    model = {"name": encoder.model, "sha256": encoder.sha256}
    facts = {"format": "polyseme-bulk", "format_version": 2, "polyseme": __version__}
    document: dict[str, Any] = {**facts, "model": model, "options": options}
    return orjson.loads(orjson.dumps(document))  # type: ignore[no-any-return]


def _plan(job: Job, files: Sequence[InputFile]) -> dict[str, Any]:
    """Write and return the document of a job; remove the shards that it writes again.

    Its `input` has the files of the first run, and those that were added before each later run.
    Raises CommandError if the folder has other files but not this job's manifest.
    """
    document = _document(job)
    inputs = [file.document() for file in files]
    groups: list[list[dict[str, str]]] = []
    names = {path.name for path in job.out.iterdir()} - {_LOCK, JOB_FILE}
    if any(not name.startswith(TEMPORARY_PREFIX) for name in names):
        try:
            before = orjson.loads(job.out.joinpath(JOB_FILE).read_bytes())["job"]
            groups = before.pop("input")
            differences = _differences(before, document)
            if any(one not in inputs for one in chain.from_iterable(groups)):
                differences.append("input")
            options = before["options"], document["options"]
            has_other_options = any(options[0][n] != options[1][n] for n in ROW_OPTIONS)
        except FileNotFoundError:
            raise CommandError(
                "The folder contains other files: use an empty or a new folder."
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            message = f"{JOB_FILE} in the folder is damaged: use another folder."
            raise CommandError(message) from None
        if differences:
            raise CommandError(
                f"The folder contains another job's shards (other {', '.join(differences)}):"
                " remove the folder or use another one."
            )
        for path in finished_shards(job.out) if has_other_options else ():
            counts, _ = read_facts(path)
            if counts.failed or counts.truncated:
                path.unlink()
                facts_path(path).unlink()
    _remove_unfinished(job.out)
    earlier = {one["name"] for group in groups for one in group}
    added = [one for one in inputs if one["name"] not in earlier]
    document["input"] = [*groups, added] if added or not groups else groups
    _write_manifest(job.out, document, None)
    return document


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the names of what differs between jobs, except for ROW_OPTIONS."""
    options, earlier = now["options"], before["options"]
    names = [name for name in now if name != "options" and before.get(name) != now[name]]
    changed = {n for n in {*options, *earlier} if earlier.get(n) != options.get(n)}
    # A lower limit concerns rows in shards without errors as well.
    is_lower = options["max_sentence_tokens"] < earlier["max_sentence_tokens"]
    return names + sorted(changed - {*ROW_OPTIONS[: 2 if is_lower else 3]})


def _write_manifest(folder: Path, document: dict[str, Any], totals: dict[str, Any] | None) -> None:
    """Write the manifest of a job, with the totals when the job is complete."""
    manifest = {"job": document, "complete": totals is not None}
    if totals:
        manifest["totals"] = totals
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    atomic_write(folder / JOB_FILE, orjson.dumps(manifest, option=style))


def _start_worker(job: Job) -> None:
    """Prepare a worker: it uses one thread and maps the model."""
    pa.set_cpu_count(1)
    with suppress(PolysemeError):  # writing the first shard raises it again
        Encoding(job.encoder, job.copy_schema)
    tune_garbage_collector()


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely.

    Encoding creates and drops many token objects, which have no reference cycles; searching them
    for cycles takes a measurable part of the time (`benchmarks/bulk.py`).
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
