"""Write the results of a benchmark with the machine, the versions and the date."""

import os
import platform
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


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
