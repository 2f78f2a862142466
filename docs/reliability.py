"""The page on faults, load and memory, from `benchmarks/results/reliability.json`."""

import io
from collections.abc import Mapping
from typing import Any

from docs.performance import made
from docs.results import BENCHMARKS, benchmark, paragraph, table
from models.pictures import COLOURS, SVG

Document = Mapping[str, Any]

NAME = "reliability"
PICTURE = "soak.svg"
HEAD = """\
# Reliability

`make reliability` runs the fault tests in `tests/server` at full size and writes
`benchmarks/results/reliability.json`; `make docs` writes this page from it. `make test-all` runs
the same tests with fewer rounds. Each runs a real gunicorn with two workers and the bundled model;
clients and service share the processors."""


def reliability() -> str:
    """The page."""
    found = benchmark(NAME)
    parts = [
        HEAD.splitlines(),
        *([_tried_less(found["bounded"])] if found["bounded"] else []),
        _load(found),
        _faults(found),
        _memory(found["soak"][0]),
        _hostile(found["hostile"][0]),
        _described(found["schema"]),
        [made(NAME, found)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _tried_less(kinds: list[str]) -> list[str]:
    names = {"fault": "faults", "schema": "requests as described", "hostile": "hostile requests"}
    which = " and ".join(names.get(kind, kind) for kind in kinds)
    return [f"**In this record, {which} ran as often as in `make test-all`.**"]


def _load(found: Document) -> list[str]:
    rows = [
        [one["accept"], one["connections"], f"{one['rate']:,}", one["p50_ms"], one["p99_ms"]]
        for one in found["load"]
    ]
    text = "Sentences of 20 words to `/v1/encode` with its default options, sent by wrk."
    head = ("response", "connections", "requests/s", "p50, ms", "p99, ms")
    return ["## Load", "", *paragraph(text), "", *table(head, rows)]


def _faults(found: Document) -> list[str]:
    text = """\
Clients on kept and on new connections send requests without pause while a fault happens. Each
response is compared, bit for bit, with the expected one. A request is lost if its connection ends
before the response. Goal: no lost requests except those inside a process that is killed or stopped.
"""
    rows = [
        [one["name"], f"{one['tried']:,}", _count(one), _lost(one)]
        for one in sorted(found["fault"], key=lambda one: str(one["name"]))
    ]
    head = ("fault", "times", "responses compared", "requests lost")
    return ["## Faults", "", *paragraph(text), "", *table(head, rows)]


def _count(one: Document) -> str:
    return f"{one['answered']:,}" if "answered" in one else ""


def _lost(one: Document) -> str:
    return f"{one['lost']}, inside it" if one["lost"] and "inside" in one else str(one["lost"])


def _memory(soak: Document) -> list[str]:
    minutes = soak["seconds"] / 60
    text = f"""\
{minutes:.3g} minutes of mixed requests (JSON, base64, npz, NDJSON, comparisons, traces, neighbors,
models, refusals) at {soak["rate"]:,} a second: {soak["share"]:.0%} of the {soak["capacity"]:,}
that the same clients reach without a pause. {soak["answered"]:,} responses, each compared;
{soak["lost"]} lost. The memory of the master and its workers (PSS) grows by
{soak["growth_percent"]} % from the first minute to the last, without mapped files, whose
share depends on other processes. Goal: at most 2 %.
"""
    picture = f"![memory under load](images/{PICTURE})"
    return ["## Memory", "", *paragraph(text), "", picture]


def _hostile(hostile: Document) -> list[str]:
    text = f"""\
{hostile["sent"]:,} requests of {hostile["kinds"]} kinds from a seeded generator
(`tests/server/hostile.py`): malformed requests, false lengths, hidden second requests, bombs,
paths, other protocols, flipped bits. Each gets a response of the contract or the end of its
connection, no response repeats anything of a request, ordinary requests in between get correct
responses, and no worker ends.
In the second half, a worker grows by {hostile["grown_mb"]} MB at most; after the largest
accepted bodies, which come last, it has {hostile["largest_mb"]:,} MB of its own.
"""
    statuses = hostile["statuses"]
    rows = [[name, f"{count:,}"] for name, count in sorted(statuses.items()) if name != "ended"]
    ended = f"{statuses.get('ended', 0):,}"
    rows.append(["the connection ended: no request, or an incomplete one", ended])
    return ["## Hostile requests", "", *paragraph(text), "", *table(("response", "times"), rows)]


def _described(schema: list[Document]) -> list[str]:
    cases = sum(one["cases"] for one in schema)
    text = f"""\
schemathesis, with all of its checks, sends {cases:,} requests that the OpenAPI document allows or
forbids, to a service with keys and to one without, and finds every response as described.
"""
    return ["## Conformance", "", *paragraph(text)]


def images() -> dict[str, bytes]:
    """The picture of the page, if there are results."""
    return {PICTURE: _drawn(benchmark(NAME)["soak"][0])} if _measured() else {}


def _measured() -> bool:
    return (BENCHMARKS / f"{NAME}.json").exists()


def _drawn(soak: Document) -> bytes:
    import matplotlib as mpl  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    with mpl.rc_context({"font.size": 10, **SVG}):
        canvas = Figure(figsize=(6, 3), layout="constrained")
        panel = canvas.subplots()
        minutes = [second / 60 for second, _, _ in soak["samples"]]
        for number, label in enumerate(("with mapped files (PSS)", "without mapped files")):
            memory = [one[1 + number] for one in soak["samples"]]
            panel.plot(minutes, memory, color=COLOURS[number], label=label)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes")
        panel.set_ylabel("memory of all processes, MB")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()
