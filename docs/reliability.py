"""The page on faults, memory and hostile requests, from `benchmarks/results/reliability.json`."""

import io
from collections.abc import Mapping
from typing import Any

from docs.performance import made
from docs.pictures import COLORS, SVG
from docs.results import BENCHMARKS, benchmark, paragraph, table

Document = Mapping[str, Any]

NAME = "reliability"
OK = 200
PICTURE = "soak.svg"
HEAD = """\
# Reliability

`make reliability` measures this and writes `benchmarks/results/reliability.json`; `make docs`
writes this page from that file. The measurement runs gunicorn with two workers and the bundled
model; clients and service share the processors. `make test-all` runs the fault and hostile tests
fewer times. It also tests model folders that are damaged while they are served, full and read-only
disks, logs that cannot be written, signals at every stage of a worker, and valid and invalid
requests generated from the OpenAPI document (`tests/http`). It kills the commands that import,
replace, rename and remove a model at each step; a model is lost at none (`tests/models`)."""


def reliability() -> str:
    """The page."""
    found, attack, work = benchmark(NAME), benchmark("attack"), benchmark("work")
    parts = [
        HEAD.splitlines(),
        _faults(found),
        _memory(found["soak"]),
        _hostile(found["hostile"]),
        [made(NAME, found)],
        _attack(attack),
        [made("attack", attack)],
        _work(work),
        [made("work", work)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _faults(found: Document) -> list[str]:
    text = """\
Clients on keep-alive and on new connections send requests without pause while a fault happens. Each
response is compared, bit for bit, with the expected response. A request is lost if its connection
ends before the response. The goal is to lose only requests on connections of a killed worker.
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
    in_worker = one["lost"] and "inside" in one
    return f"{one['lost']}, in the killed worker" if in_worker else str(one["lost"])


def _memory(soak: Document) -> list[str]:
    minutes = soak["seconds"] / 60
    text = f"""\
Clients send mixed requests for {minutes:.3g} minutes. Most encode a sentence to base64; the others
ask for JSON, npz, NDJSON, comparisons, traces, neighbors, embeddings or models, or are errors. The
clients aim at {soak["share"]:.0%} of the {soak["capacity"]:,} requests per second that they reach
without pauses, and reach {soak["rate"]:,}. Each of the {soak["answered"]:,} responses is compared:
a success with the first response to the same request, an error by its status. {soak["lost"]}
requests were lost or got a wrong response. Between seconds 60 to 90 and the last 30 seconds, the
memory of the master and its workers grows by {soak["growth_percent"]} %; the goal is at most 2 %.
This is the PSS without mapped files, whose share depends on other processes.
"""
    picture = f"![memory under load](images/{PICTURE})"
    return ["## Memory", "", *paragraph(text), "", picture]


def _hostile(hostile: Document) -> list[str]:
    text = f"""\
A seeded generator (`tests/http/hostile.py`) sends {hostile["sent"]:,} requests of
{hostile["kinds"]} kinds: malformed requests, false lengths, smuggled requests, compression bombs,
path traversal, other protocols, flipped bits. Each request gets a documented response, or its
connection is closed. No error repeats text of a request, except unknown words, the names of unknown
fields and valid request IDs; ordinary requests in between get correct responses, and no worker
exits. In the second half, the memory of a worker grows by at most {hostile["grown_mb"]} MB; at the
end, a worker has at most {hostile["largest_mb"]:,} MB of private memory.
"""
    statuses = hostile["statuses"]
    rows = [[name, f"{count:,}"] for name, count in sorted(statuses.items()) if name != "ended"]
    ended = f"{statuses.get('ended', 0):,}"
    rows.append(["connection closed after no request or an incomplete one", ended])
    return ["## Hostile requests", "", *paragraph(text), "", *table(("response", "times"), rows)]


def _attack(attack: Document) -> list[str]:
    crowd = attack["at_once"]
    text = f"""\
A search on each route (`benchmarks/attack.py`) looks for the request within the default limits that
takes the most processor time: it mutates the units of a text (Unicode classes, words, punctuation),
their repetitions, the numbers of words and texts, and the options, in {attack["searched"]} requests
a route. The table has the worst accepted and the worst rejected request of each route, sent alone:
processor seconds of the workers, the memory of a worker above its idle memory, and the size of the
response.
"""
    rows = []
    for route, requests in attack["route"].items():
        accepted = [one for one in requests if one["status"] == OK]
        refused = [one for one in requests if one["status"] != OK]
        for one in (*accepted[:1], *refused[:1]):
            result = str(one["status"]) + (f" `{one['code']}`" if one["code"] else "")
            units = " ".join(f"`{unit}`" for unit in one["units"])
            measured = (one["seconds"], one["peak_mb"], one["response_mb"])
            rows.append([route, units, f"{one['bytes']:,}", result, *map(str, measured)])
    after = f"""\
Of {crowd["requests"]} of the worst requests at once, each status was sent so often:
{", ".join(f"{status} {count} times" for status, count in crowd["statuses"].items())}. Meanwhile the
longest response to `/livez` took {crowd["longest_probe_seconds"]} seconds, the longest one to
another client's short request {crowd["longest_other_seconds"]} seconds, and a worker had at most
{crowd["peak_mb"]} MB more than idle.
"""
    head = ("route", "units", "bytes", "response", "seconds", "MB", "response MB")
    title = "## The most expensive requests"
    return [title, "", *paragraph(text), "", *table(head, rows), "", *paragraph(after)]


def _work(work: Document) -> list[str]:
    text = f"""\
The [work](settings.md#work) of random requests is estimated and measured as processor time
(`benchmarks/work.py`). The table has the ratio of both, and how many estimates are within a factor
of {work["factor"]:g}.
"""
    rows = [
        [
            route,
            f"{one['requests']:,}",
            f"{one['within'] / one['requests']:.0%}",
            str(one["median"]),
            " to ".join(map(str, one["p1_p99"])),
        ]
        for route, one in work["route"].items()
    ]
    head = ("route", "requests", "within", "median ratio", "98 % of the ratios")
    return ["## Estimated work", "", *paragraph(text), "", *table(head, rows)]


def images() -> dict[str, bytes]:
    """The picture of the page, if there are results."""
    return {PICTURE: _drawn(benchmark(NAME)["soak"])} if _measured() else {}


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
            panel.plot(minutes, memory, color=COLORS[number], label=label)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes")
        panel.set_ylabel("memory of all processes, MB")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()
