"""Run a job: write its missing shards with processes on this machine or with a cluster."""

import gc
import multiprocessing
import os
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from polyseme import __version__
from polyseme.atomic_files import atomic_files
from polyseme.bulk.files import InputFile
from polyseme.bulk.job import ERRORS, Job, lock_folder, write_manifest
from polyseme.bulk.shards import ShardResult, errors_path, read_totals, write_shard
from polyseme.bulk.sources import Shard, kept_schema, read, split_shards
from polyseme.bulk.tables import COLUMNS, Totals
from polyseme.errors import CommandError, PolysemeError
from polyseme.models.model import Model
from polyseme.processes import exit_with_parent

OnShard: TypeAlias = Callable[[ShardResult], None]
"""Called with the result of each shard that has been written."""
WriteShards: TypeAlias = Callable[[Job, Iterable[Shard], OnShard], None]
"""`write_in_processes` or `write_on_cluster`, with `workers` or `address` bound by `partial`."""

_SHARDS_AHEAD = 2
"""Maximum number of unfinished shards for each worker: the current one and the next."""
_CLUSTER_TIMEOUT = 60
"""Seconds to wait for the scheduler of a cluster, and then for the first worker."""
_MAX_DEATHS = 3
"""The run fails when workers have died this many times while the same shard was pending."""
_SAMPLE_ROWS = 256
"""Rows from which the size of the output is estimated."""
_JSON_BYTES = 12
"""Typical bytes of a number and its comma in JSON."""
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass
class RunProgress:
    """The progress of a run."""

    bytes: float = 0
    """approximate bytes of the input whose rows are written, also by earlier runs"""
    rows: int = 0
    tokens: int = 0
    found: int = 0
    """number of shards that an earlier run has written"""


def estimate_bytes(job: Job, model: Model, files: Sequence[InputFile]) -> int:
    """Return the approximate size of the numbers in the output, from the first rows of the input.

    Raises the errors of `read`.
    """
    options = job.options
    per_token, per_pair = options.encoding.array_numbers(model)
    per_row = model.manifest.dimension if options.pooling else 0
    size = _JSON_BYTES if options.format == "jsonl" else np.dtype(options.encoding.dtype).itemsize
    for file in files:
        for chunk in read(file, options.column, (), strict=False):
            texts = chunk.rows.column(0).slice(0, _SAMPLE_ROWS).to_pylist()
            most = options.max_sentence_tokens
            lengths = [len(model.tokenizer.look_up(text or "", "auto", most)) for text in texts]
            if texts:
                numbers = sum(per_row + n * (per_token + n * per_pair) for n in lengths)
                part = chunk.bytes_read * len(texts) / len(chunk.rows)
                return int(size * numbers * sum(file.bytes for file in files) / max(part, 1))
    return 0


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    totals: Totals
    """totals of all shards, also of earlier runs"""
    shards: int
    bytes: int
    progress: RunProgress
    """progress of this run alone"""
    peak: int
    """sum of the peak memory of all workers in bytes; each counts the shared memory"""
    errors: Counter[str]
    """number of rows with an error by code"""


