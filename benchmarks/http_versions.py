"""Compare requests with many sentences with those of another version, on real text.

    python benchmarks/http_versions.py --before OTHER [--rounds 5] [--seconds 4]

OTHER is the folder `service` of another checkout, such as that of `git worktree add OTHER COMMIT`.
Two workers of each version respond to wrk on 8 connections, in turn: single paragraphs of Simple
English Wikipedia of 8 to 60 words, or lists of 64. The figures are sentences per second, medians.
Results: results/http_versions.json.
"""

import tempfile
from collections import defaultdict
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import click
import orjson
from gunicorns import SERVICE, running
from record import medians, record
from sentences import paragraphs
from wrk import Posting, post

CASES: dict[str, tuple[int, dict[str, Any], str]] = {
    "1, base64": (1, {"include": ["contextual"], "encoding": "base64"}, "application/json"),
    "64, base64": (64, {"include": ["contextual"], "encoding": "base64"}, "application/json"),
    "64, npz, all": (64, {"include": ["static", "contextual", "attention"]}, "application/x-npz"),
}
"""Sentences of a request, its options, and the format of the response."""
TEXTS = 16_384


@click.command()
@click.option("--before", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--rounds", default=5)
@click.option("--seconds", default=4)
def main(before: Path, rounds: int, seconds: int) -> None:
    """Run the benchmark."""
    texts = list(islice(paragraphs(range(8, 61)), TEXTS))
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        limits = {"workers": 2, "max_answer_bytes": 1 << 30}
        servers = {
            "before": stack.enter_context(running(SERVICE, service=before.resolve(), **limits)),
            "now": stack.enter_context(running(SERVICE, **limits)),
        }
        for case, (count, options, accept) in CASES.items():
            bodies = Path(folder) / "bodies"
            lists = [texts[n : n + count] for n in range(0, len(texts), count)]
            lines = [orjson.dumps({"input": some, **options}) for some in lists]
            bodies.write_bytes(b"\n".join(lines) + b"\n")
            posting = Posting(bodies, accept, connections=8, seconds=seconds)
            rates: defaultdict[str, list[float]] = defaultdict(list)
            for _ in range(rounds):
                for name, server in servers.items():
                    posted = post(server, "/v1/encode", posting, shared=True)
                    if posted.errors or not posted.requests_per_second:
                        raise SystemExit(f"{case}, {name}: {posted}")
                    rates[name].append(posted.requests_per_second * count)
            found = medians(rates)
            ratio = round(found["now"] / found["before"], 3)
            results[case] = {"sentences_per_second": found, "ratio": ratio}
            click.echo(f"{case}: {results[case]}")
    about = {"workers": 2, "rounds": rounds, "seconds": seconds}
    record("http_versions", ["gunicorn", "flask", "numpy"], {**about, "cases": results})


if __name__ == "__main__":
    main()
