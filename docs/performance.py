"""The page on speed and memory, from `benchmarks/results/`, with goals and notes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from docs import charts, costs, speeds
from docs.results import BENCHMARKS, benchmark, table

Document = Mapping[str, Any]
Section = Callable[[Any], list[str]]

HEAD = """\
# Speed and memory

`make docs` writes this page from `benchmarks/results/`; each section names the command that
measures it. Programs that are compared ran alternately in one session, and ratios are ratios of
medians. Other machines give other figures, but similar ratios. [The benchmarks'
README](../benchmarks/README.md) describes the method. [measurements.md](measurements.md) has the
costs of imports and of the vocabulary index."""

SECTIONS: dict[str, Section] = {
    "requests_per_second": speeds.requests,
    "request_stages": speeds.stages,
    "workers": speeds.workers,
    "engine": speeds.engine,
    "growth": speeds.growth,
    "streams": speeds.streams,
    "neighbors": costs.neighbors,
    "start": costs.start,
    "worker_memory": costs.workers,
    "page": costs.page,
}
"""The section of each file of results, in the order of the page."""

NOTES: dict[str, str] = {
    "requests_per_second": """\
**Why goals are missed.** In one process without a network, a request takes 650 µs longer than one
to a bare route, which takes 110 µs. In an earlier implementation the difference was 1,240 µs.

- Static vectors and attention are forty NumPy calls on small arrays. In a request they take 1.5 to
  1.8 times as long as in a loop, because other code uses the processor's caches in between.
- In JSON, half of the time is spent on formatting 13,600 floats.
- Checking, counting and logging a request ([watching](watching.md)) takes about 75 µs. The bare
  route does none of this.

These optimizations are in use: one product for queries and keys, a cached position bias, no maximum
of scores if no exponential can overflow, headers added in WSGI middleware, one pass of pydantic
over the body, a tokenizer with a cache, and workers that share connections. These had no effect:
gevent, one computing thread at a time, and another switch interval of the interpreter. These are
not in use: gunicorn's C parser (2 % faster), a cache for the JSON of static vectors (a tenth of
the time of JSON, but megabytes in each worker), and a custom zip writer (a tenth of the time of
npz).""",
    "engine": """\
**Why goals are missed.** Besides the matrix products, a sentence of 32 words needs operations on
arrays of a few thousand values: biases, softmax, norms. Each NumPy call has an overhead of a
microsecond. On a processor on which the engine reaches 0.28 of the speed of the products, ten NumPy
statements without residual, checks or unknown words reach 0.41. In longer sentences, these calls
are a smaller part of the time. Batches make MiniLM faster, but not the engine.

Transposing the keys before the product is not faster, and neither is a softmax in tiles that fit
the cache. Computing sentences of equal length together gives bitwise the same results and is 10 to
20 % faster in a batch of 1,000, but would need another axis in every array. Compiled code would be
faster; the engine uses NumPy for readability.""",
    "streams": """\
JSON and npz are completed before they are sent: their memory grows with the batch, up to
`max_answer_bytes` (128 MiB by default; 4 GiB here). NDJSON is streamed, and its memory does not
grow with the number of sentences in the same way.""",
}
"""Notes below the figures of a section; the figures in them are written by hand."""

PICTURES: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "requests-per-second.svg": ("requests_per_second", charts.requests),
    "engine.svg": ("engine", charts.engine),
    "growth.svg": ("growth", charts.growth),
}


class Goal(NamedTuple):
    """A goal and the measured figure."""

    question: str
    figure: float
    bound: float
    at_most: bool = False
    """whether the bound is an upper bound"""

    @property
    def met(self) -> bool:
        """Whether the figure is within the bound."""
        return self.figure <= self.bound if self.at_most else self.figure >= self.bound

    def row(self) -> list[str]:
        """A row of the table of goals."""
        sign = "≤" if self.at_most else "≥"
        verdict = "met" if self.met else "**missed**"
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
    """The results that exist, by name."""
    return {name: benchmark(name) for name in SECTIONS if (BENCHMARKS / f"{name}.json").exists()}


def images() -> dict[str, bytes]:
    """The bytes of every picture of the page by file name."""
    found = results()
    return {file: draw(found[name]) for file, (name, draw) in PICTURES.items() if name in found}


def made(name: str, document: Document) -> str:
    """The command that made the results, the date, the machine and the versions."""
    machine, versions = document["machine"], document["versions"]
    hardware = f"{machine['processor']}, {machine['cores']} processors, {machine['memory_gb']} GB"
    programs = ", ".join(f"{program} {number}" for program, number in versions.items())
    return f"`python benchmarks/{name}.py`: {document['date']}, {hardware}; {programs}."


def _goals(found: Mapping[str, Document]) -> list[str]:
    rows = [goal.row() for name in found for goal in GOALS.get(name, _none)(found[name])]
    head = ("comparison", "goal", "measured", "")
    return ["## Goals", "", *table(head, rows)]


def _none(_: Document) -> Iterator[Goal]:
    yield from ()


def _requests(found: Document) -> Iterator[Goal]:
    for kind, bound in {"base64": 0.45, "npz": 0.45, "json": 0.35}.items():
        what = f"requests/s at 20 words as {kind}, relative to a bare Flask route"
        yield Goal(what, found["words"]["20"][kind]["ratio"], bound)
    for connections, one in found["steady"].items():
        what = f"the lowest of eight runs at {connections} connections, relative to the median"
        yield Goal(what, one["least_to_median"], 0.6)


def _engine(found: Document) -> Iterator[Goal]:
    for number, what in speeds.SENTENCES.items():
        ratios = found["sentences"][number]["ratios"]
        to_products = ratios["with attention, to products"]
        yield Goal(f"engine, relative to the matrix products alone, {what}", to_products, 0.5)
        to_transformer = ratios["text with attention, to MiniLM"]
        yield Goal(f"from text, relative to all-MiniLM-L6-v2, {what}", to_transformer, 100)
    to_torch = {n: one["ratios"]["without, to torch"] for n, one in found["lengths"].items()}
    least = min(to_torch, key=lambda length: to_torch[length])
    longest = max(map(int, to_torch))
    what = f"engine, relative to torch, lowest ratio up to {longest} words: at {least} words"
    yield Goal(what, to_torch[least], 1)


def _growth(found: Document) -> Iterator[Goal]:
    exponent = found["exponents"]["without"]["peak_mb"]
    what = "growth exponent of memory by number of tokens, without attention"
    yield Goal(what, exponent, 1.1, at_most=True)


def _streams(found: Document) -> Iterator[Goal]:
    for kind, one in found["kinds"].items():
        if not kind.startswith("NDJSON"):  # completed before it is sent
            continue
        what = f"memory of a worker at 10,000 sentences, relative to 1,000, {kind}"
        yield Goal(what, one["ratio_of_peaks"], 1.1, at_most=True)


def _neighbors(found: Document) -> Iterator[Goal]:
    what = "time of neighbors in 400,000 × 100 float32, relative to one pass over the table"
    yield Goal(what, found["ratio_to_the_pass"]["float32"], 2, at_most=True)


def _page(found: Document) -> Iterator[Goal]:
    drawn = found["median_milliseconds"]["drawn"]
    first = next(time for view, time in drawn.items() if view.endswith(", 30 words"))
    yield Goal("ms from the response to the drawn view, 30 words", first, 100, at_most=True)


GOALS: dict[str, Callable[[Document], Iterator[Goal]]] = {
    "requests_per_second": _requests,
    "engine": _engine,
    "growth": _growth,
    "streams": _streams,
    "neighbors": _neighbors,
    "page": _page,
}
