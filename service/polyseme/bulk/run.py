"""A run of a job: shards that are missing are written by processes of this machine or a cluster."""

import gc
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from multiprocessing.connection import wait as wait_for_connections
from typing import Any, TypeAlias

import pyarrow as pa

from polyseme import __version__
from polyseme.bulk.job import Job, lock_folder, write_manifest
from polyseme.bulk.shards import COLUMNS, ShardResult, Totals, read_totals, write_shard
from polyseme.bulk.sources import InputFile, Shard, kept_schema, split_shards
from polyseme.command_error import CommandError
from polyseme.errors import PolysemeError

OnShard: TypeAlias = Callable[[ShardResult], None]
"""Called with each shard that has been written."""
WriteShards: TypeAlias = Callable[[Job, Iterable[Shard], OnShard], None]
"""Writes shards: `write_in_processes` or `write_on_cluster`, with their own arguments bound."""

_SHARDS_AHEAD = 2
"""Shards in memory for each worker: one that it writes, and the next."""
_MAX_DEATHS = 3
"""How often workers may die over the same shard."""
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass
class RunProgress:
    """What a run has done so far."""

    read: int = 0
    """bytes of the input"""
    rows: int = 0
    tokens: int = 0
    found: int = 0
    """shards that an earlier run had written"""


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    totals: Totals
    """of all shards"""
    shards: int
    bytes: int
    progress: RunProgress
    """of this run alone"""
    peak: int
    """peak memory of all workers in bytes; shared memory counts once for each of them"""


def run(
    job: Job,
    files: list[InputFile],
    write: WriteShards,
    on_progress: Callable[[RunProgress], None],
) -> Outcome:
    """Write the missing shards of a job, and mark it as complete.

    Raises CommandError, after which the same run continues where it stopped.
    """
    options = job.options
    for name in options.keep:
        if name in COLUMNS or options.keep.count(name) > 1:
            raise CommandError(f"--keep {name}: the output has a column of this name already.")
    out = job.out.resolve()
    if any(out in file.path.resolve().parents for file in files):
        raise CommandError("The input lies in the folder of the output: use another folder.")
    kept = kept_schema(files[0], options.column, options.keep)
    job = replace(job, kept=kept, several_files=len(files) > 1)
    document = {
        "format": "polyseme-bulk",
        "format_version": 1,
        "polyseme": __version__,
        "model": {"name": job.model, "sha256": job.sha256},
        "options": options.document(),
        "input": [file.document() for file in files],
    }
    progress = RunProgress()
    peaks: dict[int, int] = {}
    numbers: list[int] = []

    def missing_shards() -> Iterator[Shard]:
        finished = job.finished_shards()
        for shard in split_shards(files, options.column, kept, options.shard_rows):
            numbers.append(shard.number)
            if job.shard_path(shard.number).name in finished:
                progress.found += 1
            else:
                yield shard

    def on_shard(result: ShardResult) -> None:
        peaks[result.process] = max(result.peak, peaks.get(result.process, 0))
        progress.rows += result.totals.rows
        progress.tokens += result.totals.tokens
        progress.read = max(progress.read, result.read)
        on_progress(progress)

    with lock_folder(job.out, document):
        write(job, missing_shards(), on_shard)
        paths = [job.shard_path(number) for number in numbers]
        if job.finished_shards() != {path.name for path in paths}:
            raise CommandError(
                "The folder has shards that are not of this job: use another folder."
            )
        totals = sum((read_totals(path) for path in paths), Totals())
        size = sum(path.stat().st_size for path in paths)
        write_manifest(job.out, document, {"shards": len(paths), **asdict(totals)})
    return Outcome(totals, len(paths), size, progress, sum(peaks.values()))


def write_in_processes(
    job: Job, shards: Iterable[Shard], on_shard: OnShard, *, workers: int
) -> None:
    """Write shards with processes of this machine. The shards of a worker that dies are rewritten.

    Raises CommandError if a row cannot be encoded, or if workers die over one shard repeatedly.
    """
    remaining = iter(shards)
    pending: dict[int, Shard] = {}
    deaths: Counter[int] = Counter()
    while True:
        try:
            with _process_pool(job, workers) as pool:
                _write_in_pool(pool, job, remaining, workers * _SHARDS_AHEAD, pending, on_shard)
        except BrokenProcessPool:
            deaths.update(pending.keys() or {-1})
            if max(deaths.values()) >= _MAX_DEATHS:
                raise CommandError(
                    "Workers die repeatedly, perhaps for lack of memory: use fewer --workers or a"
                    " smaller --batch-rows; finished shards are kept."
                ) from None
        else:
            return


def _write_in_pool(
    pool: ProcessPoolExecutor,
    job: Job,
    remaining: Iterator[Shard],
    at_once: int,
    pending: dict[int, Shard],
    on_shard: OnShard,
) -> None:
    """Submit the pending shards and then the remaining ones, a bounded number at a time."""

    def submit(shard: Shard) -> Future[ShardResult]:
        pending[shard.number] = shard
        return pool.submit(write_shard, job, shard)

    running = {submit(shard) for shard in list(pending.values())}
    while True:
        running |= {submit(shard) for shard in islice(remaining, at_once - len(running))}
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            result = future.result()
            del pending[result.number]
            on_shard(result)


@contextmanager
def _process_pool(job: Job, workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose workers are terminated at once if the block raises."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, _CONTEXT, _start_worker, (job,))
    try:
        with _ignoring_interrupts():
            for _ in range(workers):
                pool.submit(os.getpid)  # starts a worker, because none is idle yet
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all: the parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker(job: Job) -> None:
    """Prepare a worker: one thread, the model mapped, and an end with its parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    pa.set_cpu_count(1)
    with suppress(CommandError, PolysemeError):  # the first shard raises it again
        job.load_model()
    tune_garbage_collector()


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely.

    Encoding creates and drops tens of thousands of tokens that refer to nothing; looking for cycles
    among them again and again takes a measurable part of the time (`benchmarks/bulk.py`).
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _exit_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    if parent is not None:
        wait_for_connections([parent.sentinel])
        os._exit(1)
