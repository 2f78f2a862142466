"""Compare the estimated work of random requests of every route with the processor time they take.

    python benchmarks/work.py [--number 400] [--only encode]

Each request is sent to the application in this process, on one thread. Requests that take less than
5 ms are left out, because the estimate is made for limits of seconds. `--only` runs one route and
writes nothing. Results: results/work.json, which docs/reliability.md shows.
"""

import gc
import logging
import math
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click
import orjson
from record import record

sys.path.insert(0, str(Path(__file__).parents[1]))
from sentences import sentences

from polyseme import create_app
from polyseme.errors import InvalidError, TooLargeError
from polyseme.operations.options import PER_LAYER
from polyseme.settings import Settings

SEED = 1
OK = 200
LEAST = 5.0
"""Milliseconds; shorter requests are left out."""
FACTOR = 3.0
PARTS = ("static", "contextual", "features", *PER_LAYER)
Request = tuple[str, bytes, dict[str, str]]


class Words:
    """Random texts with random proportions of unknown words."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known = [
            word for one in sentences([40] * 1000, seed=SEED) for word in one if word.isalpha()
        ]

    def up_to(self, most: int) -> int:
        """Return a number of 1 to `most`; its logarithm is uniform."""
        return round(math.exp(self.rng.uniform(0, math.log(most))))

    def text(self, length: int, unknown: float) -> str:
        """Return a text of `length` words."""
        return " ".join(
            "".join(self.rng.choices("etaoinshrdlu", k=self.rng.randint(2, 24)))
            if self.rng.random() < unknown
            else self.rng.choice(self.known)
            for _ in range(length)
        )

    def texts(self, most: int = 2000, longest: int = 600) -> list[str]:
        """Return texts of like lengths."""
        length, unknown = self.up_to(longest), self.rng.random() ** 3
        return [
            self.text(max(1, round(length * self.rng.uniform(0.5, 1.5))), unknown)
            for _ in range(min(self.up_to(most), 40_000 // length + 1))
        ]


def encode(words: Words) -> Request:
    """Return a request of any format."""
    rng = words.rng
    body = {
        "input": words.texts(),
        "include": rng.sample(PARTS, rng.randint(1, 4)),
        "encoding": rng.choice(["float", "base64"]),
        "dtype": rng.choice(["float32", "float32", "float16"]),
        "heads": rng.choice(["all", "mean"]),
        "truncate": True,
    }
    accept = rng.choice(["application/json", "application/x-npz", "application/x-ndjson"])
    return "/v1/encode", orjson.dumps(body), {"Accept": accept}


def infer(words: Words) -> Request:
    """Return a request of the Open Inference Protocol."""
    texts = words.texts()
    outputs = words.rng.sample(["tokens", "static", "contextual", "attention"], 2)
    binary = words.rng.choice([True, False])
    body = {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}],
        "outputs": [{"name": one, "parameters": {"binary_data": binary}} for one in outputs],
        "parameters": {"truncate": True},
    }
    return "/v2/models/wiki-en/infer", orjson.dumps(body), {}


def embeddings(words: Words) -> Request:
    """Return a request for sentence vectors."""
    pooling = words.rng.choice(["sif", "mean", "informativeness"])
    form = words.rng.choice(["float", "base64"])
    body = {"input": words.texts(8000), "encoding_format": form, "pooling": pooling}
    return "/v1/embeddings", orjson.dumps({**body, "wordless": "zero"}), {}


def compare(words: Words) -> Request:
    """Return a comparison."""
    rng = words.rng
    length, unknown = words.up_to(600), rng.random()
    texts = [words.text(length, unknown) for _ in range(rng.randint(2, 64))]
    occurrences = [{"text": f"{text} bank", "word": "bank"} for text in texts]
    body = {
        "occurrences": occurrences,
        "neighbors": words.up_to(100),
        "map": rng.choice([True, False]),
    }
    return "/v1/compare", orjson.dumps(body), {}


def senses(words: Words) -> Request:
    """Return texts with few or many occurrences."""
    rng, most, texts = words.rng, words.up_to(200), words.texts(1000, 400)
    body = {
        "word": "bank",
        "texts": [f"bank {text}{' near the bank' * rng.randrange(most)}" for text in texts],
        "senses": rng.choice(["auto", 1, 2, 5, 20]),
        "neighbors": words.up_to(100),
        "map": rng.choice([True, False]),
    }
    return "/v1/senses", orjson.dumps(body), {}


def neighbors(words: Words) -> Request:
    """Return a search."""
    body = {"word": words.rng.choice(words.known), "k": words.up_to(1000)}
    return "/v1/neighbors", orjson.dumps(body), {}


def trace(words: Words) -> Request:
    """Return a trace of a text, or of given arrays."""
    rng = words.rng
    if rng.choice([True, False]):
        return "/v1/trace", orjson.dumps({"text": words.text(words.up_to(60), 0.1)}), {}
    n, heads, width = rng.randint(1, 64), rng.choice([1, 2, 4]), 4 * words.up_to(75)
    rows = [[round(rng.gauss(0, 1), 3) for _ in range(width)] for _ in range(n)]
    body = {"tokens": ["a"] * n, "embeddings": rows, "heads": heads}
    return "/v1/trace", orjson.dumps(body), {}


ROUTES: dict[str, Callable[[Words], Request]] = {
    one.__name__: one for one in (encode, infer, embeddings, compare, senses, neighbors, trace)
}


class WorkLog(logging.Handler):
    """The estimated work of the last request, from its log line."""

    work = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Read the field of the request's log line."""
        self.work = getattr(record, "fields", {}).get("work_ms", 0.0)


