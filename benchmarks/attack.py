"""Search for the requests that take the service the most work, and measure what they do to it.

    python benchmarks/attack.py [--bounded] [--number 60]

A search on each route mutates the units of a text (Unicode classes, words, punctuation), their
repetitions, the numbers of words and texts, and the options of the route. It keeps the requests
that take the most processor time, in all and for each byte. The worst of each route, and those of
earlier attacks (`tests/http/expensive.py`), are then sent to a service with the default settings
and two workers: each alone, the worst sixteen times at once, and the largest responses eight times
at once. Last, hundreds of connections send nothing. Meanwhile, another process sends short requests
and probes on the port for them.
`--bounded` searches briefly, sends only what it finds, and writes nothing. Results:
results/attack.json.
"""

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from socket import create_connection
from typing import Any

import click
import httpx
import orjson
from processes import megabytes, reset_peaks
from record import record

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.conftest import free_port
from tests.http.expensive import EXPENSIVE, LARGEST, Expensive
from tests.http.service import Service, running

from polyseme import create_app
from polyseme.operations.schema import PER_LAYER
from polyseme.settings import Settings

SEED = 1
MAX_BODY = Settings().max_body_bytes
OK = 200
AT_ONCE = {"worst": 16, "largest": 8}
SILENT = (("100", 100, 0), ("500", 500, 0), ("1000", 1000, 0), ("50 a second", 1000, 0.02))
"""Silent connections: a name, their number, and the seconds between two."""
UNITS = {
    "word": ["bank ", "the ", "river near the bank "],
    "unknown": ["vbnrpx ", "unfriendlinesses ", "Xqzt"],
    "marks": ["a\u0301", "\u0316", "\u0301", "\u1e69\u0323", "\u0f73\u0f74"],
    "scripts": ["東", "가", "\u1100\u1161\u11a8", "б", "\u0645"],
    "growing": ["\ufb03", "\u0130", "ß", "\u0149"],
    "joined": ["a.b.", "xq.zj.", "n't", "a-", "a’", "1,", "1:", "a_"],
    "signs": ["! ", "!?", "…", "$1", "5kg ", "#a ", "@b ", "a+", "...", "--"],
    "symbols": ["👩\u200d💻", "🇩🇪", "👍🏽", "\u20e3"],
    "spaces": [" ", "\t", "\u2003", "\u200b", "\n"],
    "addresses": ["www.a.b/", "a@b.cd ", "http://x.y "],
}
ALL_UNITS = [unit for units in UNITS.values() for unit in units]
PARTS = ["static", "contextual", "features", *PER_LAYER]
LENGTHS = {"word": 1 << 20, "words": 1 << 18, "texts": 1 << 17}


