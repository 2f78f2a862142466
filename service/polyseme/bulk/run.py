"""Run a job: write its missing shards with processes on this machine.

On one machine, the same job writes the same bytes.
"""

import fcntl
import gc
import multiprocessing
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import orjson
import pyarrow as pa

from polyseme import __version__
from polyseme.arrow import ROW_OPTIONS, Counts, Encoding
from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_files, atomic_write
from polyseme.bulk.read import InputFile, Shard, first_rows, read_schema, split_shards
from polyseme.bulk.write import Job, facts_path, read_facts, write_shard
from polyseme.errors import CommandError, PolysemeError
from polyseme.processes import exit_with_parent

MANIFEST = "_bulk.json"
"""The file of the job in the output folder. Parquet readers skip names that begin with `_`."""
ERRORS = "_errors.jsonl"
"""The rows with an error, of all shards."""
_LOCK = "_lock"
_SHARD = re.compile(r"part-\d{5,}\.(?:parquet|jsonl)")
_SHARDS_AHEAD = 2
"""Maximum number of unfinished shards for each worker: the current one and the next."""
_MAX_DEATHS = 3
"""The run fails when workers have died this many times while the same shard was pending."""
_SAMPLE_ROWS = 256
"""Rows from which the size of the output is estimated."""
_JSON_RATIO = 3
"""How much larger numbers are as JSON."""
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass
class Outcome:
    """The progress of a run and its result."""

    bytes_read: float = 0
    """approximate bytes of the input whose rows are written, also by earlier runs"""
    rows: int = 0
    """rows of the input that this run has written"""
    tokens: int = 0
    """tokens that this run has written"""
    existing: int = 0
    """number of shards that an earlier run has written"""
    counts: Counts = field(default_factory=Counts)
    """counts of all shards, also of earlier runs"""
    errors: Counter[str] = field(default_factory=Counter)
    """number of rows with an error by code"""
    shards: int = 0
    bytes: int = 0
    """size of all shards"""


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


def estimate_bytes(job: Job, files: Sequence[InputFile]) -> int:
    """Return the approximate size of the output, from the first rows of the input."""
    encoding = Encoding(replace(job.encoder, on_error="null"), job.copy_schema)
    names = job.copy_schema.names[1 + job.has_files :]
    chunk = first_rows(files, job.encoder.column, names)
    if chunk is None:
        return 0
    rows = chunk.slice(0, min(_SAMPLE_ROWS, len(chunk)))
    size = sum(batch.nbytes for batch in job.batches(encoding, rows))
    size *= _JSON_RATIO if job.format == "jsonl" else 1
    return int(size * sum(file.bytes for file in files) / max(rows.bytes, 1))


def run(
    job: Job,
    files: Sequence[InputFile],
    write: Callable[[Job, Iterable[Shard], Callable[[Shard], None]], None],
    on_progress: Callable[[Outcome], None],
) -> Outcome:
    """Write the missing shards of a job of `with_schema`, and mark the job as complete.

    `write` is `write_in_processes` with its number of workers. Raises CommandError if it fails,
    ModelFolderError if a worker finds the model damaged; the next run of the same job writes only
    the missing shards.
    """
    outcome = Outcome()
    paths: list[Path] = []
    schema = pa.schema(list(job.copy_schema)[1 + job.has_files :])

    def missing_shards(groups: Sequence[Sequence[InputFile]]) -> Iterator[Shard]:
        finished = finished_shards(job.out)
        for shard in split_shards(groups, job.encoder.column, schema, job.shard_rows):
            paths.append(job.shard_path(shard.index))
            if paths[-1] in finished:
                outcome.existing += 1
                outcome.bytes_read += shard.bytes
            else:
                yield shard

    def on_shard(shard: Shard) -> None:
        counts, _ = read_facts(job.shard_path(shard.index))
        outcome.bytes_read += shard.bytes
        outcome.rows += counts.rows
        outcome.tokens += counts.tokens
        on_progress(outcome)

    with _lock_folder(job.out):
        document, has_other_options = _plan(job, files)
        if has_other_options:
            for path in finished_shards(job.out):
                counts, _ = read_facts(path)
                if counts.failed or counts.truncated:
                    path.unlink()
                    facts_path(path).unlink()
        by_name = {file.name: file for file in files}
        groups = [[by_name[one["name"]] for one in group] for group in document["input"]]
        write(job, missing_shards(groups), on_shard)
        if finished_shards(job.out) != {*paths}:
            raise CommandError("The folder contains shards of another job: use another folder.")
        with atomic_files(job.out / ERRORS) as (file,):
            for path in paths:
                counts, errors = read_facts(path)
                pairs = zip(
                    *(asdict(one).values() for one in (outcome.counts, counts)), strict=True
                )
                outcome.counts = Counts(*map(sum, pairs))
                outcome.errors.update(error["code"] for error in errors)
                file.writelines(orjson.dumps(error) + b"\n" for error in errors)
        if not outcome.errors:
            job.out.joinpath(ERRORS).unlink()
        outcome.shards = len(paths)
        outcome.bytes = sum(path.stat().st_size for path in paths)
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