@click.command()
@click.option("--number", default=400, help="Requests of each route.")
@click.option("--only", type=click.Choice(list(ROUTES)), help="Run one route; write nothing.")
@click.option("--worst", default=0, help="Print so many of the worst estimates.")
def main(number: int, only: str | None, worst: int) -> None:
    """Run the benchmark."""
    client, log = create_app(Settings(max_work=1500)).test_client(), WorkLog()
    logger = logging.getLogger("polyseme.requests")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    found: dict[str, Any] = {}
    for name, make in ROUTES.items():
        if only not in {None, name}:
            continue
        words = Words(random.Random(f"{SEED} {name}"))  # noqa: S311 - not for secrets
        ratios: list[tuple[float, float, Request]] = []
        with click.progressbar(range(number), label=name, file=sys.stderr) as bar:
            for _ in bar:
                path, body, headers = make(words)
                gc.collect()  # the objects of the previous request
                start = time.process_time()
                response = client.post(
                    path, data=body, headers={"Content-Type": "application/json", **headers}
                )
                size = len(response.data)
                response.close()
                measured = 1000 * (time.process_time() - start)
                if response.status_code in {TooLargeError.status, InvalidError.status}:
                    continue  # over the limit, or more senses than occurrences
                if response.status_code != OK:
                    raise SystemExit(f"{path}: {response.data[:500]!r}")
                if size and measured >= LEAST:
                    ratios.append((log.work / measured, measured, (path, body[:300], headers)))
        values = [ratio for ratio, _, _ in ratios]
        within = sum(1 / FACTOR <= ratio <= FACTOR for ratio in values)
        found[name] = {
            "requests": len(values),
            "within": within,
            "median": round(median(values), 3),
            "p1_p99": [round(one, 3) for one in quantiles(values, n=100)[::98]],
            "least": round(min(values), 3),
            "most": round(max(values), 3),
        }
        click.echo(f"{name}: {orjson.dumps(found[name]).decode()}")
        for ratio, measured, request in sorted(ratios, key=lambda one: one[0])[:worst]:
            click.echo(f"  {ratio:.2f} of {measured:.0f} ms: {request}")
        for ratio, measured, request in sorted(ratios, key=lambda one: -one[0])[:worst]:
            click.echo(f"  {ratio:.2f} of {measured:.0f} ms: {request}")
    if not only:
        record("work", ["flask", "numpy", "orjson", "pydantic"], {"factor": FACTOR, "route": found})


if __name__ == "__main__":
    main()
