"""Measure the time of an import, compared with gensim's load of the same file.

    python benchmarks/importing.py [--words 400000] [--width 100] [--rounds 3]

The load and the import run in turn. gensim loads the file into memory; the import also checks every
row, computes weights, fits subwords, writes the model and reads it back. Results:
results/importing.json.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from record import medians, record
from synthetic import write_glove

_GENSIM = (
    "import sys; from gensim.models import KeyedVectors;"
    "KeyedVectors.load_word2vec_format(sys.argv[1], no_header=True)"
)


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--rounds", default=3)
def main(words: int, width: int, rounds: int) -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        file, models = Path(folder) / "glove.txt", Path(folder) / "models"
        write_glove(file, words, width)
        imported = [sys.executable, "-m", "polyseme", "models", "import", str(file), "--replace"]
        imported += ["--name", "glove", "--models-dir", str(models)]
        commands = {"gensim": [sys.executable, "-c", _GENSIM, str(file)], "import": imported}
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        memory: dict[str, float] = {}
        for _ in range(rounds):
            for name, command in commands.items():
                took, peak = _run(command)
                seconds[name].append(took)
                memory[name] = max(memory.get(name, 0), peak)
                click.echo(f"{name:<22} {took:6.1f} s  {peak:6.0f} MB")
        middle = medians(seconds)
        results = {
            "words": words,
            "width": width,
            "file_mb": round(file.stat().st_size / 1e6, 1),
            "median_seconds": middle,
            "ratio_to_gensim": {n: round(s / middle["gensim"], 2) for n, s in middle.items()},
            "largest_process_mb": {name: round(peak) for name, peak in memory.items()},
            "seconds": seconds,
        }
    record("importing", ["gensim", "numpy"], results)


def _run(command: list[str]) -> tuple[float, float]:
    """Run a command; return its seconds and the peak memory in MB of its largest process."""
    started = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)  # noqa: S603 - our own commands
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"A command failed: {' '.join(command)}")
    return time.perf_counter() - started, used.ru_maxrss * 1.024e-3


if __name__ == "__main__":
    main()