def run(
    job: Job,
    files: list[InputFile],
    write: WriteShards,
    on_progress: Callable[[RunProgress], None],
) -> Outcome:
    """Write the missing shards of a job and mark the job as complete.

    Raises CommandError if it fails, ModelFolderError if a worker finds the model damaged; the next
    run of the same job writes only the missing shards.
    """
    options = job.options
    for name in options.keep:
        if name in COLUMNS[options.rows] or options.keep.count(name) > 1:
            raise CommandError(f"--keep {name}: this column name is reserved, or given twice.")
    out = Path(os.path.realpath(job.out))
    if any(out in file.path.resolve().parents for file in files):
        raise CommandError("The input is in the folder of the output: use another folder.")
    strict = job.strict
    kept = kept_schema(files, options.column, options.keep, strict=strict)
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
    peaks: dict[tuple[str, int], int] = {}
    numbers: list[int] = []

    def missing_shards() -> Iterator[Shard]:
        finished = job.finished_shards()
        shards = split_shards(files, options.column, kept, options.shard_rows, strict=strict)
        for shard in shards:
            numbers.append(shard.number)
            if job.shard_path(shard.number).name in finished:
                progress.found += 1
                progress.bytes += shard.bytes
            else:
                yield shard

    def on_shard(result: ShardResult) -> None:
        peaks[result.process] = max(result.peak, peaks.get(result.process, 0))
        progress.rows += result.totals.rows
        progress.tokens += result.totals.tokens
        progress.bytes += result.bytes
        on_progress(progress)

    with lock_folder(job.out, document) as rows_changed:
        if rows_changed:
            for path in map(job.out.joinpath, job.finished_shards()):
                of_shard = read_totals(path)
                if of_shard.failed or of_shard.truncated:
                    path.unlink()
                    errors_path(path).unlink(missing_ok=True)
            write_manifest(job.out, document, None)
        write(job, missing_shards(), on_shard)
        paths = [job.shard_path(number) for number in numbers]
        if job.finished_shards() != {path.name for path in paths}:
            raise CommandError("The folder contains shards of another job: use another folder.")
        totals = sum((read_totals(path) for path in paths), Totals())
        size = sum(path.stat().st_size for path in paths)
        codes = write_errors(job.out / ERRORS, paths) if totals.failed else Counter()
        if not totals.failed:
            job.out.joinpath(ERRORS).unlink(missing_ok=True)
        write_manifest(job.out, document, {"shards": len(paths), **asdict(totals)})
    return Outcome(totals, len(paths), size, progress, sum(peaks.values()), codes)


def write_errors(path: Path, shards: Sequence[Path]) -> Counter[str]:
    """Write the rows with an error of all shards into one file; return their numbers by code."""
    codes: Counter[str] = Counter()
    with atomic_files(path) as (file,):
        for shard in shards:
            if read_totals(shard).failed:
                try:
                    lines = errors_path(shard).read_bytes()
                    codes.update(orjson.loads(line)["code"] for line in lines.splitlines())
                except (OSError, ValueError, TypeError, KeyError):
                    raise CommandError(
                        f"{errors_path(shard).name} is damaged: remove {shard.name} and run again."
                    ) from None
                file.write(lines)
    return codes


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
                    "Workers die repeatedly, perhaps for lack of memory: use fewer --workers or a"
                    " smaller --batch-rows. Finished shards are kept."
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
            pending[shard.number] = shard
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
                del pending[result.number]
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
    with suppress(CommandError, PolysemeError):  # writing the first shard raises it again
        job.load_model()
    tune_garbage_collector()


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely.

    Encoding creates and drops many token objects, which have no reference cycles; searching them
    for cycles takes a measurable part of the time (`benchmarks/bulk.py`).
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def write_on_cluster(job: Job, shards: Iterable[Shard], on_shard: OnShard, *, address: str) -> None:
    """Write shards as tasks of a Dask cluster, whose workers have the model and share the folder.

    The scheduler gives the shards of a lost worker to another one. Raises CommandError if the
    scheduler or the workers fail, or if a row cannot be encoded.
    """
    import distributed

    dask: Any = distributed  # only partly typed
    remaining = iter(shards)
    try:
        client = dask.Client(address, timeout=_CLUSTER_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError):
        raise CommandError(
            "The Dask scheduler does not respond: give its address to --scheduler, such as"
            " tcp://host:8786."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_CLUSTER_TIMEOUT)
        except TimeoutError:
            raise CommandError("The scheduler has no workers: start some, and run again.") from None
        futures = dask.as_completed(loop=client.loop)
        while True:
            at_once = _SHARDS_AHEAD * max(1, sum(client.nthreads().values()))
            while futures.count() < at_once and (shard := next(remaining, None)) is not None:
                with warnings.catch_warnings():
                    # Dask recommends `scatter` for large data, but a lost worker loses it.
                    warnings.simplefilter("ignore", UserWarning)
                    futures.add(client.submit(write_shard, job, shard, pure=False))
            if futures.is_empty():
                return
            future = next(futures)
            try:
                result: ShardResult = future.result()
            except dask.KilledWorker:
                raise CommandError(
                    "Workers die repeatedly while they write one shard, perhaps for lack of memory:"
                    " use a smaller --batch-rows; finished shards are kept."
                ) from None
            except dask.CancelledError:
                raise CommandError(
                    "The scheduler has disconnected: run again when it is available."
                ) from None
            on_shard(result)
            future.release()
