"""The sections on speed, from `benchmarks/results/`."""

from collections.abc import Iterator, Mapping
from typing import Any

from docs.results import paragraph, table

Document = Mapping[str, Any]

SENTENCES = {"1": "sentences of 32 words", "1000": "sentences of 5 to 60 words"}
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
    "text, without": "tokenizer and engine",
    "text, with attention": "tokenizer and engine, with attention",
    "MiniLM": "all-MiniLM-L6-v2",
}
RATIOS = {
    "with attention, to products": "engine, with attention / the matrix products alone",
    "without, to products": "engine / the matrix products alone",
    "without, to torch": "engine / the faster torch",
    "text with attention, to MiniLM": "tokenizer and engine, with attention / all-MiniLM-L6-v2",
    "text with attention, to static mean": "tokenizer and engine, with attention / mean of static"
    " vectors",
}


def requests(found: Document) -> list[str]:
    """Requests per second compared with a bare route."""
    text = f"""\
The service encodes one sentence per request to `/v1/encode`, with static vectors, contextual
vectors and attention. The bare route is a Flask route that reads the same body and returns a
prepared response of median size. Both run under gunicorn in the configuration of the service, with
{found["workers"]} workers and {found["connections"]} keep-alive connections, for {found["rounds"]}
rounds of {found["seconds"]} s; wrk runs on the same processors. A run was repeated if a worker had
less than half of its share of the connections. Each cell has requests per second, and the median
and the 99th percentile of the response time in milliseconds.
"""
    head = ("words", "format", "KB", "service", "bare route", "ratio")
    rows = [
        [words, kind, f"{one['answer_bytes'] / 1e3:.0f}", *_both(one), one["ratio"]]
        for words, kinds in found["words"].items()
        for kind, one in kinds.items()
    ]
    picture = "![requests per second, relative to a bare route](images/requests-per-second.svg)"
    steady = """\
The next table has consecutive runs with sentences of 20 words in base64, at 8 and at 64 keep-alive
connections. None of these runs was repeated.
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
One client on one keep-alive connection sends sentences of {found["words"]} words. A request to the
bare route follows each request. The table has the microseconds of each stage of the service, from
`Server-Timing`, and the time until the client has the response. *The rest* is Flask, gunicorn, the
network and the client. All figures are medians of {found["requests"]:,} requests.
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
    rounds = found["rounds"]
    text = f"""\
The table compares worker classes of gunicorn and that of the service, with sentences of 20 words in
base64, {found["workers"]} workers and {rounds} round{"s" if rounds > 1 else ""} of
{found["seconds"]} s. The clients use keep-alive connections (*kept*) or a new connection for each
request (*new*). In one case, of at least 4 s, 10 of 64 clients are slow: they take two seconds to
send a request. Each cell has requests per second, and the median and the 99th percentile of the
response time in milliseconds. *Slow clients served* is the number of responses to slow clients. A
keep-alive connection stays with the worker that accepted it. *Largest share* is the largest
fraction of 64 connections at one worker; 0.5 is even.
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
The table has words per second on one core, medians of {found["rounds"]} rounds, for 500 sentences
of 32 words and for 1,000 of 5 to 60 words. The rows up to torch start from static vectors, the
others from text and include the tokenizer. Torch computes the same layer with the same weights by
`scaled_dot_product_attention`, and its results agree to 10⁻⁵. It is measured in two ways, and the
faster one is used in ratios; it returns no attention. All process one sentence at a time, except
that all-MiniLM-L6-v2 has the sentences of 5 to 60 words in batches of 32 of similar lengths. It
computes only a part of the sentences in each round.
"""
    sides = [found["sentences"][number] for number in SENTENCES]
    systems = FROM_VECTORS | FROM_TEXT
    rates = [
        [title, *(f"{side['words_per_second'][name]:,}" for side in sides)]
        for name, title in systems.items()
    ]
    ratios = [
        [RATIOS.get(name, name), *(side["ratios"][name] for side in sides)]
        for name in sides[0]["ratios"]
    ]
    return [
        *("## The engine", *paragraph(text), ""),
        *(*table(("words per second", *SENTENCES.values()), rates), ""),
        *(*table(("ratio", *SENTENCES.values()), ratios), ""),
        *_curve(found["lengths"]),
    ]


def _curve(lengths: Document) -> list[str]:
    head = ("words", *FROM_VECTORS.values())
    head += ("engine / products", "with attention / products", "engine / torch")
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
    picture = "![words per second by the length of the sentence](images/engine.svg)"
    text = "Words per second and ratios of the engine, for single sentences by length:"
    return [text, "", *table(head, rows), "", picture, ""]


def growth(found: Document) -> list[str]:
    """Time and memory by the length of a sentence."""
    text = f"""\
One sentence is processed from text to vectors on one core, in a separate process for each length.
The table has milliseconds, the growth of the process at its peak, and the size of the arrays in MB,
all medians of {found["rounds"]} runs. The exponent is the slope in log-log from
{found["fitted_from"]:,} tokens on: 1 if twice the tokens take twice as much, 2 if they take four
times as much.
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
    """Three significant digits, or an integer from 100 on."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"  # noqa: PLR2004 - three digits


def streams(found: Document) -> list[str]:
    """Time and memory of large and small batches."""
    text = f"""\
Batches of sentences of 5 to 60 words are sent to a service with one worker. The table has the
milliseconds per sentence until the last byte of the response, and the peak memory of the worker in
MB, all medians of {found["rounds"]} runs. Batches of 1,000 and 10,000 are sent to a new service,
after a batch of 100.
"""
    counts = ("100", "1000", "10000")
    head = ("format", "MB of 10,000", *(f"ms, {int(n):,}" for n in counts))
    head += (*(f"memory, {int(n):,}" for n in counts), "memory, 10,000 to 1,000")
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
