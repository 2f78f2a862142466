"""What the templates of pages call: results of measurements, and figures as text."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "lab" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
TITLES = {
    "start": "start",
    "tags": "tags",
    "paragraphs": "paragraphs",
    "corpus": "corpus",
    "dimension": "d",
    "heads": "heads",
    "layers": "layers",
    "feed_forward": "feed-forward",
    "vectors_tuned": "vectors learned",
    "interpolate": "interpolated",
    "steps": "steps",
    "seed": "seed",
}
"""The titles of settings, in the order of the columns."""


def result(name: str) -> Any:
    """Results of a script in `lab/` or of `polyseme evaluate`."""
    return orjson.loads((RESULTS / f"{name}.json").read_bytes())


def benchmark(name: str) -> Any:
    """Results of a script in `benchmarks/`."""
    return orjson.loads((BENCHMARKS / f"{name}.json").read_bytes())


def manifest() -> Any:
    """The manifest of the bundled model."""
    return orjson.loads((ROOT / "models" / "wiki-en" / "manifest.json").read_bytes())


def trainings() -> list[dict[str, Any]]:
    """The records of training runs, in the order of their file names."""
    return [orjson.loads(file.read_bytes()) for file in sorted(RESULTS.glob("training-*.json"))]


def differing_settings(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The settings in which the runs differ, with their titles."""
    keys = dict.fromkeys([*TITLES, *(key for one in records for key in one["settings"])])
    values = {key: {str(one["settings"].get(key)) for one in records} for key in keys}
    return {key: TITLES.get(key, key) for key, found in values.items() if len(found) > 1}


def constant_settings(records: Sequence[Mapping[str, Any]]) -> str:
    """The settings that are the same in all runs, with their values."""
    settings, differing = records[0]["settings"], differing_settings(records)
    kept = {key: settings[key] for key in [*TITLES, *settings] if key in settings}
    return ", ".join(
        f"{TITLES.get(key, key)} {value}"
        for key, value in kept.items()
        if key not in differing and value not in (None, "")
    )


def histories(
    own: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The learning curves by name: the bundled model's, and those of the runs."""
    found = {own["name"]: own["training"].get("history")}
    found |= {one["name"]: one.get("history") for one in records}
    return {name: history for name, history in found.items() if history}


def systems(name: str) -> Iterator[dict[str, Any]]:
    """The measured systems of a set; a transformer, which is measured separately, is last."""
    yield from result(name)["systems"].values()
    if (RESULTS / f"{name}-minilm.json").exists():
        yield from result(f"{name}-minilm")["systems"].values()


def made(name: str) -> str:
    """The command that made the results of a benchmark, the date, the machine and the versions."""
    document = benchmark(name)
    machine, versions = document["machine"], document["versions"]
    hardware = f"{machine['processor']}, {machine['cores']} processors, {machine['memory_gb']} GB"
    programs = ", ".join(f"{program} {number}" for program, number in versions.items())
    return f"`python benchmarks/{name}.py`: {document['date']}, {hardware}; {programs}."


def goal(what: str, figure: float, *, least: float | None = None, most: float | None = None) -> str:
    """A row of a table of goals; the bound is the least or the most that the figure may be."""
    bound = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
    met = (least is None or figure >= least) and (most is None or figure <= most)
    return f"| {what} | {bound} | {figure:g} | {'met' if met else '**missed**'} |"


def number(value: float, style: str = ",") -> str:
    """A number in a format of Python, by default with separators of thousands."""
    return format(value, style)


def significant(figure: float) -> str:
    """Three significant digits, or an integer from 100 on."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def interval(figure: Mapping[str, float]) -> str:
    """A figure with its interval."""
    return f"{figure['value']} [{figure['low']}, {figure['high']}]"


def error(figure: Mapping[str, float]) -> str:
    """A figure with its standard error."""
    return f"{figure['value']} ± {figure['error']}"


def cells(values: Iterable[Any]) -> str:
    """Cells of a row of a table."""
    return " | ".join(map(str, values))


def intervals(figures: Mapping[str, Any], *names: str) -> str:
    """Cells with figures and their intervals, and a dash for a figure that was not measured."""
    return cells(interval(figures[name]) if name in figures else "–" for name in names)


def errors(figures: Mapping[str, Any], *names: str) -> str:
    """Cells with figures and their standard errors."""
    return cells(error(figures[name]) for name in names)


def duration(seconds: float) -> str:
    """A readable time."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} seconds"


def size(count: float) -> str:
    """A readable number of bytes."""
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= one:
            return f"{count / one:,.1f} {unit}"
    return f"{count / 1e3:,.1f} kB"


def spelled(count: int) -> str:
    """A number up to ten as a word."""
    return SPELLED[count]


def from_zero(name: str) -> str:
    """Return a name with layers and heads counted from 0, as in the API; results count from 1."""
    return re.sub(r"\b(layer|head) (\d+)", lambda found: f"{found[1]} {int(found[2]) - 1}", name)


def wrap(page: str) -> str:
    """Wrap the paragraphs and list items of a page after the figures are inserted."""
    lines: list[str] = []
    continued = False
    for line in page.splitlines():
        prose = line != "" and not line.startswith(("#", "|", "!["))
        if prose and continued and not line.startswith("- "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        continued = prose
    wrapped = (
        line
        if line.startswith(("#", "|", "!["))
        else textwrap.fill(
            line,
            100,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )
    return "\n".join(wrapped) + "\n"
