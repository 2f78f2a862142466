"""The sections on neighbors, start, workers and the web interface, and measurements.md."""

from collections.abc import Mapping
from typing import Any

from docs.results import benchmark, paragraph, table

Document = Mapping[str, Any]

_IMPORTS = 10
"""The number of distributions shown, slowest first."""
_MEMORY = ("pss_mb", "private_dirty_mb")
_WHEN = ("early", "later")
_STAGES = {
    "command": "the command line",
    "models": "gunicorn and the models",
    "workers": "the first fork",
    "ready": "ready",
    "answer": "the first response",
}


def neighbors(found: Document) -> list[str]:
    """Time of a search for neighbors."""
    text = f"""\
The table has the time of an exact search for the {found["neighbors"]} nearest rows to a vector on
one core, compared with one pass over the float32 table in memory (a dot product with itself at
{found["gigabytes_per_second"]} GB per second). All figures are medians of {found["rounds"]} rounds.
The first search of a worker also computes the norms of the rows (*lengths*).
"""
    times, ratios = found["median_milliseconds"], found["ratio_to_the_pass"]
    rows = [[_name(name, found), ms, ratios.get(name, 1)] for name, ms in times.items()]
    return [
        *("## Neighbors", *paragraph(text), ""),
        *(*table(("table", "ms", "relative to the pass"), rows), ""),
    ]


def _name(name: str, found: Document) -> str:
    if name not in found["tables"]:
        return name
    rows, width = found["tables"][name]["shape"]
    return f"{name}, {rows:,} × {width}"


def start(found: Document) -> list[str]:
    """Time of a start."""
    small, large = "wiki-en", "synthetic"
    text = f"""\
The table has the seconds from exec to the end of each stage of `polyseme serve`, with the bundled
model and with a model of {found["words"]:,} words of {found["width"]} dimensions. The last two rows
read the model only. The files are in the page cache, and all checksums and values are verified,
except in the last row. All figures are medians of {found["rounds"]} rounds.
"""
    stages = found["median_seconds_until"]
    rows = [
        [title, *(stages[model][stage] for model in (small, large))]
        for stage, title in _STAGES.items()
    ]
    rows += [
        [f"reading the model only, {how}", *(reading[model][how] for model in (small, large))]
        for reading in [found["reading_seconds"]]
        for how in ("checked", "unchecked")
    ]
    imported = [
        [name, one["milliseconds"], one["modules"], one["why"]]
        for name, one in list(found["imports"].items())[:_IMPORTS]
    ]
    head = ("until", "bundled model", f"{found['words']:,} words")
    return [
        *("## Start", *paragraph(text), "", *table(head, rows), ""),
        f"Time to import the {_IMPORTS} slowest packages, without their imports (`-X importtime`):",
        "",
        *(*table(("package", "ms", "modules", "why"), imported), ""),
    ]


def workers(found: Document) -> list[str]:
    """Memory of a worker."""
    text = f"""\
The table has the memory of gunicorn's master and workers together in MB, with a model of
{found["words"]:,} words of {found["width"]} dimensions, after 400 requests per worker and
{found["requests"]:,} requests later. PSS counts the mapped, shared vectors once.
"""
    rows = [[number, *_cells(at)] for number, at in found["workers"].items()]
    rows.append(["each additional", *_cells(found["each_further_worker_mb"])])
    head = ("workers", "PSS", "private dirty", "PSS later", "private dirty later")
    return ["## Memory of a worker", *paragraph(text), "", *table(head, rows), ""]


def _cells(at: Document) -> list[float]:
    return [at[when][kind] for when in _WHEN for kind in _MEMORY]


def page(found: Document) -> list[str]:
    """Drawing time of the web interface."""
    window = " × ".join(map(str, found["window"]))
    text = f"""\
Each view of the web interface except Senses was opened {found["rounds"]} times in turn, with an
empty cache, in a window of {window} pixels. The table has the median milliseconds from the last
byte of the response to the drawn view, their maximum, and the median milliseconds from the
navigation to the drawn view. The browser is Chromium {found["chromium"]}, without a graphics card,
on the processors of the service.
"""
    medians, worst = found["median_milliseconds"], found["worst_drawn"]
    rows = [
        [view, f"{drawn:.0f}", f"{worst[view]:.0f}", f"{medians['opened'][view]:.0f}"]
        for view, drawn in medians["drawn"].items()
    ]
    head = ("view", "response to drawn view", "maximum", "navigation to drawn view")
    return ["## The page", *paragraph(text), "", *table(head, rows), ""]


def measurements() -> str:
    """The page on the costs of an import and of the vocabulary index."""
    lines = [
        "# Imports and the vocabulary index",
        "",
        "`make docs` writes this page from `benchmarks/results/`. The script of the same name",
        "writes each file, which also has the machine, the versions and the date. Programs that",
        "are compared ran alternately. [performance.md](performance.md) has the costs of requests,",
        "starts and workers.",
        "",
    ]
    sections = (_import_costs, _vocabulary_costs)
    return "\n".join(lines + [line for section in sections for line in section()])


def _import_costs() -> list[str]:
    found = benchmark("importing")
    text = f"""\
## Import
The file is a synthetic GloVe file of {found["words"]:,} words of {found["width"]} dimensions,
{found["file_mb"]:.0f} MB of text. gensim loads it into memory. The import also checks every row,
computes weights, fits subwords, writes the model and reads it back. The figures are medians on
{found["machine"]["cores"]} processors; memory is that of the largest process.

| | seconds | relative to gensim | memory, MB |
|---|---|---|---|"""
    lines = text.splitlines()
    for name, seconds in found["median_seconds"].items():
        ratio, memory = found["ratio_to_gensim"][name], found["largest_process_mb"][name]
        lines.append(f"| {name} | {seconds} | {ratio} | {memory} |")
    return [*lines, ""]


def _vocabulary_costs() -> list[str]:
    found = benchmark("vocabulary")
    text = f"""\
## The vocabulary index
The table has the private memory of a worker, the time of thirty lookups, and the time until a new
worker is ready, for {found["words"]:,} words ([decision 4](decisions/0004-vocabulary-index.md)).

| index | private, MB | 30 lookups, µs | ready, s |
|---|---|---|---|"""
    lines = text.splitlines()
    for name, at in found["median"].items():
        cells = (at["private_mb"], at["microseconds_30_words"], at["worker_ready_s"])
        lines.append(f"| {name} | {' | '.join(f'{cell:.3g}' for cell in cells)} |")
    return [*lines, ""]
