"""What gunicorn's hooks do for the metrics and the traces: processes come and go (`serving.py`)."""

from typing import Any

from polyseme.http.shares import shares


def open_shares(workers: int) -> None:
    """Make room for what the processes count; before any metric is made."""
    shares.open(workers)


def prepare(server: Any, worker: Any) -> None:
    """In the master, before a worker is forked: its files, and every metric there can be."""
    from polyseme.http import metrics, tally  # noqa: PLC0415 - not before `open_shares`

    shares.give(worker)
    metrics.touch(server.app.wsgi())
    tally.STARTS.inc()


def begin(worker: Any) -> None:
    """In a worker that begins."""
    from polyseme.http import spans, tally  # noqa: PLC0415 - as above
    from polyseme.http.ledger import ledger  # noqa: PLC0415

    shares.take(worker)
    tally.begin()
    ledger.patient = worker.log.patient = True
    spans.start(worker.app.wsgi())


def end(worker: Any) -> None:
    """In the master, after a worker has ended."""
    shares.free(worker)


def flush(worker: Any) -> None:
    """In a worker that ends."""
    from polyseme.http import spans  # noqa: PLC0415 - as above

    settle(worker)
    spans.flush(worker.app.wsgi())


def settle(worker: Any) -> None:
    """In a worker's loop: count and log the requests that are over."""
    from polyseme.http import tally  # noqa: PLC0415 - as above
    from polyseme.http.ledger import ledger  # noqa: PLC0415

    tally.IN_PROGRESS.set(worker.traffic.in_progress)
    tally.CONNECTIONS.set(len(worker.traffic.connections))
    ledger.settle()
    worker.log.settle()