def _plan(job: Job, files: Sequence[InputFile]) -> tuple[dict[str, Any], bool]:
    """Return the document of a job, and whether existing shards have other ROW_OPTIONS.

    Its `input` has the files of the first run, and those that were added before each later run.
    Raises CommandError if the folder has other files but not this job's manifest.
    """
    document = _document(job)
    inputs = [file.document() for file in files]
    groups: list[list[dict[str, str]]] = []
    has_other_options = False
    names = {path.name for path in job.out.iterdir()} - {_LOCK, MANIFEST}
    if any(not name.startswith(TEMPORARY_PREFIX) for name in names):
        path = job.out / MANIFEST
        if not path.exists():
            raise CommandError("The folder contains other files: use an empty or a new folder.")
        try:
            before = orjson.loads(path.read_bytes())["job"]
            groups = before.pop("input")
            differences = _differences(before, document)
            if any(one not in inputs for one in chain.from_iterable(groups)):
                differences.append("input")
            options = before["options"], document["options"]
            has_other_options = any(options[0][n] != options[1][n] for n in ROW_OPTIONS)
        except (ValueError, TypeError, KeyError, AttributeError):
            message = f"{MANIFEST} in the folder is damaged: use another folder."
            raise CommandError(message) from None
        if differences:
            raise CommandError(
                f"The folder contains another job's shards (other {', '.join(differences)}):"
                " remove the folder or use another one."
            )
    _remove_unfinished(job.out)
    earlier = {one["name"] for group in groups for one in group}
    added = [one for one in inputs if one["name"] not in earlier]
    document["input"] = [*groups, added] if added or not groups else groups
    if added or not groups or has_other_options:
        _write_manifest(job.out, document, None)
    return document, has_other_options


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
    atomic_write(folder / MANIFEST, orjson.dumps(manifest, option=style))


def write_in_processes(
    job: Job, shards: Iterable[Shard], on_shard: Callable[[Shard], None], *, workers: int
) -> None:
    """Write shards with processes on this machine; retry unfinished ones if a worker dies.

    Raises CommandError if a shard cannot be written, or if workers die repeatedly on one shard.
    """
    remaining = iter(shards)
    pending: dict[int, Shard] = {}
    deaths: Counter[int] = Counter()
    while True:
        try:
            return _write_in_pool(job, remaining, pending, on_shard, workers)
        except BrokenProcessPool:
            deaths.update(pending.keys() or {-1})
            if max(deaths.values()) >= _MAX_DEATHS:
                raise CommandError(
                    "Workers die repeatedly, perhaps for lack of memory: use fewer --workers."
                    " Finished shards are kept."
                ) from None


def _write_in_pool(
    job: Job,
    remaining: Iterator[Shard],
    pending: dict[int, Shard],
    on_shard: Callable[[Shard], None],
    workers: int,
) -> None:
    """Write the pending shards and then the remaining ones, a bounded number at a time.

    If this raises, the workers are terminated immediately.
    """
    finished: SimpleQueue[Future[int] | None] = SimpleQueue()
    # On Ctrl-C, None is put into the queue. KeyboardInterrupt could be raised while this thread has
    # a lock of the pool, and the threads of the pool would wait for it forever.
    with _handling_interrupts(lambda *_: finished.put(None)):
        before = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(workers, _CONTEXT, start_worker, (job,))

        def submit(shard: Shard) -> None:
            pending[shard.index] = shard
            pool.submit(write_shard, job, shard).add_done_callback(finished.put)

        try:
            # Workers inherit that Ctrl-C is ignored, so that only this process handles it.
            with _handling_interrupts(signal.SIG_IGN):
                for _ in range(workers):
                    pool.submit(os.getpid)  # starts a worker, because no worker is idle yet
            for shard in list(pending.values()):
                submit(shard)
            while True:
                for shard in islice(remaining, workers * _SHARDS_AHEAD - len(pending)):
                    submit(shard)
                if not pending:
                    return
                future = finished.get()
                if future is None:
                    signal.default_int_handler(signal.SIGINT, None)
                on_shard(pending.pop(future.result()))
        except BaseException:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _handling_interrupts(handler: Any) -> Iterator[None]:
    """Handle Ctrl-C with a function in the block, or ignore it with SIG_IGN.

    In another thread, and if Ctrl-C is ignored (nohup, or a shell's &), nothing changes.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start_worker(job: Job) -> None:
    """Prepare a worker: it uses one thread, maps the model and exits with its parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exit_with_parent()
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
