"""The page on a billion sentences, computed from the measured rate of one machine."""

from collections.abc import Iterator, Mapping
from typing import Any

from docs.performance import made
from docs.results import benchmark, manifest, paragraph, table

Document = Mapping[str, Any]

NAME = "bulk"
ROWS = 1_000_000_000
"""Sentences of the example."""
CORES, MACHINES = 16, 100
"""The number of cores of a rented machine, and the number of such machines."""
PRICE = 0.04
"""Dollars per core-hour: about the on-demand price of clouds."""
LINK = 10 / 8
"""Gigabytes per second of the network of such a machine."""
BERT = 8
"""The arithmetic of BERT-base relative to MiniLM's six layers: 85 to 10.6 million weights per
token."""
LARGE = 2_196_017, 300
"""Words and width of GloVe 840B."""
FLOAT32, FLOAT16 = 4, 2

HEAD = f"""\
# A billion sentences

`make docs` writes this page from `benchmarks/results/bulk.json`. The figures of one machine are
measured, and those of several machines are computed from them, for {ROWS:,} sentences."""


def scale() -> str:
    """The page."""
    found = benchmark(NAME)
    parts = [
        HEAD.splitlines(),
        _measured(found),
        _computed(found),
        _limits(found),
        _transformer(found),
        [made(NAME, found)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _measured(found: Document) -> list[str]:
    text = f"""\
The table has the speed of `polyseme bulk` with {found["workers"]} workers on two cores. The input
is sentences of the English Wikipedia, one per line. Memory is the peak of all processes together
(PSS).
"""
    rows = [
        [
            name,
            f"{one['rows']:,}",
            one["tokens_a_sentence"],
            f"{one['bulk_sentences_a_second']:,}",
            one["peak_pss_mb"],
            f"{_bytes(one):,.0f}",
        ]
        for name, one in found["cases"].items()
    ]
    head = (
        *("output", "sentences", "tokens per sentence", "sentences/s"),
        *("memory, MB", "bytes per sentence"),
    )
    measured = ["## One machine", "", *paragraph(text), "", *table(head, rows)]
    return [*measured, "", *_loops(found)]


_LOOPS = {
    "plain": "one process, no output",
    "settled": "one process, with the garbage collector configured as in the workers",
    "at once": "one such process for each worker, at the same time",
    "writing": "the same, and each process writes its raw values and flushes them to disk after"
    " every 4,096 sentences",
}


def _loops(found: Document) -> list[str]:
    """Rates of loops over the engine."""
    text = f"""\
For comparison, the next table has loops over the same engine, measured before and after the
command. *Efficiency* is the rate of the command divided by that of {found["workers"]} such loops;
the goal is 0.9. Writing the contextual vectors of every token takes time even as raw values, as the
last row shows. The time of the command includes starting its processes and reading the model; the
time of the loops does not.
"""
    rows = []
    for loop, title in _LOOPS.items():
        cells = [title]
        for one in found["cases"].values():
            rates = one["loops"][loop]
            cells.append(" and ".join(f"{rate:,}" for rate in rates["sentences_a_second"]))
            cells.append(f"{rates['cores_worth']:.2f}")
        rows.append(cells)
    head = ["loop"]
    for name in found["cases"]:
        head += [f"{name}, sentences/s", "efficiency"]
    return [*paragraph(text), "", *table(head, rows)]


def _bytes(one: Document) -> float:
    """The bytes of a sentence on disk."""
    return float(one["output_mb"] * 1e6 / one["rows"])


def _of_a_core(one: Document, found: Document) -> float:
    """Sentences a second of one core."""
    return float(one["bulk_sentences_a_second"] / found["workers"])


def _computed(found: Document) -> list[str]:
    text = f"""\
Shards are independent, so no worker waits for another. Rates therefore grow with the number of
cores as long as reading and writing keep up. The table assumes machines with {CORES} cores like
those measured.
"""
    machines = {"one core": 1, "one machine": CORES, f"{MACHINES} machines": CORES * MACHINES}
    rows = []
    for name, one in found["cases"].items():
        for place, cores in machines.items():
            rate = _of_a_core(one, found) * cores
            written = rate * _bytes(one)
            rows.append([f"{name}, {place}", f"{rate:,.0f}", _time(ROWS / rate), _size(written)])
    head = ("output, machines", "sentences/s", f"time for {ROWS:,}", "written per second")
    return ["## Several machines", "", *paragraph(text), "", *table(head, rows)]


def _time(seconds: float) -> str:
    """A readable time."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} seconds"


def _size(number: float) -> str:
    """A readable number of bytes."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"


def _limits(found: Document) -> list[str]:
    return ["## Limits", "", *_bullets(_bounds(found))]


def _bullets(bounds: Iterator[str]) -> list[str]:
    lines: list[str] = []
    for bound in bounds:
        first, *rest = paragraph(f"- {bound}")
        lines += [first, *(f"  {line}" for line in rest)]
    return lines


def _bounds(found: Document) -> Iterator[str]:
    """The resources that limit a larger run."""
    vectors, contextual = (found["cases"][name] for name in _CASES)
    each = _bytes(contextual)
    machine = _of_a_core(contextual, found) * CORES * each
    yield (
        f"**Storage.** {ROWS:,} sentences take {_size(ROWS * _bytes(vectors))} as sentence vectors"
        f" and {_size(ROWS * each)} as contextual vectors of every token in float32, about half"
        " with `--dtype float16`. A disk of 20 TB holds the sentence vectors, but not the"
        " contextual vectors. If you need vectors of tokens, compute them again instead of storing"
        " them."
    )
    yield (
        f"**Network.** A machine of {CORES} cores writes {_size(machine)} of contextual vectors per"
        f" second, {machine / 1e9 / LINK:.0%} of a link of 10 Gbit/s. {MACHINES} machines"
        f" write {_size(machine * MACHINES)} per second, which few shared file systems sustain."
        f" They write {_size(_of_a_core(vectors, found) * CORES * MACHINES * _bytes(vectors))} of"
        " sentence vectors per second."
    )
    words, width = LARGE
    yield (
        "**Memory.** The vectors are memory-mapped, so all workers of a machine share one copy."
        f" Those of the bundled model have {_size(_table_bytes())}, those of GloVe 840B, {words:,}"
        f" words of {width} dimensions, {_size(words * width * FLOAT16)} in float16 or"
        f" {_size(words * width * FLOAT32)} in float32. {found['workers']} workers and their parent"
        f" used at most {max(one['peak_pss_mb'] for one in found['cases'].values()):,} MB,"
        " including shards in progress. Memory does not grow with the input."
    )
    yield (
        "**Scheduler.** A shard is one task of a few seconds. It has 16,384 sentences for sentence"
        " vectors and 4,096 for contextual vectors, so a billion sentence vectors are"
        f" {ROWS // 16_384:,} tasks. {MACHINES} machines finish"
        f" {_of_a_core(vectors, found) * CORES * MACHINES / 16_384:,.0f} tasks per second, about"
        " the limit of one Dask scheduler. For more machines, split the input and run several"
        " schedulers."
    )


_CASES = ("sentence vectors", "contextual vectors")


def _table_bytes() -> float:
    return float(manifest()["files"]["vectors.npy"]["bytes"])


def _transformer(found: Document) -> list[str]:
    contextual = found["cases"]["contextual vectors"]
    transformer = benchmark("bulk")["transformer_words_per_second"]
    words = ROWS * contextual["tokens_a_sentence"]
    theirs = words / transformer / 3600
    text = f"""\
On one of the same cores, all-MiniLM-L6-v2 computes {transformer:,} words per second in batches,
without writing them (`benchmarks/engine.py`). BERT-base needs {BERT} times the arithmetic of
all-MiniLM-L6-v2. At {PRICE} dollars per core-hour, {ROWS:,} sentences take:
"""
    systems = {
        "Polyseme, written to shards": ROWS / _of_a_core(contextual, found) / 3600,
        "all-MiniLM-L6-v2": theirs,
        "BERT-base": theirs * BERT,
    }
    rows = [
        [name, f"{hours:,.0f}", f"{hours * PRICE:,.0f}", f"{hours / CORES / MACHINES:,.1f}"]
        for name, hours in systems.items()
    ]
    head = ("contextual vectors by", "core-hours", "dollars", f"hours of {MACHINES} machines")
    return ["## Compared with a transformer", "", *paragraph(text), "", *table(head, rows)]
