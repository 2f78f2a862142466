"""Measure the memory of a worker and the time per sentence, for large and small batches.

    python benchmarks/streams.py [--rounds 3]

A batch of 1,000 or 10,000 sentences of 5 to 30 words is posted to `/v1/encode` of a new service,
after a batch of 100. The figures are the peak memory of the worker (`VmHWM`) and the time per
sentence, compared with batches of 100. Results: results/streams.json.
"""

import time
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
import orjson
from gunicorns import SERVICE, Running, running
from processes import megabytes
from record import median_row, record
from sentences import lengths, sentences

JSON, NDJSON, NPZ = "application/json", "application/x-ndjson", "application/x-npz"
COUNTS, SMALL = (1_000, 10_000), 100
LONGEST = 30
"""Maximum number of words; the response of 10,000 longer ones exceeds the largest limit."""
REPEATED = 10
"""The number of small batches."""
LIMITS = {
    "workers": 1,
    "timeout": 600,
    "max_sentences": 20_000,
    "max_tokens": 1_000_000,
    "max_body_bytes": 16 << 20,
    "max_answer_bytes": 1 << 32,
    "max_work": 3_600_000,
    "request_seconds": 600,
}


class Kind(NamedTuple):
    """The formats of a request and its response."""

    query: str
    sent: str
    accept: str


KINDS = {
    "npz": Kind("", JSON, NPZ),
    "NDJSON, base64": Kind("?encoding=base64", NDJSON, NDJSON),
    "NDJSON": Kind("", NDJSON, NDJSON),
    "JSON": Kind("", JSON, JSON),
}


def body(texts: Sequence[str], kind: Kind) -> bytes:
    """Return the body of a request for sentences."""
    if kind.sent == NDJSON:
        return b"".join(orjson.dumps(text) + b"\n" for text in texts)
    return orjson.dumps({"input": texts})


def post(server: Running, texts: Sequence[str], kind: Kind) -> tuple[float, int]:
    """Post sentences and discard the response; return its seconds and bytes."""
    connection = HTTPConnection(urlsplit(server.address).netloc, timeout=600)
    headers = {"Content-Type": kind.sent, "Accept": kind.accept}
    buffer, size, began = bytearray(1 << 20), 0, time.perf_counter()
    connection.request("POST", f"/v1/encode{kind.query}", body(texts, kind), headers)
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"A batch was rejected: {response.read()[:300]!r}")
    while read := response.readinto(buffer):
        size += read
    took = time.perf_counter() - began
    connection.close()
    return took, size


def large(texts: Sequence[str], kind: Kind) -> dict[str, float]:
    """Post one batch to a new service; return time and memory."""
    with running(SERVICE, **LIMITS) as server:
        post(server, texts[:SMALL], kind)
        before = megabytes(*server.workers(), "VmHWM")
        took, size = post(server, texts, kind)
        return {
            "milliseconds_a_sentence": took / len(texts) * 1e3,
            "answer_mb": size / 1e6,
            "peak_before_mb": before,
            "peak_mb": megabytes(*server.workers(), "VmHWM"),
        }


def small(texts: Sequence[str], kind: Kind) -> dict[str, float]:
    """Post batches of 100 to a new service; return time and memory."""
    with running(SERVICE, **LIMITS) as server:
        post(server, texts[:SMALL], kind)
        batches = [texts[i * SMALL : (i + 1) * SMALL] for i in range(REPEATED)]
        took = sum(post(server, batch, kind)[0] for batch in batches)
        return {
            "milliseconds_a_sentence": took / REPEATED / SMALL * 1e3,
            "peak_mb": megabytes(*server.workers(), "VmHWM"),
        }


@click.command()
@click.option("--rounds", default=3)
def main(rounds: int) -> None:
    """Run the benchmark."""
    of_lengths = sentences(min(length, LONGEST) for length in lengths(max(COUNTS)))
    texts = [" ".join(words) for words in of_lengths]
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for name, kind in KINDS.items():
            for count in (SMALL, *COUNTS):
                run = small(texts, kind) if count == SMALL else large(texts[:count], kind)
                runs.setdefault((name, count), []).append(run)
                click.echo(f"{name:<15} {count:>6} sentences {run}")
    kinds: dict[str, dict[str, Any]] = {name: {} for name in KINDS}
    for (name, count), of_count in runs.items():
        kinds[name][str(count)] = median_row(of_count, 3)
    few, many = map(str, COUNTS)
    for counts in kinds.values():
        counts["ratio_of_peaks"] = round(counts[many]["peak_mb"] / counts[few]["peak_mb"], 3)
    record("streams", ["gunicorn", "flask", "numpy"], {"rounds": rounds, "kinds": kinds})


if __name__ == "__main__":
    main()
