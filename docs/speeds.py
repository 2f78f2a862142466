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
    "write": "writing the answer",
}
FROM_VECTORS = {
    "products alone": "the matrix products alone",
    "engine, without": "engine",
    "engine, with attention": "engine, attention kept",
    "torch, as they are": "torch, keys 16 wide",
    "torch, padded": "torch, keys padded to the values' width",
}
FROM_TEXT = {
    "static mean": "static vectors, their mean",
    "text, without": "the service without HTTP",
    "text, with attention": "the same, attention kept",
    "MiniLM": "all-MiniLM-L6-v2",
}


def requests(found: Document) -> list[str]:
    """How many requests are answered, beside a bare route."""
    text = f"""\
`/v1/encode` of one sentence with static vectors, contextual vectors and attention, beside a Flask
route that reads the same body and answers with as many bytes that are ready, both under gunicorn as
the service configures it: {found["workers"]} workers, {found["connections"]} kept connections,
{found["rounds"]} rounds of {found["seconds"]} s, wrk on the same processors. Runs in which a worker
had less than half of its share of the connections were begun anew. Each cell: requests a second,
and the milliseconds in which half and 99 % of them were answered.
"""
    head = ("words", "answer", "KB", "service", "bare route", "ratio")
    rows = [
        [words, kind, f"{one['answer_bytes'] / 1e3:.0f}", *_both(one), one["ratio"]]
        for words, kinds in found["words"].items()
        for kind, one in kinds.items()
    ]
    picture = "![requests a second to those of a bare route](images/requests-per-second.svg)"
    return ["## Requests", *paragraph(text), "", *table(head, rows), "", picture, ""]


def _both(one: Document) -> Iterator[str]:
    return (_rate(one[name]) for name in ("service", "bare"))


def _rate(one: Document) -> str:
    rate, half, most = (one[name] for name in ("requests_per_second", "p50_ms", "p99_ms"))
    return f"{rate:,.0f} · {half:.1f} · {most:.1f}"


def stages(found: Document) -> list[str]:
    """Where the time of one request goes."""
    text = f"""\
One client on one kept connection, sentences of {found["words"]} words, each request followed by one
to the bare route: microseconds in the stages of the service, as `Server-Timing` tells them, and
until the client had the answer. What is left of that is Flask, gunicorn, the network and the
client. Medians of {found["requests"]:,} requests.
"""
    kinds = found["microseconds"]
    rows = [[told, *(one[name] for one in kinds.values())] for name, told in STAGES.items()]
    rows.append(["the rest", *(_rest(one) for one in kinds.values())])
    rows.append(["the whole answer", *(one["answer"] for one in kinds.values())])
    rows.append(["that of the bare route", *(one["bare answer"] for one in kinds.values())])
    return [
        *("## Where the time of a request goes", *paragraph(text), ""),
        *(*table(("µs", *kinds), rows), ""),
    ]


def _rest(one: Document) -> int:
    spent: int = one["answer"] - sum(one[name] for name in STAGES)
    return spent


def workers(found: Document) -> list[str]:
    """Which worker answers how many requests."""
    text = f"""\
Gunicorn's workers at 20 words in base64, {found["workers"]} of them, {found["rounds"]} rounds of
{found["seconds"]} s: so many clients on kept connections or on a new one for each request, and 54
beside 10 that take two seconds to send a request. Requests a second, and the milliseconds in which
half and 99 % of them were answered; of slow clients, how many requests were answered in all rounds.
A kept connection stays with the worker that accepted it: the last column is the part of 64 that the
worker with the most of them had, 0.5 where they are shared evenly.
"""
    cases = list(next(iter(found["kinds"].values())))
    slow = next(case for case in cases if "slow" in case)
    head = ("worker", *cases, "slow ones answered", "busiest")
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
Words that are made contextual in a second, on one core, the median of {found["rounds"]} rounds:
sentences of 32 words one at a time, and 1,000 of 5 to 60 words. The first rows start from static
vectors. Torch does the same layer with the same weights by `scaled_dot_product_attention`, agreeing
to 10⁻⁵, in two ways, of which the faster one is compared; it gives no attention. The others start
from text; all-MiniLM-L6-v2 takes the 1,000 sentences in batches of 32 of like lengths, a part of
them in each round.
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
    head = ("words", *FROM_VECTORS.values(), "to the products", "attention kept", "to torch")
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
    text = "Single sentences by their length, words a second and the engine's ratios:"
    return [text, "", *table(head, rows), "", picture, ""]


def growth(found: Document) -> list[str]:
    """Time and memory by the length of a sentence."""
    text = f"""\
One sentence from text to vectors, on one core, in a process of its own for each length, the
median of {found["rounds"]}: milliseconds, how far the process grew at most, and what its arrays
took, in MB. The exponent is the slope in log-log from {found["fitted_from"]:,} tokens on: 1 where
twice the tokens take twice as much, 2 where they take four times as much.
"""
    kinds, measures = found["tokens"], {"seconds": 1000, "peak_mb": 1, "arrays_mb": 1}
    titles = ("ms", "grown, MB", "arrays, MB")
    head = ["tokens", *(f"{kind}: {title}" for kind in kinds for title in titles)]
    rows = [
        [
            f"{int(n):,}",
            *(_told(kinds[k][n][m] * times) for k in kinds for m, times in measures.items()),
        ]
        for n in next(iter(kinds.values()))
    ]
    fitted = [found["exponents"][kind][measure] for kind in kinds for measure in measures]
    rows.append(["exponent", *fitted])
    picture = "![time and memory by the number of tokens](images/growth.svg)"
    return ["## Growth", *paragraph(text), "", *table(head, rows), "", picture, ""]


def _told(figure: float) -> str:
    """Three digits, or all before the point."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"  # noqa: PLR2004 - three digits


def streams(found: Document) -> list[str]:
    """What a large batch takes, beside a small one."""
    text = f"""\
Batches of sentences of 5 to 60 words to a service with one worker, the median of {found["rounds"]}:
milliseconds a sentence until the last byte of the answer, and how much memory the worker has had at
most, in MB. 100 are answered in one piece; 1,000 and 10,000 as they are made, each by a fresh
service that has answered 100 before.
"""
    counts = ("100", "1000", "10000")
    head = ("answer", "MB of 10,000", *(f"ms, {int(n):,}" for n in counts))
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
