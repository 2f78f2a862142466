"""Measure reliability: faults under load, hostile requests, and memory in ten minutes of requests.

    python benchmarks/reliability.py [--bounded] [--only soak]

The service is a gunicorn with two workers. The benchmark takes a quarter of an hour on an idle
machine. `--bounded` runs everything briefly, and `--only` one part; neither writes the results.
Results: results/reliability.json.
"""

import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import orjson
from record import record

sys.path.insert(0, str(Path(__file__).parents[1]))
from sentences import sentences
from tests.http.hostile import send_all
from tests.http.service import (
    Service,
    client_ports,
    load,
    memory,
    private_bytes,
    running,
)

SHARE = 0.8
"""The rate of the soak test, as a fraction of the measured capacity."""
CLIENTS = 4
MINUTE = 60


def reloads(folder: Path, times: int) -> dict[str, Any]:
    """Send SIGHUP under load."""
    with running(folder) as service, load(service) as clients:
        for _ in range(times):
            clients.go_on(20)
            service.reload()
        clients.go_on(20)
    return {"tried": times, "answered": clients.answered, "lost": len(clients.lost)}


def recycled(folder: Path, times: int) -> dict[str, Any]:
    """Replace workers after 100 requests."""
    with running(folder, max_requests=100) as service, load(service) as clients:
        clients.go_on(100 * times)
    return {"tried": times, "answered": clients.answered, "lost": len(clients.lost)}


def terminations(folder: Path, times: int) -> dict[str, Any]:
    """Send SIGTERM under load."""
    answered = lost = 0
    for number in range(times):
        (folder / str(number)).mkdir()
        with (
            running(folder / str(number), graceful_timeout=20, drain_seconds=1) as service,
            load(service) as clients,
        ):
            clients.go_on(100)
            service.signal(signal.SIGTERM)
            service.process.wait(MINUTE)
        answered, lost = answered + clients.answered, lost + len(clients.lost)
    return {"tried": times, "answered": answered, "lost": lost}


def kills(folder: Path, times: int) -> dict[str, Any]:
    """Kill workers; `lost` counts their requests. Raises SystemExit if another request is lost."""
    ports: set[int] = set()
    with running(folder) as service, load(service) as clients:
        for _ in range(times):
            clients.go_on(20)
            victim = service.workers()[0]
            os.kill(victim, signal.SIGSTOP)
            ports |= client_ports(service, victim)
            os.kill(victim, signal.SIGKILL)
            service.wait_for_workers(2, but={victim})
        clients.go_on(20)
    if {port for port, _ in clients.lost} - ports:
        raise SystemExit("A request of another worker was lost.")
    return {"tried": times, "answered": clients.answered, "lost": len(clients.lost)}


FAULTS: dict[str, tuple[Callable[[Path, int], dict[str, Any]], int, int]] = {
    "SIGHUP: models and keys are read again": (reloads, 60, 3),
    "workers are replaced after 100 requests": (recycled, 40, 2),
    "SIGTERM: the service ends": (terminations, 8, 1),
    "a worker is killed with -9": (kills, 40, 2),
}
"""The function of each fault, and its number of repetitions without and with `--bounded`."""


