"""How long `polyseme serve` takes to its first answer: 400,000 words beside the bundled model.

    python benchmarks/start.py [--words 400000] [--width 100] [--rounds 7]

Started in turn. Both files are in the page cache; checksums are compared and every number is looked
at, as by default. Results: results/start.json.
"""

import tempfile
import time
from pathlib import Path

import click
from record import medians, record
from serving import import_synthetic, served


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--rounds", default=7)
def main(words: int, width: int, rounds: int) -> None:
    """Measure."""
    seconds: dict[str, list[float]] = {"wiki-en": [], "synthetic": []}
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        import_synthetic(models, words, width)
        for _ in range(rounds):
            for model, measured in seconds.items():
                started = time.perf_counter()
                with served(models, model, workers=2):
                    measured.append(round(time.perf_counter() - started, 3))
                click.echo(f"{model:<10} {measured[-1]:.2f} s")
    middle = medians(seconds)
    record(
        "start",
        ["gunicorn", "flask", "numpy"],
        {
            "words": words,
            "width": width,
            "median_seconds": middle,
            "difference_seconds": round(middle["synthetic"] - middle["wiki-en"], 3),
            "seconds": seconds,
        },
    )


if __name__ == "__main__":
    main()
