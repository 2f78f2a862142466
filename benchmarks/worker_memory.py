"""What each worker costs in memory: one, two and eight of them, under load and 10,000 requests on.

    python benchmarks/worker_memory.py [--words 400000] [--width 100] [--requests 10000]

A synthetic GloVe model is served; sentences of thirty of its words are posted. PSS and private
dirty memory are those of /proc/PID/smaps_rollup, summed over gunicorn's master and its workers.
Results: results/worker_memory.json.
"""

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import httpx
from record import record
from synthetic import words as synthetic_words
from synthetic import write_glove

ROOT = Path(__file__).parents[1]
PORT = 18_431
_CLIENTS = 8
_FIRST = 400


@contextmanager
def served(models: Path, model: str, workers: int) -> Iterator[int]:
    """Serve models; yield the id of gunicorn's master."""
    command = [sys.executable, "-m", "service", "serve", "--port", str(PORT), "--model", model]
    process = subprocess.Popen(  # noqa: S603 - a command of our own
        [*command, "--workers", str(workers), "--models-dir", str(models)],
        cwd=models,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        first_answer(model)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def first_answer(model: str) -> None:
    """Wait until a sentence is answered."""
    for _ in range(3000):
        try:
            body = {"input": "the of and", "model": model}
            reply = httpx.post(f"http://127.0.0.1:{PORT}/v1/encode", json=body, timeout=30)
            reply.raise_for_status()
        except httpx.TransportError:
            time.sleep(0.01)
        else:
            return
    raise SystemExit("The service did not start.")


def post(requests: int, vocabulary: list[str], seed: int) -> None:
    """Post sentences from several clients at once, each request on a connection of its own.

    A connection that is kept stays with one worker; new ones reach all of them.
    """

    def client(number: int) -> None:
        rng = random.Random(seed * _CLIENTS + number)  # noqa: S311 - no secret
        for _ in range(requests // _CLIENTS):
            body = {"input": " ".join(rng.sample(vocabulary, 30)), "encoding": "base64"}
            httpx.post(f"http://127.0.0.1:{PORT}/v1/encode", json=body).raise_for_status()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def memory(master: int) -> dict[str, float]:
    """PSS and private dirty memory of the master and its workers, in MB."""
    children = Path(f"/proc/{master}/task/{master}/children").read_text("ascii").split()
    totals = {"pss_mb": 0.0, "private_dirty_mb": 0.0}
    for pid in [str(master), *children]:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            name, *rest = line.split()
            if name in {"Pss:", "Private_Dirty:"}:
                key = "pss_mb" if name == "Pss:" else "private_dirty_mb"
                totals[key] += int(rest[0]) / 1000
    return {name: round(total, 1) for name, total in totals.items()}


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--requests", default=10_000)
def main(words: int, width: int, requests: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        write_glove(Path(folder) / "glove.txt", words, width)
        subprocess.run(  # noqa: S603 - a command of our own
            [
                *(sys.executable, "-m", "service", "models", "import", f"{folder}/glove.txt"),
                *("--models-dir", str(models)),
            ],
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        vocabulary = synthetic_words(words)
        found = {}
        for workers in (1, 2, 8):
            with served(models, "glove", workers) as master:
                post(_FIRST * workers, vocabulary, 1)
                early = memory(master)
                post(requests, vocabulary, 2)
                found[workers] = {"under_load": early, "later": memory(master)}
            click.echo(f"{workers} workers  {found[workers]}")
        record(
            "worker_memory",
            ["gunicorn", "flask", "numpy"],
            {
                "words": words,
                "width": width,
                "requests": requests,
                "workers": {str(workers): figures for workers, figures in found.items()},
                "each_further_worker_mb": {
                    when: {
                        kind: round((found[8][when][kind] - found[1][when][kind]) / 7, 1)
                        for kind in ("pss_mb", "private_dirty_mb")
                    }
                    for when in ("under_load", "later")
                },
            },
        )


if __name__ == "__main__":
    main()
