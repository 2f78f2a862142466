"""The sections on what neighbours, a start, a worker and the page cost."""

from collections.abc import Mapping
from typing import Any

from docs.results import paragraph, table

Document = Mapping[str, Any]

_IMPORTS = 10
"""Distributions that are shown, those that take the longest."""
_MEMORY = ("pss_mb", "private_dirty_mb")
_WHEN = ("under_load", "later")
_STAGES = {
    "command": "the command line",
    "models": "gunicorn and the models",
    "workers": "the first fork",
    "ready": "ready",
    "answer": "the first answer",
}


def neighbours(found: Document) -> list[str]:
    """What the nearest words cost."""
    text = f"""\
The {found["neighbours"]} nearest rows to a vector, exactly, on one core, beside one pass over the
float32 table in memory, a dot product with itself at {found["gigabytes_per_second"]} GB a second:
medians of {found["rounds"]} rounds. `lengths` is what the first search of a worker costs beside
that.
"""
    times, ratios = found["median_milliseconds"], found["ratio_to_the_pass"]
    rows = [[_name(name, found), ms, ratios.get(name, 1)] for name, ms in times.items()]
    return [
        *("## Neighbours", *paragraph(text), ""),
        *(*table(("table", "ms", "passes"), rows), ""),
    ]


def _name(name: str, found: Document) -> str:
    if name not in found["tables"]:
        return name
    rows, width = found["tables"][name]["shape"]
    return f"{name}, {rows:,} × {width}"


def start(found: Document) -> list[str]:
    """How long a start takes."""
    small, large = "wiki-en", "synthetic"
    text = f"""\
`polyseme serve` with the bundled model, and with {found["words"]:,} words of {found["width"]}
numbers: seconds from exec to the end of each stage, files in the page cache, every checksum
compared and every number looked at. Medians of {found["rounds"]} starts of each, in turn.
"""
    stages = found["median_seconds_until"]
    rows = [
        [title, *(stages[model][stage] for model in (small, large))]
        for stage, title in _STAGES.items()
    ]
    rows += [
        [f"reading the model alone, {how}", *(reading[model][how] for model in (small, large))]
        for reading in [found["reading_seconds"]]
        for how in ("checked", "unchecked")
    ]
    imported = [
        [name, one["milliseconds"], one["modules"], one["why"]]
        for name, one in list(found["imports"].items())[:_IMPORTS]
    ]
    head = ("until", "bundled model", f"{found['words']:,} words")
    return [
        *("## A start", *paragraph(text), "", *table(head, rows), ""),
        *("What is imported on the way, in milliseconds of its own (`-X importtime`):", ""),
        *(*table(("package", "ms", "modules", "why"), imported), ""),
    ]


def workers(found: Document) -> list[str]:
    """What a worker takes of memory."""
    text = f"""\
Serving {found["words"]:,} words of {found["width"]} numbers: memory of gunicorn's master and its
workers together, under load and {found["requests"]:,} requests later, in MB. The table, mapped and
shared, is in PSS once.
"""
    rows = [[number, *_cells(at)] for number, at in found["workers"].items()]
    rows.append(["each further", *_cells(found["each_further_worker_mb"])])
    head = ("workers", "PSS", "private dirty", "PSS later", "private dirty later")
    return ["## A worker", *paragraph(text), "", *table(head, rows), ""]


def _cells(at: Document) -> list[float]:
    return [at[when][kind] for when in _WHEN for kind in _MEMORY]


def page(found: Document) -> list[str]:
    """How long the page takes to draw."""
    window = " × ".join(map(str, found["window"]))
    text = f"""\
The page at `/` in a window of {window} pixels, each view opened afresh with nothing kept, in turn,
{found["rounds"]} times: milliseconds from the last byte of the service's answer to the painted
picture, the longest of them, and those from the address to the picture. Chromium
{found["chromium"]}, without a graphics card, on the service's own processors.
"""
    medians, worst = found["median_milliseconds"], found["worst_drawn"]
    rows = [
        [view, f"{drawn:.0f}", f"{worst[view]:.0f}", f"{medians['opened'][view]:.0f}"]
        for view, drawn in medians["drawn"].items()
    ]
    head = ("view", "answer to picture", "longest", "address to picture")
    return ["## The page", *paragraph(text), "", *table(head, rows), ""]
