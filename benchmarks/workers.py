"""Which of gunicorn's workers, with how many threads, and what keeping connections is worth.

    python benchmarks/workers.py [--rounds 3] [--seconds 2] [--workers 2]

`/v1/encode` of 20 words in base64, from 8 and from 64 clients, on kept connections and on new ones;
and from 54 beside 10 that take two seconds to send a request. All kinds of worker are asked in
turn; the figures are medians. gevent and tornado would be new dependencies, and the worker for ASGI
does not run Flask. Results: results/workers.json.
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

OURS = "polyseme.server.worker.FairWorker"
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
    """How clients come."""

    connections: int
    kept: bool
    slow: int = 0
    """how many more are slow"""


CASES = {
    "8 kept": Case(8, kept=True),
    "8 new": Case(8, kept=False),
    "64 kept": Case(64, kept=True),
    "64 new": Case(64, kept=False),
    "54 kept, 10 slow": Case(64 - SLOW, kept=True, slow=SLOW),
}


def run(server: Running, bodies: Path, case: Case, seconds: int) -> tuple[Posted, int]:
    """One run, and how many requests of slow clients were answered."""
    posting = Posting(bodies, accept("base64"), case.connections, seconds, case.kept)
    body = bodies.read_bytes().splitlines()[0]
    with slow_clients(case.slow, f"{server.address}/v1/encode", body) as answered:
        # Slow clients send for two seconds: in the first of them none is answered anyhow.
        found = post(server, "/v1/encode", posting)
    return found, sum(line.endswith(b"200 OK") for line in answered)


def measured(
    servers: dict[str, Running], bodies: Path, rounds: int, seconds: int
) -> dict[str, dict[str, Any]]:
    """The medians of each case of each kind of worker."""
    runs: dict[tuple[str, str], list[tuple[Posted, int]]] = {}
    for _ in range(rounds):
        for case, how in CASES.items():
            for name, server in servers.items():
                # As long as a slow client needs, and as long again.
                some = max(seconds, 4) if how.slow else seconds
                runs.setdefault((name, case), []).append(run(server, bodies, how, some))
    found: dict[str, dict[str, Any]] = {name: {} for name in servers}
    for (name, case), some in runs.items():
        found[name][case] = middle([posted for posted, _ in some])
        if CASES[case].slow:
            found[name][case]["slow_answered"] = sum(answered for _, answered in some)
    return found


@click.command()
@click.option("--rounds", default=3)
@click.option("--seconds", default=2)
@click.option("--workers", default=2)
def main(rounds: int, seconds: int, workers: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        bodies = write_bodies(Path(folder))[20, "base64"]
        servers = {
            name: stack.enter_context(
                running(SERVICE, ("--worker-class", kind), workers=workers, threads=threads)
            )
            for name, (kind, threads) in KINDS.items()
        }
        found = measured(servers, bodies, rounds, seconds)
    for name, cases in found.items():
        rates = {case: round(figures["requests_per_second"]) for case, figures in cases.items()}
        click.echo(f"{name:<26} {rates}")
    about = {"workers": workers, "rounds": rounds, "seconds": seconds}
    record("workers", ["gunicorn", "flask"], {**about, "kinds": found})


if __name__ == "__main__":
    main()
