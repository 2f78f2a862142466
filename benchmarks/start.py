"""Measure the time of a start of `polyseme serve`.

    python benchmarks/start.py [--words 400000] [--width 100] [--rounds 7]

The service starts with a model of 400,000 words and with the bundled model, in turn. The times are
from exec to the first 200 of /readyz, and to the first encoded sentence; the files are in the page
cache. `reading` is the time to read a model in this process, with and without a comparison of the
checksums. Results: results/start.json.
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import click
from record import in_turn, medians, record, seconds
from serving import starting
from synthetic import import_synthetic

from polyseme.models.reader import bundled_models, read_model
from polyseme.settings import BUNDLED

SYNTHETIC = "synthetic"
WORKERS = 2


def times(models: Path, model: str) -> dict[str, float]:
    """Return the seconds from exec to readiness and to the first response."""
    began = time.perf_counter()
    with starting(models_dir=models, model=model, workers=WORKERS) as service:
        service.wait("GET", "/readyz")
        ready = time.perf_counter() - began
        service.wait("POST", "/v1/encode", {"input": "the of and"})
        return {"ready": ready, "response": time.perf_counter() - began}


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--rounds", default=7)
def main(words: int, width: int, rounds: int) -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        import_synthetic(models, words, width)
        folders = {BUNDLED: bundled_models() / BUNDLED, SYNTHETIC: models / SYNTHETIC}
        runs: dict[str, list[dict[str, float]]] = {model: [] for model in folders}
        for _ in range(rounds):
            for model, of_model in runs.items():
                of_model.append(times(models, model))
                click.echo(f"{model:<10} {of_model[-1]}")
        reading = {
            f"{model}, {name}": partial(seconds, partial(read_model, path, verify=verify))
            for model, path in folders.items()
            for name, verify in (("checked", True), ("unchecked", False))
        }
        read = medians(in_turn(reading, rounds))
    until = {
        model: medians({name: [run[name] for run in of_model] for name in of_model[0]})
        for model, of_model in runs.items()
    }
    about = {"words": words, "width": width, "workers": WORKERS, "rounds": rounds}
    results = {**about, "median_seconds_until": until, "reading_seconds": read}
    record("start", ["gunicorn", "flask", "numpy"], results)


if __name__ == "__main__":
    main()
