"""Write the results of a benchmark with the machine, the versions and the date."""

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import orjson

RESULTS = Path(__file__).parent / "results"


def record(name: str, packages: list[str], results: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write `NAME.json` into the folder, by default `results/`."""
    document = {
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9),
        },
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
        "date": datetime.now(UTC).date().isoformat(),
        **results,
    }
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    folder.joinpath(f"{name}.json").write_bytes(orjson.dumps(document, option=style))


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    """Return the median of each list of measurements, rounded to four significant digits."""
    return {name: float(f"{median(values):.4g}") for name, values in times.items()}


def median_row(rows: Sequence[Mapping[str, float]], digits: int | None) -> dict[str, float]:
    """Return the median of each column, as integers if `digits` is None."""
    return {name: round(median(row[name] for row in rows), digits) for name in rows[0]}


def in_turn(actions: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the results of each action, in rounds in which all run in turn."""
    results: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            results[name].append(action())
    return results


def seconds(work: Callable[[], Any]) -> float:
    """Return the time of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
