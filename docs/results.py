"""Reading the JSON files of results, and writing Markdown from them."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "models" / "wiki-en" / "manifest.json"
RESULTS = ROOT / "lab" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"


def result(name: str) -> Any:
    """Results of a script in `lab/` or of `polyseme evaluate`."""
    return orjson.loads((RESULTS / f"{name}.json").read_bytes())


def result_if_any(name: str) -> Any:
    """The same as `result`; None if there is no such file."""
    return result(name) if (RESULTS / f"{name}.json").exists() else None


def benchmark(name: str) -> Any:
    """Results of a script in `benchmarks/`."""
    return orjson.loads((BENCHMARKS / f"{name}.json").read_bytes())


def manifest() -> Any:
    """The manifest of the bundled model."""
    return orjson.loads(MODEL.read_bytes())


def trainings() -> list[dict[str, Any]]:
    """The records of training runs, in the order of their file names."""
    return [orjson.loads(file.read_bytes()) for file in sorted(RESULTS.glob("training-*.json"))]


def paragraph(text: str) -> list[str]:
    """The lines of a paragraph, wrapped after the figures are inserted."""
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def interval(figure: dict[str, float]) -> str:
    """A figure with its interval."""
    return f"{figure['value']} [{figure['low']}, {figure['high']}]"
