"""Shards on a Dask cluster: the same tasks, on workers that see the same folders."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from polyseme.bulk.job import Job
from polyseme.bulk.refusal import BulkError
from polyseme.bulk.shards import Shard
from polyseme.bulk.writing import Written, write_shard

_AHEAD = 2
"""Shards in memory for each thread of a worker."""
_SECONDS = 60
"""for a scheduler to answer, and for a first worker to be there"""


def write_on_cluster(
    job: Job, shards: Iterable[Shard], address: str, told: Callable[[Written], None]
) -> None:
    """Write shards as tasks; those of a worker that is lost are given to another by the scheduler.

    Raises BulkError where the scheduler does not answer or a row cannot be encoded.
    """
    import distributed  # noqa: PLC0415 - an extra

    dask: Any = distributed  # which is typed in places
    waiting = iter(shards)
    with _client(dask, address) as client:
        done = dask.as_completed(loop=client.loop)
        while _hand_out(client, done, waiting, job):
            future = next(done)
            told(_result(dask, future))
            future.release()


def _hand_out(client: Any, done: Any, waiting: Iterator[Shard], job: Job) -> bool:
    """Keep every thread there is supplied; tell whether anything is under way."""
    most = _AHEAD * max(1, sum(client.nthreads().values()))
    while done.count() < most:
        shard = next(waiting, None)
        if shard is None:
            break
        with warnings.catch_warnings():
            # Dask would rather have large data scattered, but then they are gone with a worker.
            warnings.simplefilter("ignore", UserWarning)
            done.add(client.submit(write_shard, job, shard, pure=False))
    return not done.is_empty()


def _result(dask: Any, future: Any) -> Written:
    try:
        written: Written = future.result()
    except dask.KilledWorker:
        raise BulkError(
            "Workers end again and again over one shard, perhaps for want of memory: give a smaller"
            " --batch-rows; what is written stays."
        ) from None
    except dask.CancelledError:
        raise BulkError("The scheduler is gone: run again when it is back.") from None
    return written


@contextmanager
def _client(dask: Any, address: str) -> Iterator[Any]:
    try:
        client = dask.Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError):
        raise BulkError(
            "No Dask scheduler answers: --scheduler takes its address, such as tcp://host:8786."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_SECONDS)
        except TimeoutError:
            raise BulkError("The scheduler has no workers: start some, and run again.") from None
        yield client
