"""Write the results of a benchmark and its report, and time work in turn."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from polyseme_lab import report

_T = TypeVar("_T")
RESULTS = Path(__file__).parent / "results"


def record(name: str, packages: list[str], results: dict[str, Any]) -> None:
    """Write `NAME.json` and `NAME.md` into `results/`."""
    report.write(RESULTS / f"{name}.json", {**report.about(packages), **results})


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    """Return the median of each list of measurements, rounded to four significant digits."""
    return {name: float(f"{median(values):.4g}") for name, values in times.items()}


def median_row(rows: Sequence[Mapping[str, float]], digits: int | None) -> dict[str, float]:
    """Return the median of each column, as integers if `digits` is None."""
    return {name: round(median(row[name] for row in rows), digits) for name in rows[0]}


def in_turn(actions: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """Return the results of each action, in rounds in which all run in turn."""
    results: dict[str, list[_T]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            results[name].append(action())
    return results


def seconds(work: Callable[[], Any]) -> float:
    """Return the time of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
