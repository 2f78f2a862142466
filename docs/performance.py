"""The page on speed and memory: every figure in it comes from a file that a script measured."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from docs import charts, costs, speeds
from docs.results import BENCHMARKS, benchmark, table

Document = Mapping[str, Any]
Section = Callable[[Any], list[str]]

HEAD = """\
# Speed and memory

Made by `make docs` from `benchmarks/results/`; each section names the command that measures it.
What is compared was run in turn, A B A B …, in one go; a ratio is one of medians. Another machine
gives other figures, and ratios not quite as different. How to measure is in
[the benchmarks' README](../benchmarks/README.md), what an import and the index of words cost in
[measurements.md](measurements.md)."""

SECTIONS: dict[str, Section] = {
    "requests_per_second": speeds.requests,
    "request_stages": speeds.stages,
    "workers": speeds.workers,
    "engine": speeds.engine,
    "growth": speeds.growth,
    "streams": speeds.streams,
    "neighbours": costs.neighbours,
    "start": costs.start,
    "worker_memory": costs.workers,
}
"""What is shown of each file of results, in the order of the page."""

NOTES: dict[str, str] = {}
"""What is said by hand below a section's figures, by the name of its results: why a goal is missed,
what was chosen. Figures belong into the results."""

PICTURES: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "requests-per-second.svg": ("requests_per_second", charts.requests),
    "engine.svg": ("engine", charts.engine),
    "growth.svg": ("growth", charts.growth),
}


class Goal(NamedTuple):
    """What was wished for, and what there is."""

    question: str
    figure: float
    bound: float
    at_most: bool = False
    """the bound is the most that the figure may be, not the least"""

    @property
    def held(self) -> bool:
        """Whether the figure is within the bound."""
        return self.figure <= self.bound if self.at_most else self.figure >= self.bound

    def row(self) -> list[str]:
        """A row of the table of goals."""
        sign = "≤" if self.at_most else "≥"
        verdict = "held" if self.held else "**missed**"
        return [self.question, f"{sign} {self.bound:g}", f"{self.figure:g}", verdict]


def performance() -> str:
    """The page."""
    found = results()
    parts = [HEAD.splitlines(), _goals(found)]
    for name, section in SECTIONS.items():
        if name in found:
            note = [NOTES[name], ""] if name in NOTES else []
            parts.append([*section(found[name]), *note, made(name, found[name])])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def results() -> dict[str, Any]:
    """The results that there are, by name."""
    return {name: benchmark(name) for name in SECTIONS if (BENCHMARKS / f"{name}.json").exists()}


def images() -> dict[str, bytes]:
    """The bytes of every picture of the page, by its file's name."""
    found = results()
    return {file: draw(found[name]) for file, (name, draw) in PICTURES.items() if name in found}


def made(name: str, document: Document) -> str:
    """The command that makes results, and what it was run on."""
    machine, versions = document["machine"], document["versions"]
    place = f"{machine['processor']}, {machine['cores']} processors, {machine['memory_gb']} GB"
    programs = ", ".join(f"{program} {number}" for program, number in versions.items())
    return f"`python benchmarks/{name}.py`: {document['date']}, {place}; {programs}."


def _goals(found: Mapping[str, Document]) -> list[str]:
    rows = [goal.row() for name in found for goal in GOALS.get(name, _none)(found[name])]
    head = ("what is compared", "goal", "measured", "")
    return ["## Goals", "", *table(head, rows)]


def _none(_: Document) -> Iterator[Goal]:
    yield from ()


def _requests(found: Document) -> Iterator[Goal]:
    for kind, bound in {"base64": 0.7, "npz": 0.7, "json": 0.5}.items():
        told = f"requests/s at 20 words as {kind}, to those of a bare Flask route"
        yield Goal(told, found["words"]["20"][kind]["ratio"], bound)


def _engine(found: Document) -> Iterator[Goal]:
    for number, told in speeds.SENTENCES.items():
        ratios = found["sentences"][number]["ratios"]
        to_products = ratios["with attention, to products"]
        yield Goal(f"engine to the matrix products alone, {told}", to_products, 0.5)
        to_transformer = ratios["text with attention, to MiniLM"]
        yield Goal(f"from text, to all-MiniLM-L6-v2, {told}", to_transformer, 100)
    to_torch = {n: one["ratios"]["without, to torch"] for n, one in found["lengths"].items()}
    least = min(to_torch, key=lambda length: to_torch[length])
    told = f"engine to torch at any length up to {max(map(int, to_torch))}: least, at {least} words"
    yield Goal(told, to_torch[least], 1)


def _growth(found: Document) -> Iterator[Goal]:
    exponent = found["exponents"]["without"]["peak_mb"]
    yield Goal("exponent of memory in the tokens, without attention", exponent, 1.1, at_most=True)


def _streams(found: Document) -> Iterator[Goal]:
    for kind, one in found["kinds"].items():
        told = f"a worker's memory at 10,000 sentences to that at 1,000, {kind}"
        yield Goal(told, one["ratio_of_peaks"], 1.1, at_most=True)


def _neighbours(found: Document) -> Iterator[Goal]:
    told = "neighbours in 400,000 × 100 float32, to one pass over them"
    yield Goal(told, found["ratio_to_the_pass"]["float32"], 2, at_most=True)


GOALS: dict[str, Callable[[Document], Iterator[Goal]]] = {
    "requests_per_second": _requests,
    "engine": _engine,
    "growth": _growth,
    "streams": _streams,
    "neighbours": _neighbours,
}
