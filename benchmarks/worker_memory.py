"""Measure the memory of workers with one model, and of one with both bundled models.

    python benchmarks/worker_memory.py [--words 400000] [--width 100] [--requests 10000]

The service has a synthetic GloVe model, and clients post sentences of thirty of its words: 1, 2 and
8 workers after 400 requests each, and after 10,000 more in all. Then one worker has the bundled
models, and encodes 400 sentences of words of `wiki-en`, and as many with `wiki-en-deep`. PSS and
private dirty memory are from /proc/PID/smaps_rollup, summed over gunicorn's master and its workers.
Results: results/worker_memory.json.
"""

import tempfile
from pathlib import Path

import click
from processes import children, megabytes
from record import record
from sentences import bundled
from serving import import_synthetic, post, served
from synthetic import words as synthetic_words

_FIRST = 400
"""The number of requests per worker before the first measurement."""


def memory(master: int) -> dict[str, float]:
    """Return PSS and private dirty memory of the master and its workers, in MB."""
    pids = [master, *children(master)]
    return {
        f"{name.lower()}_mb": round(sum(megabytes(pid, name) for pid in pids), 1)
        for name in ("Pss", "Private_Dirty")
    }


def of_bundled(models: Path) -> dict[str, dict[str, float]]:
    """Return the memory of a service with `wiki-en`, and after requests to `wiki-en-deep` too."""
    vocabulary = list(map(bundled().vocabulary.word, range(20_000)))
    found = {}
    with served(models, "wiki-en", 1) as master:
        for model in ("wiki-en", "wiki-en-deep"):
            post(_FIRST, vocabulary, 1, model)
            found[model] = memory(master)
    return found


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--requests", default=10_000)
def main(words: int, width: int, requests: int) -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        import_synthetic(models, words, width)
        vocabulary = synthetic_words(words)
        by_workers = {}
        for workers in (1, 2, 8):
            with served(models, "synthetic", workers) as master:
                post(_FIRST * workers, vocabulary, 1)
                early = memory(master)
                post(requests, vocabulary, 2)
                by_workers[workers] = {"early": early, "later": memory(master)}
            click.echo(f"{workers} workers  {by_workers[workers]}")
        both = of_bundled(models)
        click.echo(both)
        record(
            "worker_memory",
            ["gunicorn", "flask", "numpy"],
            {
                "words": words,
                "width": width,
                "requests": requests,
                "workers": {str(workers): figures for workers, figures in by_workers.items()},
                "bundled": both,
                "each_further_worker_mb": {
                    when: {
                        kind: round((by_workers[8][when][kind] - by_workers[1][when][kind]) / 7, 1)
                        for kind in ("pss_mb", "private_dirty_mb")
                    }
                    for when in ("early", "later")
                },
            },
        )


if __name__ == "__main__":
    main()