@dataclass(frozen=True)
class Candidate:
    """A request before it is written."""

    route: str
    units: tuple[str, ...]
    word: int
    """repetitions of the units without white space"""
    words: int
    texts: int
    options: int
    """seed of the options"""

    def text(self, most: int) -> str:
        """Return a text of at most so many bytes."""
        word = "".join(self.units)
        word *= max(1, min(self.word, most // len(word.encode()) + 1))
        size = len(word.encode()) + 1
        return " ".join([word] * max(1, min(self.words, most // size)))

    def request(self) -> Expensive:
        """Return the request, whose body is within `max_body_bytes`."""
        rng = random.Random(self.options)  # noqa: S311 - not for secrets
        room = MAX_BODY - 4096
        text = self.text(room // 2)
        each = len(orjson.dumps(text)) + 64
        texts = [text] * max(1, min(self.texts, room // each))
        return Expensive(*ROUTES[self.route](rng, texts))

    def __str__(self) -> str:
        units = " ".join(ascii(unit)[1:-1] for unit in self.units)
        return f"{self.route}: {units} × {self.word} × {self.words} × {self.texts}"


def encode(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request with random options."""
    accept = rng.choice(["application/json", "application/x-npz", "application/x-ndjson"])
    body = {
        "input": [text.split() for text in texts] if rng.random() < PRETOKENIZED else texts,
        "include": rng.sample(PARTS, rng.randint(1, len(PARTS))),
        "truncate": rng.choice([True, True, False]),
        "oov": rng.choice(["zero", "subword", "error"]),
        "case": rng.choice(["auto", "lower", "exact"]),
        "phrases": rng.choice([True, False]),
        "encoding": rng.choice(["float", "base64"]),
        "heads": rng.choice(["all", "mean"]),
        "dtype": rng.choice(["float32", "float16"]),
    }
    return "/v1/encode", orjson.dumps(body), {"Accept": accept}


def embeddings(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request with random options."""
    pooling = rng.choice(["sif", "informativeness", "mean"])
    form, wordless = rng.choice(["float", "base64"]), rng.choice(["zero", "refuse"])
    body = {"input": texts, "pooling": pooling, "encoding_format": form, "wordless": wordless}
    return "/v1/embeddings", orjson.dumps(body), {}


def infer(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request with random options."""
    binary = {"binary_data_output": rng.choice([True, False]), "truncate": True}
    names = ["tokens", "offsets", "static", "contextual", "features", "attention"]
    outputs = [{"name": name} for name in rng.sample(names, rng.randint(1, len(names)))]
    tensor = {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}
    body = {"inputs": [tensor], "outputs": outputs, "parameters": binary}
    return "/v2/models/wiki-en/infer", orjson.dumps(body), {}


def compare(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request for random neighbors; each text has the word at its end."""
    # Different texts, because equal ones are encoded once.
    numbered = [f"{number} {text} bank" for number, text in enumerate(texts[:64])]
    occurrences = [{"text": text, "word": "bank"} for text in numbered] * (1 if texts[1:] else 2)
    k, with_map = rng.choice([0, 5, 100]), rng.choice([True, False])
    body = {"occurrences": occurrences, "neighbors": k, "map": with_map}
    return "/v1/compare", orjson.dumps(body), {}


def senses(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request with random options for a word that may be anywhere in the texts."""
    word = rng.choice(["bank", "the", texts[0].split()[0] if texts[0].split() else "a"])
    body: dict[str, Any] = {
        "senses": rng.choice(["auto", 1, 2, 20]),
        "neighbors": rng.choice([0, 5, 100]),
        "keywords": rng.choice([0, 100]),
        "map": rng.choice([True, False]),
        "phrases": rng.choice([True, False]),
    }
    if rng.random() < GIVEN:
        body["occurrences"] = [{"text": f"{text} bank", "word": "bank"} for text in texts]
    else:
        body |= {"word": word, "texts": [f"{text} {word}" for text in texts]}
        body["forms"] = rng.choice([[], [f"a{number}" for number in range(64)]])
    return "/v1/senses", orjson.dumps(body), {}


def neighbors(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request for a word of any length, or for a vector."""
    k = rng.choice([1, 10, 1000])
    word = {"vector": [0.5] * 300} if rng.random() < GIVEN else {"word": " ".join(texts) or "a"}
    return "/v1/neighbors", orjson.dumps({**word, "k": k}), {}


def trace(rng: random.Random, texts: list[str]) -> tuple[str, bytes, dict[str, str]]:
    """Return a request for a text, or for arrays that are as large as their number of texts."""
    if rng.random() < GIVEN:
        return "/v1/trace", orjson.dumps({"text": texts[0], "layer": 0}), {}
    n, heads = min(len(texts), 64), rng.choice([1, 2, 8])
    width = heads * rng.choice([1, 8, 64, 512])
    rows = [[1 / (i + j + 1) for i in range(width)] for j in range(n)]
    body = {"tokens": ["a"] * n, "embeddings": rows, "heads": heads}
    return "/v1/trace", orjson.dumps(body), {}


PRETOKENIZED, GIVEN = 0.3, 0.4
ROUTES: dict[str, Callable[[random.Random, list[str]], tuple[str, bytes, dict[str, str]]]] = {
    make.__name__: make for make in (encode, embeddings, infer, compare, senses, neighbors, trace)
}


def drawn(rng: random.Random, route: str) -> Candidate:
    """Draw a candidate; the logarithms of its lengths are uniform."""
    word, words, texts = (round(most ** rng.random()) for most in LENGTHS.values())
    units = tuple(rng.choices(ALL_UNITS, k=rng.choice([1, 1, 2, 3])))
    return Candidate(route, units, word, words, texts, rng.randrange(1 << 30))


def mutated(rng: random.Random, candidate: Candidate) -> Candidate:
    """Change one or two properties of a candidate."""
    other = drawn(rng, candidate.route)
    for name in rng.sample(["units", "word", "words", "texts", "options"], rng.choice([1, 2])):
        value = getattr(other, name)
        if isinstance(value, int) and name != "options" and rng.choice([True, False]):
            value = max(1, round(getattr(candidate, name) * rng.choice([0.5, 0.8, 1.25, 2])))
        candidate = replace(candidate, **{name: value})
    return candidate


@dataclass(frozen=True)
class Measured:
    """A request and what it took."""

    candidate: Candidate
    seconds: float
    """processor time"""
    status: int
    bytes: int


def search(client: Any, route: str, number: int) -> Iterator[Measured]:
    """Yield every request of a search."""
    rng = random.Random(f"{SEED} {route}")  # noqa: S311 - not for secrets
    measured: list[Measured] = []
    for count in range(number):
        if count < number // 3 or not measured:
            candidate = drawn(rng, route)
        else:
            by_seconds = sorted(measured, key=lambda sent: -sent.seconds)
            by_bytes = sorted(measured, key=lambda sent: -sent.seconds / (sent.bytes + 4096))
            refused = [sent for sent in by_seconds if sent.status != OK]
            worst = [*by_seconds[:4], *by_bytes[:3], *refused[:3]]
            candidate = mutated(rng, rng.choice(worst).candidate)
        path, body, headers = candidate.request()
        start = time.process_time()
        response = client.post(
            path, data=body, headers={"Content-Type": "application/json", **headers}
        )
        for _ in response.iter_encoded():
            pass
        response.close()
        seconds = time.process_time() - start
        measured.append(Measured(candidate, seconds, response.status_code, len(body)))
        yield measured[-1]


def processor_seconds(pids: list[int]) -> float:
    """Return the processor time of processes."""
    stats = (Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2] for pid in pids)
    ticks = sum(int(ticks) for stat in stats for ticks in stat.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak(pids: list[int]) -> float:
    """Return the largest peak of the resident memory of a process since `reset_peaks`, in MB."""
    return max(megabytes(pid, "VmHWM") for pid in pids)


def send(service: Service, request: Expensive) -> httpx.Response:
    """Send a request on a connection of its own."""
    headers = {"Content-Type": "application/json", **request.headers}
    with httpx.Client(base_url=service.url, timeout=120) as client:
        return client.post(request.path, content=request.body, headers=headers)


def alone(service: Service, request: Expensive) -> dict[str, Any]:
    """Send one request; return its status, processor time, peak memory and response bytes."""
    workers = service.workers()
    reset_peaks(workers)
    idle, before = peak(workers), processor_seconds(workers)
    response = send(service, request)
    if service.workers() != workers:
        raise SystemExit(f"A worker ended: {request.path}, {request.body[:300]!r}.")
    return {
        "path": request.path,
        "bytes": len(request.body),
        "status": response.status_code,
        "code": None if response.is_success else response.json()["code"],
        "seconds": round(processor_seconds(workers) - before, 2),
        "peak_mb": round(peak(workers) - idle),
        "response_mb": round(len(response.content) / 1e6, 2),
    }


def other_client(url: str, admin: str) -> None:
    """Send short requests and probes until standard input ends; print the longest times."""
    longest = {"other": 0.0, "probe": 0.0}
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while not ended.is_set():
        for name, call in (
            ("other", lambda: httpx.post(f"{url}/v1/encode", json={"input": "a"}, timeout=120)),
            ("probe", lambda: httpx.get(f"{admin}/livez", timeout=120)),
        ):
            start = time.monotonic()
            call().raise_for_status()
            longest[name] = max(longest[name], time.monotonic() - start)
        time.sleep(0.02)
    click.echo(orjson.dumps(longest))


@contextmanager
def beside_another_client(service: Service, admin: str) -> Iterator[dict[str, float]]:
    """Run another client during the block; yield its longest times, which are known at the end."""
    command = [sys.executable, __file__, "--other-client", f"{service.url} {admin}"]
    longest: dict[str, float] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        time.sleep(1)
        yield longest
        longest.update(orjson.loads(process.communicate()[0]))


def at_once(service: Service, requests: Sequence[Expensive], admin: str) -> dict[str, Any]:
    """Send requests at the same time; return statuses, memory, and the times of another client."""
    statuses: list[int] = []

    def attack(request: Expensive) -> None:
        with suppress(httpx.HTTPError):
            statuses.append(send(service, request).status_code)

    workers = service.workers()
    reset_peaks(workers)
    idle = [peak([worker]) for worker in workers]
    threads = [threading.Thread(target=attack, args=(request,)) for request in requests]
    with beside_another_client(service, admin) as longest:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    peaks = [peak([worker]) for worker in workers]
    return {
        "requests": len(requests),
        "statuses": {str(status): count for status, count in sorted(Counter(statuses).items())},
        "longest_probe_seconds": round(longest["probe"], 2),
        "longest_other_seconds": round(longest["other"], 2),
        "peak_mb": round(sum(peaks) - sum(idle)),
    }


def silence(service: Service, admin: str) -> dict[str, float]:
    """Open connections that send nothing; return the longest times of another client."""
    longest = {}
    for name, count, pause in SILENT:
        with beside_another_client(service, admin) as seconds:
            connections = []
            for _ in range(count):
                connections.append(create_connection(service.address))
                time.sleep(pause)
            time.sleep(2)
        longest[name] = round(seconds["other"], 2)
        for connection in connections:
            connection.close()
    return longest


@click.command()
@click.option("--number", default=60, help="Requests of the search on each route.")
@click.option("--bounded", is_flag=True, help="Search briefly; write nothing.")
@click.option("--other-client", "addresses", hidden=True)
def main(number: int, bounded: bool, addresses: str | None) -> None:
    """Run the attack."""
    if addresses:
        other_client(*addresses.split())
        return
    client = create_app().test_client()
    number = 6 if bounded else number
    requests = {} if bounded else dict(EXPENSIVE)
    for route in ROUTES:
        sent = search(client, route, number)
        with click.progressbar(sent, length=number, label=route, file=sys.stderr) as bar:
            measured = sorted(bar, key=lambda sent: -sent.seconds)
        accepted = [sent.candidate for sent in measured if sent.status == OK][:2]
        refused = [sent.candidate for sent in measured if sent.status != OK][:1]
        requests |= {str(candidate): candidate.request() for candidate in accepted + refused}
    results: dict[str, Any] = {"searched": number, "request": {}}
    port = free_port()
    admin = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as name, running(Path(name), admin_port=port) as service:
        for label, request in requests.items():
            results["request"][label] = alone(service, request)
            click.echo(orjson.dumps({"request": label, **results["request"][label]}))
        if bounded:
            return
        by_seconds = sorted(requests, key=lambda label: -results["request"][label]["seconds"])
        for kind, labels in (("worst", by_seconds[:4]), ("largest", LARGEST)):
            chosen = [requests[labels[n % len(labels)]] for n in range(AT_ONCE[kind])]
            results[kind] = at_once(service, chosen, admin)
            click.echo(f"{kind}: {orjson.dumps(results[kind]).decode()}")
        results["silent"] = silence(service, admin)
        click.echo(f"silent: {results['silent']}")
    record("attack", ["gunicorn", "flask", "numpy", "pydantic"], results)


if __name__ == "__main__":
    main()
