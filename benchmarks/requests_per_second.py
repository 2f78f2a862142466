"""Measure the requests per second of the service, compared with a bare Flask route.

    python benchmarks/requests_per_second.py [--rounds 7] [--seconds 3] [--workers 2]
        [--connections 16]

The service responds to `/v1/encode` with static vectors, contextual vectors and attention; the bare
route reads the same bodies and returns a prepared response of median size. Both run in gunicorn
with the configuration of the service, and wrk posts sentences to them in turn (A B A B …). A run in
which a worker has less than half of its share of the connections is repeated, because that worker
would often be idle. The figures are medians. Results: results/requests_per_second.json.
"""

import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx
import orjson
from record import in_turn, median_row, record
from sentences import sentences
from wrk import Posted, Posting, post

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.http.service import Service, running

BARE = Path(__file__).with_name("bare.py")
LENGTHS = (10, 20, 50, 200)
KINDS = {
    "base64": ("base64", "application/json"),
    "npz": ("float", "application/x-npz"),
    "json": ("float", "application/json"),
}
"""The field `encoding` and the media type of each format of responses."""
DIFFERENT = 2000
"""The number of bodies of each length. From 20 words on, they exceed the tokenizer's cache."""
TYPICAL = 50
"""The number of responses from which the one of median size is chosen for the bare route."""


def write_bodies(folder: Path) -> dict[tuple[int, str], Path]:
    """Write a file for each length and format, with a body in each line."""
    files = {}
    for length in LENGTHS:
        texts = [" ".join(words) for words in sentences([length] * DIFFERENT)]
        for kind, (encoding, _) in KINDS.items():
            bodies = [orjson.dumps({"input": text, "encoding": encoding}) for text in texts]
            files[length, kind] = folder / f"{length}-{kind}"
            files[length, kind].write_bytes(b"\n".join(bodies) + b"\n")
    return files


def typical(address: str, bodies: Path, kind: str) -> bytes:
    """Return the response of median size among the responses to the first bodies."""
    headers = {"Accept": KINDS[kind][1], "Content-Type": "application/json"}
    responses = []
    for body in bodies.read_bytes().splitlines()[:TYPICAL]:
        reply = httpx.post(f"{address}/v1/encode", content=body, headers=headers, timeout=60)
        responses.append(reply.raise_for_status().content)
    return sorted(responses, key=len)[len(responses) // 2]


def runs_of(
    servers: dict[str, tuple[Service, str]], posting: Posting, rounds: int
) -> dict[str, list[Posted]]:
    """Return the runs of each server, which alternate after one short run of each."""

    def run(server: Service, path: str) -> Posted:
        posted = post(server, path, posting)
        if posted.errors or not posted.requests_per_second:
            raise SystemExit(f"{posted.errors} requests failed, or there were no responses.")
        return posted

    for server, path in servers.values():
        post(server, path, replace(posting, seconds=1))
    return in_turn({name: partial(run, *server) for name, server in servers.items()}, rounds)


def figures(runs: dict[str, list[Posted]]) -> dict[str, Any]:
    """Return the medians of both servers, the ratio of their rates, and the rate of each run."""
    both = {n: median_row([run._asdict() for run in each], 2) for n, each in runs.items()}
    ratio = both["service"]["requests_per_second"] / both["bare"]["requests_per_second"]
    rates = {
        name: [round(run.requests_per_second) for run in of_server]
        for name, of_server in runs.items()
    }
    return {**both, "ratio": round(ratio, 3), "runs": rates}


@click.command()
@click.option("--rounds", default=7)
@click.option("--seconds", default=3)
@click.option("--workers", default=2)
@click.option("--connections", default=16)
def main(rounds: int, seconds: int, workers: int, connections: int) -> None:
    """Run the benchmark."""
    by_length: dict[str, dict[str, Any]] = {str(length): {} for length in LENGTHS}
    with (
        tempfile.TemporaryDirectory() as requests,
        tempfile.TemporaryDirectory() as responses,
        tempfile.TemporaryDirectory() as logs,
        running(Path(logs), workers=workers) as service,
    ):
        files = write_bodies(Path(requests))
        for (_, kind), bodies in files.items():
            response = typical(service.url, bodies, kind)
            Path(responses, bodies.name).write_bytes(response)
        command = [sys.executable, BARE, responses]
        with running(Path(requests), command, workers=workers) as bare:
            for (length, kind), bodies in files.items():
                both = {"service": (service, "/v1/encode"), "bare": (bare, f"/{bodies.name}")}
                posting = Posting(bodies, KINDS[kind][1], connections, seconds)
                result = figures(runs_of(both, posting, rounds))
                size = Path(responses, bodies.name).stat().st_size
                by_length[str(length)][kind] = {"answer_bytes": size, **result}
                click.echo(f"{length:>4} words, {kind:<7} ratio {result['ratio']}")
    about = {"workers": workers, "connections": connections, "rounds": rounds, "seconds": seconds}
    packages = ["gunicorn", "flask", "numpy", "orjson", "pydantic"]
    record("requests_per_second", packages, {**about, "words": by_length})


if __name__ == "__main__":
    main()
