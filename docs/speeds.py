"""The sections on speed, from `benchmarks/results/`."""

from collections.abc import Iterator, Mapping
from typing import Any

from docs.results import paragraph, table

Document = Mapping[str, Any]

SENTENCES = {"1": "one at a time", "1000": "1,000 sentences"}
STAGES = {
    "parse": "reading and checking the request",
    "tokens": "tokens",
    "static": "static vectors",
    "attention": "attention",
    "write": "writing the response",
}
FROM_VECTORS = {
    "products alone": "the matrix products alone",
    "engine, without": "engine",
    "engine, with attention": "engine, with attention",
    "torch, as they are": "torch, keys 16 wide",
    "torch, padded": "torch, keys padded to the values' width",
}
FROM_TEXT = {
    "static mean": "mean of static vectors",
    "text, without": "the service without HTTP",
    "text, with attention": "the same, with attention",
    "MiniLM": "all-MiniLM-L6-v2",
}


def requests(found: Document) -> list[str]:
    """Requests a second beside a bare route."""
    text = f"""\
`/v1/encode` of one sentence with static vectors, contextual vectors and attention, and a bare Flask
route that reads the same body and returns as many prepared bytes. Both run under gunicorn as the
service configures it: {found["workers"]} workers, {found["connections"]} kept connections,
{found["rounds"]} rounds of {found["seconds"]} s, wrk on the same processors. Runs in which a
worker had less than half of its share of the connections were repeated. Each cell has requests a
second, and the median and the 99th percentile of the response time in milliseconds.
"""
    head = ("words", "format", "KB", "service", "bare route", "ratio")
    rows = [
        [words, kind, f"{one['answer_bytes'] / 1e3:.0f}", *_both(one), one["ratio"]]
        for words, kinds in found["words"].items()
        for kind, one in kinds.items()
    ]
    picture = "![requests a second to those of a bare route](images/requests-per-second.svg)"
    steady = """\
20 words in base64 at 8 and at 64 kept connections, shared among the workers as they come: one run
after the other, with the lowest and the median.
"""
    names = ("connections", "requests/s of each run", "lowest to median", "highest p99, ms")
    runs = [
        [
            number,
            ", ".join(f"{rate:,}" for rate in one["runs"]),
            one["least_to_median"],
            one["p99_ms"],
        ]
        for number, one in found["steady"].items()
    ]
    return [
        *("## Requests", *paragraph(text), "", *table(head, rows), "", picture, ""),
        *(*paragraph(steady), "", *table(names, runs), ""),
    ]


def _both(one: Document) -> Iterator[str]:
    return (_rate(one[name]) for name in ("service", "bare"))


def _rate(one: Document) -> str:
    rate, half, most = (one[name] for name in ("requests_per_second", "p50_ms", "p99_ms"))
    return f"{rate:,.0f} · {half:.1f} · {most:.1f}"


def stages(found: Document) -> list[str]:
    """Where the time of one request goes."""
    text = f"""\
One client on one kept connection, sentences of {found["words"]} words, each request followed by
one to the bare route: microseconds in the stages of the service, from `Server-Timing`, and until
the client has the response. The rest is Flask, gunicorn, the network and the client. Medians of
{found["requests"]:,} requests.
"""
    kinds = found["microseconds"]
    rows = [[title, *(one[name] for one in kinds.values())] for name, title in STAGES.items()]
    rows.append(["the rest", *(_rest(one) for one in kinds.values())])
    rows.append(["the whole response", *(one["answer"] for one in kinds.values())])
    rows.append(["the bare route's response", *(one["bare answer"] for one in kinds.values())])
    return [
        *("## Where the time of a request goes", *paragraph(text), ""),
        *(*table(("µs", *kinds), rows), ""),
    ]


def _rest(one: Document) -> int:
    spent: int = one["answer"] - sum(one[name] for name in STAGES)
    return spent


def workers(found: Document) -> list[str]:
    """Requests a second of each kind of worker."""
    text = f"""\
Gunicorn's workers at 20 words in base64, {found["workers"]} of them, {found["rounds"]} rounds of
{found["seconds"]} s: clients on kept connections or on a new one for each request, and 54 clients
beside 10 that take two seconds to send a request. Each cell has requests a second, and the median
and the 99th percentile of the response time in milliseconds; of slow clients, the number of
responses in all rounds. A kept connection stays with the worker that accepted it: the last column
is the largest share of 64 connections at one worker, 0.5 if they are shared evenly.
"""
    cases = list(next(iter(found["kinds"].values())))
    slow = next(case for case in cases if "slow" in case)
    head = ("worker", *cases, "slow clients served", "largest share")
    rows = [
        [
            name,
            *(_rate(one[case]) for case in cases),
            one[slow]["slow_answered"],
            _share(one["64 kept"]["busiest"]),
        ]
        for name, one in found["kinds"].items()
    ]
    return ["## Which worker", *paragraph(text), "", *table(head, rows), ""]


