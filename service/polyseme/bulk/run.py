"""Run a job: write its missing shards with processes on this machine."""

import gc
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import orjson
import pyarrow as pa

from polyseme.arrow import Counts, Encoding
from polyseme.atomic_files import atomic_files
from polyseme.bulk.files import InputFile
from polyseme.bulk.job import ERRORS, Job, lock_folder, write_manifest
from polyseme.bulk.shards import ShardResult, facts_path, origin, read_facts, write_shard
from polyseme.bulk.sources import Shard, kept_schema, read, split_shards
from polyseme.errors import CommandError, PolysemeError
from polyseme.processes import exit_with_parent

OnShard: TypeAlias = Callable[[ShardResult], None]
"""Called with the result of each shard that has been written."""
WriteShards: TypeAlias = Callable[[Job, Iterable[Shard], OnShard], None]
"""`write_in_processes` with `workers` bound by `partial`."""

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
class RunProgress:
    """The progress of a run."""

    bytes: float = 0
    """approximate bytes of the input whose rows are written, also by earlier runs"""
    rows: int = 0
    tokens: int = 0
    existing: int = 0
    """number of shards that an earlier run has written"""


@dataclass
class Outcome:
    """The result of a run."""

    progress: RunProgress
    """progress of this run alone"""
    counts: Counts = field(default_factory=Counts)
    """counts of all shards, also of earlier runs"""
    shards: int = 0
    bytes: int = 0
    peak: int = 0
    """sum of the peak memory of all workers in bytes; each counts the shared memory"""
    errors: Counter[str] = field(default_factory=Counter)
    """number of rows with an error by code"""


def with_kept(job: Job, files: Sequence[InputFile]) -> Job:
    """Return the job with the schema of the columns to copy.

    Raises the errors of `read` and of `Encoding`, and CommandError if the input is in OUT.
    """
    out = Path(os.path.realpath(job.out))
    if any(out in file.path.resolve().parents for file in files):
        raise CommandError("The input is in the folder of the output: use another folder.")
    columns = [pa.field("row", pa.int64()), pa.field("file", pa.string())][: 1 + job.has_files]
    kept = kept_schema(files, job.encoder.column, job.encoder.keep)
    job = replace(job, kept=pa.schema([*columns, *kept]))
    Encoding(job.encoder, job.kept)
    return job


def estimate_bytes(job: Job, files: Sequence[InputFile]) -> int:
    """Return the approximate size of the output, from the first rows of the input."""
    encoding = Encoding(replace(job.encoder, on_error="null"), job.kept)
    names = job.kept.names[1 + job.has_files :]
    for file in files:
        for chunk, bytes_read in read(file, job.encoder.column, names):
            rows = chunk.slice(0, _SAMPLE_ROWS)
            columns = [*origin(rows, has_files=job.has_files), *rows.kept]
            batches = encoding.batches(rows.texts, columns, rows.problems)
            size = sum(batch.nbytes for batch in batches)
            if len(rows):
                size *= _JSON_RATIO if job.format == "jsonl" else 1
                part = bytes_read * len(rows) / len(chunk)
                return int(size * sum(file.bytes for file in files) / max(part, 1))
    return 0


def run(
    job: Job,
    files: Sequence[InputFile],
    write: WriteShards,
    on_progress: Callable[[RunProgress], None],
) -> Outcome:
    """Write the missing shards of a job of `with_kept`, and mark the job as complete.

    Raises CommandError if it fails, ModelFolderError if a worker finds the model damaged; the next
    run of the same job writes only the missing shards.
    """
    progress = RunProgress()
    peaks: Counter[int] = Counter()
    paths: list[Path] = []
    own = 1 + job.has_files
    kept = pa.schema(list(job.kept)[own:])

    def missing_shards(groups: Sequence[Sequence[InputFile]]) -> Iterator[Shard]:
        finished = job.finished_shards()
        for shard in split_shards(groups, job.encoder.column, kept, job.shard_rows):
            paths.append(job.shard_path(shard.index))
            if paths[-1].name in finished:
                progress.existing += 1
                progress.bytes += shard.bytes
            else:
                yield shard

    def on_shard(result: ShardResult) -> None:
        peaks[result.process] = max(result.peak, peaks[result.process])
        progress.rows += result.counts.rows
        progress.tokens += result.counts.tokens
        progress.bytes += result.bytes
        on_progress(progress)

    with lock_folder(job, files) as plan:
        if plan.rows_changed:
            for path in map(job.out.joinpath, job.finished_shards()):
                counts, _ = read_facts(path)
                if counts.failed or counts.truncated:
                    path.unlink()
                    facts_path(path).unlink()
        write(job, missing_shards(plan.groups), on_shard)
        if job.finished_shards() != {path.name for path in paths}:
            raise CommandError("The folder contains shards of another job: use another folder.")
        outcome = Outcome(progress, shards=len(paths), peak=peaks.total())
        outcome.bytes = sum(path.stat().st_size for path in paths)
        with atomic_files(job.out / ERRORS) as (file,):
            for path in paths:
                counts, errors = read_facts(path)
                for one in fields(Counts):
                    total = getattr(outcome.counts, one.name) + getattr(counts, one.name)
                    setattr(outcome.counts, one.name, total)
                outcome.errors.update(error["code"] for error in errors)
                file.writelines(orjson.dumps(error) + b"\n" for error in errors)
        if not outcome.counts.failed:
            job.out.joinpath(ERRORS).unlink()
        totals = {"shards": len(paths), **asdict(outcome.counts)}
        write_manifest(job.out, plan.document, totals)
    return outcome


def write_in_processes(
    job: Job, shards: Iterable[Shard], on_shard: OnShard, *, workers: int
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
    on_shard: OnShard,
    workers: int,
) -> None:
    """Write the pending shards and then the remaining ones, a bounded number at a time.

    If this raises, the workers are terminated immediately.
    """
    finished: SimpleQueue[Future[ShardResult] | None] = SimpleQueue()
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
                result = future.result()
                del pending[result.index]
                on_shard(result)
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
        Encoding(job.encoder, job.kept)
    tune_garbage_collector()


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely.

    Encoding creates and drops many token objects, which have no reference cycles; searching them
    for cycles takes a measurable part of the time (`benchmarks/bulk.py`).
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
