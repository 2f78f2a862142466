"""Compare gunicorn's worker classes, by number of threads, with kept and new connections.

    python benchmarks/workers.py [--rounds 3] [--seconds 2] [--workers 2]

8 or 64 clients post 20 words to `/v1/encode` for base64, on kept or on new connections; or 54
clients do so on kept connections while 10 others take two seconds to send each request. The worker
classes run in turn; the figures are medians. gevent and tornado are left out, because they would be
new dependencies, and the ASGI worker, because it does not run Flask. Results: results/workers.json.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click
from gunicorns import SERVICE, Running, running
from record import record
from requests_per_second import accept, write_bodies
from slow_clients import slow_clients
from wrk import Posted, Posting, middle, post

OURS = "polyseme.http.worker.QueueWorker"
KINDS = {
    "sync": ("sync", 1),
    "gthread, 1 thread": ("gthread", 1),
    "gthread, 2 threads": ("gthread", 2),
    "gthread, 4 threads": ("gthread", 4),
    "gthread, 8 threads": ("gthread", 8),
    "the service's, 1 thread": (OURS, 1),
    "the service's, 4 threads": (OURS, 4),
}
SLOW = 10


class Case(NamedTuple):
    """The numbers of clients, and whether connections are kept."""

    connections: int
    kept: bool
    slow: int = 0
    """number of additional slow clients"""


CASES = {
    "8 kept": Case(8, kept=True),
    "8 new": Case(8, kept=False),
    "64 kept": Case(64, kept=True),
    "64 new": Case(64, kept=False),
    "54 kept, 10 slow": Case(64 - SLOW, kept=True, slow=SLOW),
}


def run(server: Running, bodies: Path, case: Case, seconds: int) -> tuple[Posted, int]:
    """Run a case once; return the result and the number of 200 responses to slow clients."""
    posting = Posting(bodies, accept("base64"), case.connections, seconds, case.kept)
    body = bodies.read_bytes().splitlines()[0]
    with slow_clients(case.slow, f"{server.address}/v1/encode", body) as answered:
        posted = post(server, "/v1/encode", posting)
    return posted, sum(line.endswith(b"200 OK") for line in answered)


def measured(
    servers: dict[str, Running], bodies: Path, rounds: int, seconds: int
) -> dict[str, dict[str, Any]]:
    """Return the medians of each case for each worker class."""
    runs: dict[tuple[str, str], list[tuple[Posted, int]]] = {}
    for _ in range(rounds):
        for case, how in CASES.items():
            for name, server in servers.items():
                # A slow client needs two seconds to send a request.
                duration = max(seconds, 4) if how.slow else seconds
                runs.setdefault((name, case), []).append(run(server, bodies, how, duration))
    figures: dict[str, dict[str, Any]] = {name: {} for name in servers}
    for (name, case), of_case in runs.items():
        figures[name][case] = middle([posted for posted, _ in of_case])
        if CASES[case].slow:
            figures[name][case]["slow_answered"] = sum(answered for _, answered in of_case)
    return figures


@click.command()
@click.option("--rounds", default=3)
@click.option("--seconds", default=2)
@click.option("--workers", default=2)
def main(rounds: int, seconds: int, workers: int) -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bodies = write_bodies(Path(folder))[20, "base64"]
        servers = {
            name: stack.enter_context(
                running(SERVICE, ("--worker-class", kind), workers=workers, threads=threads)
            )
            for name, (kind, threads) in KINDS.items()
        }
        kinds = measured(servers, bodies, rounds, seconds)
    for name, cases in kinds.items():
        rates = {case: round(figures["requests_per_second"]) for case, figures in cases.items()}
        click.echo(f"{name:<26} {rates}")
    about = {"workers": workers, "rounds": rounds, "seconds": seconds}
    record("workers", ["gunicorn", "flask"], {**about, "kinds": kinds})


if __name__ == "__main__":
    main()
