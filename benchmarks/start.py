"""Measure the time of a start of `polyseme serve`, by stage.

    python benchmarks/start.py [--words 400000] [--width 100] [--rounds 7]

The service starts with a model of 400,000 words and with the bundled model, in turn. The time is
from exec to the first 200 of /readyz, and to the first encoded sentence; lines on standard error
mark the stages. Checksums and all values are checked, as by default, and the files are in the page
cache. `imports` has the time of each distribution, measured with `-X importtime`, which slows
imports down, and the reason for the import. Results: results/start.json.
"""

import subprocess
import tempfile
import time
from collections import Counter
from functools import partial
from importlib.metadata import packages_distributions
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any

import click
from record import in_turn, medians, record, seconds
from serving import PORT, import_synthetic, starting, wait_for_response

from polyseme.models.reader import bundled_models, read_model
from polyseme.settings import BUNDLED

SYNTHETIC = "synthetic"
WORKERS = 2
STAGES = {
    "command": "polyseme: http://",
    "models": "Starting gunicorn",
    "workers": "Booting worker",
}
"""The output that ends each stage: the command line, gunicorn and the models, the first fork."""
MARK = "import time:"
WHY = {
    "python": "the standard library, most of it for Werkzeug, asyncio for pydantic-settings",
    "polyseme": "mostly pydantic's and dataclasses' work on its classes",
    "annotated-types": "for pydantic",
    "blinker": "for Flask",
    "click": "the command line; Flask imports it as well",
    "flask": "the application",
    "gunicorn": "the server",
    "itsdangerous": "for Flask's sessions, which nothing uses",
    "jinja2": "for Flask's templates, which nothing uses",
    "markupsafe": "for Werkzeug",
    "numpy": "all arithmetic",
    "orjson": "responses, and the headers of tables",
    "platformdirs": "where models are",
    "prometheus-client": "metrics",
    "pybase64": "responses in base64",
    "pydantic": "requests, manifests and settings are checked",
    "pydantic-settings": "settings from the environment",
    "pydantic-core": "for pydantic",
    "python-json-logger": "the log in JSON",
    "python-dotenv": "for pydantic-settings, which reads no such file here",
    "regex": "words of Unicode",
    "safetensors": "the weights of attention",
    "threadpoolctl": "one BLAS thread",
    "typing-inspection": "for pydantic",
    "typing-extensions": "for pydantic",
    "werkzeug": "for Flask",
    "setuptools": "a hook of this environment, not of the service",
}
"""The purpose of each distribution that a start imports."""


def times(models: Path, model: str) -> dict[str, float]:
    """Return the seconds from exec to the end of each stage, readiness and the first response."""
    began = time.perf_counter()
    until: dict[str, float] = {}
    with starting(models, model, WORKERS, subprocess.PIPE) as process:
        for stage, text in STAGES.items():
            if not any(text in line for line in process.stderr or ()):
                raise SystemExit("The service did not start.")
            until[stage] = time.perf_counter() - began
        wait_for_response(PORT, "GET", "/readyz")
        until["ready"] = time.perf_counter() - began
        wait_for_response(PORT, "POST", "/v1/encode", '{"input": "the of and"}')
        until["answer"] = time.perf_counter() - began
    return until


def distributions() -> dict[str, str]:
    """Return the distribution of each installed package."""
    installed = packages_distributions().items()
    owner = {package: owners[0].lower().replace("_", "-") for package, owners in installed}
    return {**owner, "polyseme": "polyseme"}


def imports(models: Path, owners: dict[str, str]) -> dict[str, tuple[float, int]]:
    """Return the milliseconds and the number of modules of each distribution."""
    how = {"PYTHONPROFILEIMPORTTIME": "1"}
    with starting(models, BUNDLED, WORKERS, subprocess.PIPE, **how) as process:
        lines = list(takewhile(lambda line: STAGES["workers"] not in line, process.stderr or ()))
    spent: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for line in lines:
        if line.startswith(MARK) and "cumulative" not in line:
            own, _, name = line.removeprefix(MARK).split("|")
            owner = owners.get(name.strip().split(".")[0], "python")
            spent[owner] += int(own)
            modules[owner] += 1
    return {name: (taken / 1000, modules[name]) for name, taken in spent.most_common()}


def import_table(runs: list[dict[str, tuple[float, int]]]) -> dict[str, dict[str, Any]]:
    """Return the median time of each distribution, with its purpose."""
    if unexplained := runs[0].keys() - WHY.keys():
        raise SystemExit(f"Add the purpose of these to WHY: {', '.join(sorted(unexplained))}.")
    spent = {name: median(run[name][0] for run in runs if name in run) for name in runs[0]}
    return {
        name: {
            "milliseconds": round(taken, 1),
            "modules": runs[0][name][1],
            "why": WHY[name],
        }
        for name, taken in sorted(spent.items(), key=lambda item: -item[1])
    }


def reading(folder: Path, rounds: int) -> dict[str, float]:
    """Return the seconds to read a model, with and without checks."""
    actions = {
        name: partial(seconds, partial(read_model, folder, verify=verify))
        for name, verify in (("checked", True), ("unchecked", False))
    }
    return medians(in_turn(actions, rounds))


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--rounds", default=7)
def main(words: int, width: int, rounds: int) -> None:
    """Run the benchmark."""
    measured: dict[str, list[dict[str, float]]] = {BUNDLED: [], SYNTHETIC: []}
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        import_synthetic(models, words, width)
        owners = distributions()
        table = import_table([imports(models, owners) for _ in range(rounds)])
        for _ in range(rounds):
            for model, runs in measured.items():
                runs.append(times(models, model))
                stages = "  ".join(f"{stage} {until:.3f}" for stage, until in runs[-1].items())
                click.echo(f"{model:<10} {stages}")
        folders = {BUNDLED: bundled_models() / BUNDLED, SYNTHETIC: models / SYNTHETIC}
        read = {model: reading(folder, rounds) for model, folder in folders.items()}
    until = {
        model: medians({stage: [run[stage] for run in runs] for stage in runs[0]})
        for model, runs in measured.items()
    }
    middle = {model: stages["answer"] for model, stages in until.items()}
    record(
        "start",
        ["gunicorn", "flask", "numpy"],
        {
            "words": words,
            "width": width,
            "workers": WORKERS,
            "rounds": rounds,
            "median_seconds": middle,
            "difference_seconds": round(middle[SYNTHETIC] - middle[BUNDLED], 3),
            "median_ready_seconds": {model: stages["ready"] for model, stages in until.items()},
            "median_seconds_until": until,
            "reading_seconds": read,
            "imports": table,
        },
    )


if __name__ == "__main__":
    main()
