"""Measure the memory of workers with one model, and of one with both bundled models.

    python benchmarks/worker_memory.py [--words 400000] [--width 100] [--requests 10000]

The service has a synthetic GloVe model, and clients post sentences of thirty of its words: 1, 2 and
8 workers after 400 requests each, and after 10,000 more in all. Then one worker has the bundled
models, and encodes 400 sentences of words of `wiki-en`, and as many with `wiki-en-deep`. PSS and
private dirty memory are from /proc/PID/smaps_rollup, summed over gunicorn's master and its workers.
Results: results/worker_memory.json.
"""

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import httpx
from processes import megabytes
from record import record
from sentences import bundled
from serving import Running, running
from synthetic import import_synthetic
from synthetic import words as synthetic_words

_FIRST = 400
"""The number of requests per worker before the first measurement."""
_CLIENTS = 8


def post(service: Running, requests: int, vocabulary: list[str], model: str) -> None:
    """Post sentences for a model from several clients at the same time.

    A kept connection stays with one worker; new connections, one for each request, reach all.
    """
    rng = random.Random(requests)  # noqa: S311 - no secret
    texts = [" ".join(rng.sample(vocabulary, 30)) for _ in range(requests)]

    def send(text: str) -> None:
        body = {"input": text, "model": model, "encoding": "base64"}
        httpx.post(f"{service.address}/v1/encode", json=body, timeout=60).raise_for_status()

    with ThreadPoolExecutor(_CLIENTS) as clients:
        list(clients.map(send, texts))


def memory(service: Running) -> dict[str, float]:
    """Return PSS and private dirty memory of the master and its workers, in MB."""
    pids = [service.master, *service.workers()]
    return {
        f"{name.lower()}_mb": round(sum(megabytes(pid, name) for pid in pids), 1)
        for name in ("Pss", "Private_Dirty")
    }


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--requests", default=10_000)
def main(words: int, width: int, requests: int) -> None:
    """Run the benchmark."""
    results: dict[str, dict[str, dict[str, float]]] = {"early": {}, "later": {}, "bundled": {}}
    with tempfile.TemporaryDirectory() as folder:
        import_synthetic(Path(folder), words, width)
        for workers in (1, 2, 8):
            with running(models_dir=folder, model="synthetic", workers=workers) as service:
                post(service, _FIRST * workers, synthetic_words(words), "synthetic")
                results["early"][f"{workers} workers"] = memory(service)
                post(service, requests, synthetic_words(words), "synthetic")
                results["later"][f"{workers} workers"] = memory(service)
        with running(workers=1) as service:
            vocabulary = list(map(bundled().vocabulary.word, range(20_000)))
            for model in ("wiki-en", "wiki-en-deep"):
                post(service, _FIRST, vocabulary, model)
                results["bundled"][model] = memory(service)
    click.echo(results)
    about = {"words": words, "width": width, "requests": requests}
    record("worker_memory", ["gunicorn", "flask", "numpy"], {**about, **results})


if __name__ == "__main__":
    main()
