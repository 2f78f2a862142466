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
    "page": costs.page,
}
"""What is shown of each file of results, in the order of the page."""

NOTES: dict[str, str] = {
    "requests_per_second": """\
**Why the goals are missed.** A bare route is answered so fast that 0.7 of it leaves the service
some 145 µs more than Flask takes, both processors and wrk counted; 0.5 leaves 340. The next
section shows that static vectors and attention alone take more than the first: forty calls of
NumPy on small arrays, which take half as long again in a request as in a loop that does nothing
else, since between two requests other code and the network have been through the processor's
caches. In JSON, half of the time goes into the digits of 13,600 numbers. And a request is guarded,
counted and logged (`docs/watching.md`), a third of what Flask takes; the bare route is not.

What was done: no rate limiter where no rate is set, headers that come again and again are parsed
once, a tokenizer that remembers chunks, vectors looked up without masked copies, an engine that
works in place, answers put together from pieces, workers that share connections. What changed
nothing: another worker, gevent, one thread that computes at a time, another switch interval of
the interpreter, settings of the allocator; gunicorn's parser in C is worth 2 %. Not done:
remembering the JSON of static vectors (a tenth of the time of JSON, for megabytes in each
worker), and a zip writer of our own (a tenth of that of npz).""",
    "engine": """\
**Why the goals are missed.** Beside the products, a sentence of 32 words needs forty steps that
go through arrays of a few thousand numbers: biases, softmax, the lengths of the vectors. Each is
a call of NumPy that takes a microsecond before the first number; the seven that reduce rows
(maxima and sums) take a fifth of the time. The longer the sentence, the less that counts, and
from 256 words on the goal is nearly held. MiniLM gains most from batches, which cost us nothing
and gain us nothing.

What was tried: one product for queries and keys changes the last bits of a third of all shapes on
AVX-512, and every sentence has to keep its bits; keys turned round before the product, and
softmax in tiles that stay in the cache, are no faster; sentences of one length done together keep
their bits and are 10 to 20 % faster in a batch of 1,000, which was not worth an axis more in
every array. Compiled code would be: the engine is NumPy so that it can be read.""",
    "streams": """\
What still grows in an npz is the archive's directory, which has an entry for each sentence's
attention and stands at its end.""",
}
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


def _page(found: Document) -> Iterator[Goal]:
    first = found["median_milliseconds"]["drawn"]["look, 30 words"]
    yield Goal("ms from the answer to the page's picture, 30 words", first, 100, at_most=True)


GOALS: dict[str, Callable[[Document], Iterator[Goal]]] = {
    "requests_per_second": _requests,
    "engine": _engine,
    "growth": _growth,
    "streams": _streams,
    "neighbours": _neighbours,
    "page": _page,
}
