"""Shards on the processors of this machine: each worker maps the model, encodes and writes."""

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
from itertools import islice
from multiprocessing.connection import wait as wait_for

import pyarrow as pa

from polyseme.bulk.job import Job
from polyseme.bulk.refusal import BulkError
from polyseme.bulk.shards import Shard
from polyseme.bulk.writing import Written, write_shard
from polyseme.errors import PolysemeError

_AHEAD = 2
"""Shards in memory for each worker: one that it works on, one that waits."""
_LIVES = 3
"""How often a worker may die over a shard."""
_CONTEXT = multiprocessing.get_context("spawn")
Told = Callable[[Written], None]
"""Hears of each shard that is there."""


def write_in_processes(job: Job, shards: Iterable[Shard], workers: int, told: Told) -> None:
    """Write shards; those of a worker that dies are written again, by others.

    Raises BulkError where a row cannot be encoded, or workers die over the same shard again and
    again.
    """
    waiting = iter(shards)
    held: dict[int, Shard] = {}
    deaths: Counter[int] = Counter()
    ended = False
    while not ended:
        try:
            with _pool(job, workers) as pool:
                _feed(pool, job, waiting, workers * _AHEAD, held, told)
        except BrokenProcessPool:
            deaths.update(held.keys() or {-1})
            if max(deaths.values()) >= _LIVES:
                raise BulkError(
                    "Workers end again and again, perhaps for want of memory: give fewer --workers"
                    " or a smaller --batch-rows; what is written stays."
                ) from None
        else:
            ended = True


def _feed(
    pool: ProcessPoolExecutor,
    job: Job,
    waiting: Iterator[Shard],
    most: int,
    held: dict[int, Shard],
    told: Told,
) -> None:
    """Hand out shards, a bounded number at a time, until all are written; first those held."""

    def hand_out(shard: Shard) -> Future[Written]:
        held[shard.number] = shard
        return pool.submit(write_shard, job, shard)

    under_way = {hand_out(shard) for shard in list(held.values())}
    while True:
        under_way |= {hand_out(shard) for shard in islice(waiting, most - len(under_way))}
        if not under_way:
            return
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            written = future.result()
            del held[written.number]
            told(written)


@contextmanager
def _pool(job: Job, workers: int) -> Iterator[ProcessPoolExecutor]:
    """Workers that are ended at once where the work is."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, _CONTEXT, _begin, (job,))
    try:
        with _deaf():
            for _ in range(workers):
                pool.submit(os.getpid)  # starts one, as none is idle yet
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that begin here hear no Ctrl-C, which a terminal sends to all: the parent does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(job: Job) -> None:
    """Begin a worker: one thread of arithmetic, the model mapped, gone when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pa.set_cpu_count(1)
    with suppress(BulkError, PolysemeError):  # which a shard will tell of
        job.mapped()
    settle()


def settle() -> None:
    """Let Python's collector come seldom.

    Tokens come and go in tens of thousands and refer to nothing: to look through them again and
    again for cycles takes a part of the time that is seen (`benchmarks/bulk.py`).
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
