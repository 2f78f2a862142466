"""Write shards on a Dask cluster, whose workers have the model and share the output folder."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from polyseme.bulk.job import Job
from polyseme.bulk.run import OnShard
from polyseme.bulk.shards import ShardResult, write_shard
from polyseme.bulk.sources import Shard
from polyseme.errors import CommandError

_SHARDS_AHEAD = 2
"""Maximum number of unfinished shards for each thread of a worker."""
_TIMEOUT = 60
"""Seconds to wait for the scheduler, and then for the first worker."""


def write_on_cluster(job: Job, shards: Iterable[Shard], on_shard: OnShard, *, address: str) -> None:
    """Write shards as Dask tasks; the scheduler gives the shards of a lost worker to another one.

    Raises CommandError if the scheduler or the workers fail, or if a row cannot be encoded.
    """
    import distributed

    dask: Any = distributed  # only partly typed
    remaining = iter(shards)
    with _connect(dask, address) as client:
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
            on_shard(_result(dask, future))
            future.release()


def _result(dask: Any, future: Any) -> ShardResult:
    try:
        result: ShardResult = future.result()
    except dask.KilledWorker:
        raise CommandError(
            "Workers die repeatedly while they write one shard, perhaps for lack of memory: use a"
            " smaller --batch-rows; finished shards are kept."
        ) from None
    except dask.CancelledError:
        raise CommandError(
            "The scheduler has disconnected: run again when it is available."
        ) from None
    return result


@contextmanager
def _connect(dask: Any, address: str) -> Iterator[Any]:
    try:
        client = dask.Client(address, timeout=_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError):
        raise CommandError(
            "The Dask scheduler does not respond: give its address to --scheduler, such as"
            " tcp://host:8786."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_TIMEOUT)
        except TimeoutError:
            raise CommandError("The scheduler has no workers: start some, and run again.") from None
        yield client