def _share(part: float) -> str:
    return f"{part:.2f}" if part else "none kept"


def engine(found: Document) -> list[str]:
    """Words a second on one core."""
    text = f"""\
Contextual vectors of words a second on one core, the median of {found["rounds"]} rounds:
sentences of 32 words one at a time, and 1,000 sentences of 5 to 60 words. The first rows start
from static vectors. Torch computes the same layer with the same weights by
`scaled_dot_product_attention`, agreeing to 10⁻⁵, in two ways, of which the faster is
compared; it returns no attention. The other rows start from text. all-MiniLM-L6-v2 computes the
1,000 sentences in batches of 32 of similar lengths, a part of them in each round.
"""
    sides = [found["sentences"][number] for number in SENTENCES]
    systems = FROM_VECTORS | FROM_TEXT
    rates = [
        [title, *(f"{side['words_per_second'][name]:,}" for side in sides)]
        for name, title in systems.items()
    ]
    ratios = [[name, *(side["ratios"][name] for side in sides)] for name in sides[0]["ratios"]]
    return [
        *("## The engine", *paragraph(text), ""),
        *(*table(("words a second", *SENTENCES.values()), rates), ""),
        *(*table(("ratio", *SENTENCES.values()), ratios), ""),
        *_curve(found["lengths"]),
    ]


def _curve(lengths: Document) -> list[str]:
    head = ("words", *FROM_VECTORS.values(), "to the products", "with attention", "to torch")
    rows = [
        [
            length,
            *(f"{one['words_per_second'][name]:,}" for name in FROM_VECTORS),
            one["ratios"]["without, to products"],
            one["ratios"]["with attention, to products"],
            one["ratios"]["without, to torch"],
        ]
        for length, one in lengths.items()
    ]
    picture = "![words a second by the length of the sentence](images/engine.svg)"
    text = "Single sentences by length: words a second, and the engine's ratios."
    return [text, "", *table(head, rows), "", picture, ""]


def growth(found: Document) -> list[str]:
    """Time and memory by the length of a sentence."""
    text = f"""\
One sentence from text to vectors on one core, in a separate process for each length, the median
of {found["rounds"]}: milliseconds, growth of the process at its peak, and size of its arrays, in
MB. The exponent is the slope in log-log from {found["fitted_from"]:,} tokens on: 1 if twice the
tokens take twice as much, 2 if they take four times as much.
"""
    kinds, measures = found["tokens"], {"seconds": 1000, "peak_mb": 1, "arrays_mb": 1}
    titles = ("ms", "growth, MB", "arrays, MB")
    head = ["tokens", *(f"{kind}: {title}" for kind in kinds for title in titles)]
    rows = [
        [
            f"{int(n):,}",
            *(_digits(kinds[k][n][m] * times) for k in kinds for m, times in measures.items()),
        ]
        for n in next(iter(kinds.values()))
    ]
    fitted = [found["exponents"][kind][measure] for kind in kinds for measure in measures]
    rows.append(["exponent", *fitted])
    picture = "![time and memory by the number of tokens](images/growth.svg)"
    return ["## Growth", *paragraph(text), "", *table(head, rows), "", picture, ""]


def _digits(figure: float) -> str:
    """Three digits, or all digits of a large number."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"  # noqa: PLR2004 - three digits


def streams(found: Document) -> list[str]:
    """Time and memory of large and small batches."""
    text = f"""\
Batches of sentences of 5 to 60 words to a service with one worker, the median of
{found["rounds"]}: milliseconds a sentence until the last byte of the response, and the peak
memory of the worker in MB. NDJSON is streamed; other formats are completed before they
are sent, up to `max_answer_bytes`. Batches of 1,000 and 10,000 go to a new service after a batch of
100.
"""
    counts = ("100", "1000", "10000")
    head = ("format", "MB of 10,000", *(f"ms, {int(n):,}" for n in counts))
    head += (*(f"memory, {int(n):,}" for n in counts), "ratio of the last two")
    rows = [
        [
            *(kind, f"{one['10000']['answer_mb']:,.0f}"),
            *(f"{one[n]['milliseconds_a_sentence']:.2f}" for n in counts),
            *(f"{one[n]['peak_mb']:.0f}" for n in counts),
            one["ratio_of_peaks"],
        ]
        for kind, one in found["kinds"].items()
    ]
    return ["## Large batches", *paragraph(text), "", *table(head, rows), ""]