def hostile(folder: Path, number: int) -> dict[str, Any]:
    """Send the requests of `tests/http/hostile.py`; return statuses and private memory."""
    with running(folder) as service:
        workers = service.workers()
        outcome = send_all(service.address, 7, range(number // 2))
        warm = {pid: private_bytes(pid) for pid in workers}
        outcome.add(send_all(service.address, 7, range(number // 2, number)))
        if outcome.faults or service.workers() != workers:
            raise SystemExit(f"Hostile requests: {outcome.faults[:3] or 'a worker ended'}.")
        now = {pid: private_bytes(pid) for pid in workers}
    return {
        "sent": number,
        "statuses": dict(outcome.statuses),
        "kinds": len({kind.rpartition(" ")[0] for kind in outcome.kinds}),
        "grown_mb": round(max(now[pid] - warm[pid] for pid in workers) / 1e6, 1),
        "largest_mb": round(max(now.values()) / 1e6),
    }


def mixed() -> list[tuple[str, str, bytes | None, dict[str, str]]]:
    """Return requests of several kinds, as method, path, body and headers."""
    texts = [" ".join(words) for words in sentences([20] * 400, seed=5)]
    js, nd, npz = "application/json", "application/x-ndjson", "application/x-npz"
    apples = [{"text": "an apple a day", "word": "apple"}, {"text": "Apple sold", "word": "Apple"}]
    bodies: list[tuple[str, Any, str]] = [
        ("/v1/encode", {"input": texts[:8]}, js),
        ("/v1/encode", {"input": texts[:8], "encoding": "base64"}, js),
        ("/v1/encode", {"input": texts[:8]}, npz),
        ("/v1/encode", {"input": texts[:60], "include": ["contextual"]}, nd),
        ("/v1/compare", {"occurrences": apples}, js),
        ("/v1/trace", {"text": "the river bank"}, js),
        ("/v1/neighbors", {"word": "bank"}, js),
        ("/v1/embeddings", {"input": texts[:4], "model": "wiki-en"}, js),
        ("/v1/encode", {"input": 7}, js),
        *(("/v1/encode", {"input": text, "encoding": "base64"}, js) for text in texts),
    ]
    kinds = [
        ("POST", path, orjson.dumps(body), {"Content-Type": js, "Accept": accept})
        for path, body, accept in bodies
    ]
    return [*kinds, ("GET", "/v1/models", None, {}), ("GET", "/v1/encode", None, {})]


def soak(folder: Path, seconds: int) -> dict[str, Any]:
    """Send mixed requests at SHARE of the capacity, and sample the memory of all processes."""
    requests = mixed()
    with running(folder) as service:
        capacity = _send(service, requests, min(seconds, 20), 0)
        rate = SHARE * capacity[0] / min(seconds, 20)
        samples: list[tuple[float, float, float]] = []
        answered, lost = _send(service, requests, seconds, rate, samples)
    first, last = _mean(samples, MINUTE, MINUTE + 30), _mean(samples, seconds - 30, seconds)
    return {
        "seconds": seconds,
        "capacity": round(capacity[0] / min(seconds, 20)),
        "share": SHARE,
        "rate": round(answered / seconds),
        "answered": answered,
        "lost": lost,
        "growth_percent": round(100 * (last / first - 1), 2),
        "samples": samples[:: max(len(samples) // 150, 1)],
    }


def _mean(samples: list[tuple[float, float, float]], start: float, end: float) -> float:
    chosen = [own for second, _, own in samples if start <= second <= end] or [samples[-1][2]]
    return sum(chosen) / len(chosen)


def _send(
    service: Service,
    requests: list[tuple[str, str, bytes | None, dict[str, str]]],
    seconds: float,
    rate: float,
    samples: list[tuple[float, float, float]] | None = None,
) -> tuple[int, int]:
    """Send at a rate per second, or without limit if it is 0.

    Returns the number of responses, and of requests without a correct response.
    """
    began, counts, lost = time.monotonic(), [0] * CLIENTS, [0] * CLIENTS
    expected: dict[int, bytes] = {}

    def client(number: int) -> None:
        order = random.Random(number)  # noqa: S311 - not for secrets
        with httpx.Client(base_url=service.url, timeout=MINUTE) as http:
            while (now := time.monotonic() - began) < seconds:
                if rate and counts[number] > now * rate / CLIENTS:
                    time.sleep(0.005)
                    continue
                which = order.randrange(len(requests))
                method, path, body, headers = requests[which]
                try:
                    response = http.request(method, path, content=body, headers=headers)
                except httpx.HTTPError:
                    lost[number] += 1
                    continue
                counts[number] += 1
                lost[number] += _differs(response, which, expected)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for done in _seconds(began, seconds):
        if samples is not None:
            processes = [service.master, *service.workers()]
            pss = sum(memory(pid, "Pss") for pid in processes) / 1e6
            own = sum(memory(pid, "Pss_Anon") for pid in processes) / 1e6
            samples.append((round(done, 1), round(pss, 2), round(own, 2)))
    for thread in threads:
        thread.join()
    return sum(counts), sum(lost)


def _differs(response: httpx.Response, which: int, expected: dict[int, bytes]) -> bool:
    """Return whether a response is wrong.

    A success must equal the first one to the same request; an error must be a 405 or a 422.
    """
    if response.is_success:
        return expected.setdefault(which, response.content) != response.content
    return response.status_code not in {405, 422}


def _seconds(began: float, seconds: float) -> Iterator[float]:
    """Yield the elapsed time every two seconds, until the end."""
    for number in itertools.count(1):
        time.sleep(max(began + min(2 * number, seconds) - time.monotonic(), 0))
        if (now := time.monotonic() - began) >= seconds:
            return
        yield now


@click.command()
@click.option("--bounded", is_flag=True, help="Run everything briefly; write nothing.")
@click.option(
    "--only", type=click.Choice(["faults", "hostile", "soak"]), help="Run one part; write nothing."
)
def main(bounded: bool, only: str | None) -> None:
    """Run the benchmark."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if only in {None, "faults"}:
            results["fault"] = []
            for fault, (cause, full, few) in FAULTS.items():
                subfolder = folder / cause.__name__
                subfolder.mkdir()
                result = {"name": fault, **cause(subfolder, few if bounded else full)}
                results["fault"].append(result)
                click.echo(orjson.dumps(result).decode())
        if only in {None, "hostile"}:
            results["hostile"] = hostile(folder, 2_000 if bounded else 100_000)
            click.echo(orjson.dumps(results["hostile"]).decode())
        if only in {None, "soak"}:
            results["soak"] = soak(folder, 100 if bounded else 600)
            click.echo(orjson.dumps({**results["soak"], "samples": "…"}).decode())
    if not bounded and not only:
        record("reliability", ["gunicorn", "flask", "numpy", "pydantic"], results)


if __name__ == "__main__":
    main()
