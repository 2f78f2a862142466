"""The pictures of the pages, and plots of speed and memory. Equal results give equal bytes."""

import io
from collections.abc import Mapping
from typing import Any

from docs import pictures
from docs.pictures import COLORS, SVG
from docs.results import benchmark, manifest, result, trainings
from docs.trainings import histories

Document = Mapping[str, Any]

GOALS = {"base64": 0.45, "npz": 0.45, "json": 0.35}
_STYLE = {"font.size": 10, **SVG}
_LINES = {
    "products alone": "matrix products alone",
    "engine, without": "engine",
    "engine, with attention": "engine, attention kept",
    "torch": "torch, the faster way",
}


def images() -> dict[str, bytes]:
    """The bytes of every picture of a page by file name."""
    coarse, pairs = result("coarsewsd"), result("wic")
    columns = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
    title = "CoarseWSD-20: nearest sense centroid, %"
    split = {"accuracy": f"{pairs['split']} accuracy"}
    drawn = {
        "coarsewsd.svg": pictures.bars(coarse, title, columns, "coarsewsd"),
        "wic.svg": pictures.bars(pairs, "WiC", split, "wic", 50.0),
        "learning-curves.svg": pictures.curves(histories(manifest(), trainings())),
        "requests-per-second.svg": requests(benchmark("requests_per_second")),
        "engine.svg": engine(benchmark("engine")),
        "growth.svg": growth(benchmark("growth")),
        "soak.svg": soak(benchmark("reliability")["soak"]),
    }
    for slug, one in result("examples")["sentences"].items():
        svg = pictures.heatmap(one["text"], one["tokens"], one["weights"])
        drawn[f"attention-{slug}.svg"] = svg.encode()
    return drawn


def _canvas(panels: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(4.6 * panels, 3.4), layout="constrained")
    axes = canvas.subplots(1, panels, squeeze=False)[0]
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return canvas, axes


def _svg(canvas: Any) -> bytes:
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def requests(found: Document) -> bytes:
    """Requests per second relative to a bare route, by words and format, with the goals."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        canvas, (panel,) = _canvas(1)
        words = list(found["words"])
        for number, (kind, goal) in enumerate(GOALS.items()):
            places = [place + 0.27 * (number - 1) for place in range(len(words))]
            ratios = [found["words"][one][kind]["ratio"] for one in words]
            panel.bar(places, ratios, 0.25, color=COLORS[number], label=kind)
            at = places[words.index("20")]
            panel.hlines(goal, at - 0.13, at + 0.13, color="#333333", linestyle=":")
        panel.set_xticks(range(len(words)), words)
        panel.set_xlabel("words (dotted: goals)")
        panel.set_ylabel("requests/s to those of a bare route")
        panel.set_ylim(0, 1)
        canvas.legend(loc="outside upper center", frameon=False, ncols=3)
        return _svg(canvas)


def engine(found: Document) -> bytes:
    """Words a second by the length of the sentence."""
    import matplotlib as mpl
    from matplotlib.ticker import LogLocator

    with mpl.rc_context(_STYLE):
        canvas, (panel,) = _canvas(1)
        lengths = [int(length) for length in found["lengths"]]
        for number, (name, title) in enumerate(_LINES.items()):
            rates = [_rate(one["words_per_second"], name) for one in found["lengths"].values()]
            panel.plot(lengths, rates, color=COLORS[number], marker=".", label=title)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.minorticks_off()
        panel.set_xticks(lengths, [str(length) for length in lengths])
        panel.set_xlabel("words of the sentence")
        panel.set_ylabel("words a second")
        canvas.legend(loc="outside upper center", frameon=False, ncols=2)
        return _svg(canvas)


def _rate(rates: Mapping[str, float], name: str) -> float:
    return max(rate for system, rate in rates.items() if system.startswith(name))


def growth(found: Document) -> bytes:
    """Time and memory by the number of tokens, in log-log."""
    import matplotlib as mpl

    heads = {"seconds": "seconds", "peak_mb": "memory, MB"}
    with mpl.rc_context(_STYLE):
        canvas, panels = _canvas(2)
        for panel, (measure, head) in zip(panels, heads.items(), strict=True):
            for number, (kind, by_length) in enumerate(found["tokens"].items()):
                lengths = [int(length) for length in by_length]
                values = [one[measure] for one in by_length.values()]
                exponent = found["exponents"][kind][measure]
                label = f"{kind}: exponent {exponent:.2f}"
                panel.plot(lengths, values, color=COLORS[number], marker=".", label=label)
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.set_xticks(lengths[::2], [f"{length:,}" for length in lengths[::2]])
            panel.tick_params(axis="x", labelsize=8)
            panel.set_xlabel("tokens")
            panel.set_title(head, fontsize=10)
            panel.legend(frameon=False, fontsize=9)
        return _svg(canvas)


def soak(found: Document) -> bytes:
    """Memory of all processes under load, by time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        canvas = Figure(figsize=(6, 3), layout="constrained")
        panel = canvas.subplots()
        minutes = [second / 60 for second, _, _ in found["samples"]]
        for number, label in enumerate(("with mapped files (PSS)", "without mapped files")):
            memory = [one[1 + number] for one in found["samples"]]
            panel.plot(minutes, memory, color=COLORS[number], label=label)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes")
        panel.set_ylabel("memory of all processes, MB")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
        return _svg(canvas)
