"""The pictures of the pages: heatmaps and plots of results. Equal results give equal bytes."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from xml.etree import ElementTree as ET

from docs.results import benchmark, histories, manifest, result, trainings

from polyseme_lab.evaluation.results import Published, ResultRow, Results
from polyseme_lab.evaluation.statistics import IntervalEstimate

Document = Mapping[str, Any]

CELL, LETTER, MARGIN = 20, 7.2, 8
"""Sizes of a heatmap in pixels: side of a cell, width of a letter, margin."""
FAINT = 0.02
"""Weights below this are not drawn."""
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.cell { fill: #0072b2 } .frame { fill: none; stroke: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #d0d7de } .cell { fill: #56b4e9 } }"""
TABLE_STYLE = f"{STYLE}\n.small {{ font-size: 10.5px }} .strong {{ font-weight: 600 }}"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("-", "--", "-.", ":")
"""Line styles. The style changes when the colors repeat, after seven lines."""
SVG: Any = {"svg.hashsalt": "polyseme", "svg.fonttype": "none"}
"""Settings for equal bytes, and for text as text, which is an eighth of the size of outlines."""
GOALS = {"base64": 0.45, "npz": 0.45, "json": 0.35}
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
        "coarsewsd.svg": bars(coarse, title, columns, "coarsewsd"),
        "wic.svg": bars(pairs, "WiC", split, "wic", 50.0),
        "learning-curves.svg": curves(histories(manifest(), trainings())),
        "requests-per-second.svg": requests(benchmark("requests_per_second")),
        "engine.svg": engine(benchmark("engine")),
        "growth.svg": growth(benchmark("growth")),
        "soak.svg": soak(benchmark("reliability")["soak"]),
    }
    drawn |= heads(result("heads")["models"])
    for slug, one in result("examples")["sentences"].items():
        drawn[f"attention-{slug}.svg"] = heatmap(one["text"], one["tokens"], one["weights"])
    return drawn


def heatmap(text: str, tokens: Sequence[str], weights: Sequence[Any]) -> bytes:
    """Return an SVG with a heatmap of the attention weights [L, h, n, n] of each head.

    A row is a query token, a column a key token. The opacity of a cell is its weight divided by the
    largest one.
    """
    name = "head {1}" if len(weights) == 1 else "layer {0}, head {1}"
    panels = [
        (name.format(layer, head), matrix)
        for layer, heads in enumerate(weights)
        for head, matrix in enumerate(heads)
    ]
    label = LETTER * max(map(len, tokens)) + MARGIN
    side, top = CELL * len(tokens), label + (CELL if len(panels) > 1 else 0)
    width = label + len(panels) * (side + 2 * MARGIN)
    title = f"Attention weights of the words in “{text}”"
    svg = _element(width, top + side + MARGIN, title, STYLE)
    for row, token in enumerate(tokens):
        place = {"x": f"{label - 6:.0f}", "y": f"{top + CELL * (row + 0.7):.0f}"}
        ET.SubElement(svg, "text", {**place, "text-anchor": "end"}).text = token
    most = max(weight for _, matrix in panels for row in matrix for weight in row)
    for number, (title, matrix) in enumerate(panels):
        left = label + number * (side + 2 * MARGIN)
        if len(panels) > 1:
            ET.SubElement(svg, "text", {"x": f"{left:.0f}", "y": "14"}).text = title
        for column, token in enumerate(tokens):
            x, y = left + CELL * (column + 0.7), top - 5
            turned = {"transform": f"translate({x:.0f} {y:.0f}) rotate(-90)"}
            ET.SubElement(svg, "text", turned).text = token
        for row, line in enumerate(matrix):
            for column, weight in enumerate(line):
                if weight >= FAINT:
                    cell = {
                        "class": "cell",
                        "x": f"{left + CELL * column:.0f}",
                        "y": f"{top + CELL * row:.0f}",
                        "width": str(CELL - 1),
                        "height": str(CELL - 1),
                        "fill-opacity": f"{weight / most:.2f}",
                    }
                    ET.SubElement(svg, "rect", cell)
        frame = {"class": "frame", "x": f"{left - 1:.0f}", "y": f"{top - 1:.0f}"}
        ET.SubElement(svg, "rect", {**frame, "width": f"{side + 1}", "height": f"{side + 1}"})
    return _bytes(svg)


def _element(width: float, height: float, title: str, style: str = TABLE_STYLE) -> ET.Element:
    """An SVG with a title and a style, and nothing else."""
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "role": "img",
        },
    )
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "style").text = style
    return svg


def _bytes(svg: ET.Element) -> bytes:
    ET.indent(svg, space="")
    return ET.tostring(svg, encoding="unicode").encode() + b"\n"


def _text(
    svg: ET.Element, x: float, y: float, text: str, anchor: str = "start", **more: str
) -> None:
    place = {"x": f"{x:.0f}", "y": f"{y:.0f}", "text-anchor": anchor}
    ET.SubElement(svg, "text", {**place, **more}).text = text


def _numbers(head: Mapping[str, Any]) -> str:
    """Return the numbers of a layer and of a head, from 0 as in the API; results count from 1."""
    return f"{head['layer'] - 1}.{head['head'] - 1}"


def heads(models: Mapping[str, Document]) -> dict[str, bytes]:
    """The pictures of what the heads of models attend to, by file name."""
    names = [_numbers(one) for found in models.values() for one in found["heads"]]
    above = [(name, len(found["heads"])) for name, found in models.items()]
    tables = []
    for direction in next(iter(models.values()))["relations"]:
        rows = {}
        for relation, one in next(iter(models.values()))["relations"][direction].items():
            fixed = one["distance_share"]["value"]
            shares = [
                share
                for found in models.values()
                for share in found["relations"][direction][relation]["heads"]
            ]
            cells = [(f"{share:.0f}", (share - fixed) / 50) for share in shares]
            rows[one["name"]] = [(f"{fixed:.0f}", 0.0), *cells]
        tables.append(rows)
    deep = next(iter(models.values()))
    it = deep["sentences"]["tired"]
    rows = {
        f"{_numbers(one)} {one['name']}": [
            (f"{100 * weight:.0f}", weight)
            for weight in it["weights"][one["layer"] - 1][one["head"] - 1]
        ]
        for one in deep["heads"]
    }
    title = "How often the word with the largest weight is in a syntactic relation, %"
    return {
        "heads-distances.svg": head_panels(models),
        "heads-relations.svg": grids(title, ["fixed", *names], tables, [("", 1), *above], 28),
        "heads-it.svg": grids(
            f"Weights of “it” in “{it['text']}”, %", it["tokens"], [rows], [], 58
        ),
    }


def grids(
    title: str,
    columns: Sequence[str],
    tables: Sequence[Mapping[str, Sequence[tuple[str, float]]]],
    above: Sequence[tuple[str, int]],
    cell: float,
) -> bytes:
    """Return an SVG with tables of numbers; a cell has a text and an opacity from 0 to 1.

    `above` has titles over the columns, each with the number of its columns.
    """
    row_height, top = 18, 38 if above else 20
    label = 6.4 * max(len(row) for rows in tables for row in rows) + 2 * MARGIN
    height = sum(top + row_height * len(rows) + 2 * MARGIN for rows in tables)
    groups = [left for left, _ in _spans(above)] or [0]
    lefts = [
        label + cell * place + MARGIN * sum(place >= group for group in groups[1:])
        for place in range(len(columns))
    ]
    svg = _element(lefts[-1] + cell + MARGIN, height, title)
    begin = 0.0
    for rows in tables:
        for first, (name, _) in zip(groups, above, strict=False):
            _text(svg, lefts[first], begin + 14, name, **{"class": "strong"})
        for left, column in zip(lefts, columns, strict=True):
            middle = left + cell / 2
            _text(svg, middle, begin + top - 5, column, "middle", **{"class": "small"})
        for number, (row, cells) in enumerate(rows.items()):
            y = begin + top + row_height * number
            _text(svg, label - 6, y + 13, row, "end")
            for left, (text, opacity) in zip(lefts, cells, strict=True):
                if opacity >= FAINT:
                    place = {"x": f"{left:.0f}", "y": f"{y:.0f}", "class": "cell"}
                    size = {"width": f"{cell - 1:.0f}", "height": str(row_height - 1)}
                    shade = {"fill-opacity": f"{min(opacity, 1) * 0.75:.2f}"}
                    ET.SubElement(svg, "rect", {**place, **size, **shade})
                _text(svg, left + cell / 2, y + 13, text, "middle", **{"class": "small"})
        begin += top + row_height * len(rows) + 2 * MARGIN
    return _bytes(svg)


def _spans(above: Sequence[tuple[str, int]]) -> Iterator[tuple[int, str]]:
    """The first column of each title."""
    first = 0
    for name, count in above:
        yield first, name
        first += count


def head_panels(models: Mapping[str, Document]) -> bytes:
    """Return an SVG with a panel for each head: its mean weight by distance.

    The bars are of equal scale; the bar of the token itself has no fill.
    """
    bar, tall, gap = 7, 60, 14
    most = max(max(one["weight_at"]) for found in models.values() for one in found["heads"])
    count = max(one["head"] for found in models.values() for one in found["heads"])
    bars = len(next(iter(models.values()))["heads"][0]["weight_at"])
    width, height = bar * bars, tall + 44
    layers = [
        (name, layer, [one for one in found["heads"] if one["layer"] == layer])
        for name, found in models.items()
        for layer in sorted({one["layer"] for one in found["heads"]})
    ]
    title = "Mean attention weight by distance, head by head"
    svg = _element(MARGIN + count * (width + gap), 22 + len(layers) * (height + 26), title)
    for row, (name, layer, of_layer) in enumerate(layers):
        top = row * (height + 26)
        _text(svg, MARGIN, top + 14, f"{name}, layer {layer - 1}", **{"class": "strong"})
        for column, one in enumerate(of_layer):
            left, bottom = MARGIN + column * (width + gap), top + 40 + tall
            label = f"{_numbers(one)} {one['name']}"
            _text(svg, left, top + 33, label, **{"class": "small"})
            for place, weight in enumerate(one["weight_at"]):
                if round(tall * weight / most):
                    kind = "frame" if place == bars // 2 else "cell"
                    ET.SubElement(
                        svg,
                        "rect",
                        {
                            "class": kind,
                            "x": f"{left + bar * place}",
                            "y": f"{bottom - tall * weight / most:.0f}",
                            "width": str(bar - 1),
                            "height": f"{tall * weight / most:.0f}",
                        },
                    )
            line = {"x1": str(left), "x2": str(left + width), "class": "frame"}
            ET.SubElement(svg, "line", {**line, "y1": f"{bottom}", "y2": f"{bottom}"})
            for place, text in ((0, "−8"), (bars // 2, "0"), (bars - 1, "8")):
                x = left + bar * (place + 0.5)
                _text(svg, x, bottom + 13, text, "middle", **{"class": "small"})
    return _bytes(svg)


@contextmanager
def _canvas(width: float = 4.6, height: float = 3.4, panels: int = 1) -> Iterator[tuple[Any, Any]]:
    """A figure and its panels, in the style of the pages."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 10, **SVG}):
        canvas = Figure(figsize=(width, height), layout="constrained")
        axes = canvas.subplots(1, panels, squeeze=False)[0]
        for panel in axes:
            panel.spines[["top", "right"]].set_visible(False)
        yield canvas, axes


def _svg(canvas: Any) -> bytes:
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def curves(histories: Mapping[str, Sequence[Document]]) -> bytes:
    """The held-out scores of training runs over their steps."""
    heads = {"auc": "pairs, AUC, %", "macro_f1": "macro-F1, %"}
    with _canvas(9, 3.6, panels=2) as (canvas, panels):
        for panel, (measure, head) in zip(panels, heads.items(), strict=True):
            for number, (name, history) in enumerate(histories.items()):
                points = [p for p in history if p.get(measure) is not None]
                steps, values = ([p[key] for p in points] for key in ("step", measure))
                color = COLORS[number % len(COLORS)]
                dashes = DASHES[number // len(COLORS) % len(DASHES)]
                panel.plot(steps, values, dashes, color=color, marker=".", label=name)
            panel.set_xlabel("steps")
            panel.set_title(f"held-out lemmas: {head}", fontsize=10)
        handles, labels = panels[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", frameon=False, ncols=3)
        return _svg(canvas)


def bars(
    document: Document,
    title: str,
    columns: dict[str, str],
    task: Literal["coarsewsd", "wic"],
    base: float = 0.0,
) -> bytes:
    """The scores of a document of `polyseme evaluate --json`."""
    import matplotlib as mpl

    from polyseme_lab.evaluation.results import plot_results

    rows = [
        ResultRow(
            name, one["title"], one["kind"], {key: IntervalEstimate(**one[key]) for key in columns}
        )
        for name, one in document["systems"].items()
    ]
    published = [
        Published(one["title"], one["source"], {key: one[key] for key in columns})
        for one in document["published"]
    ]
    results = Results(task, title, columns, rows, published, base=base)
    with mpl.rc_context(SVG):
        return plot_results(results, "svg")


def requests(found: Document) -> bytes:
    """Requests per second relative to a bare route, by words and format, with the goals."""
    with _canvas() as (canvas, (panel,)):
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
    from matplotlib.ticker import LogLocator

    with _canvas() as (canvas, (panel,)):
        lengths = [int(length) for length in found["lengths"]]
        for number, (name, title) in enumerate(_LINES.items()):
            rates = []
            for one in found["lengths"].values():
                speeds = one["tokens_per_second"].items()
                rates.append(max(speed for system, speed in speeds if system.startswith(name)))
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


def growth(found: Document) -> bytes:
    """Time and memory by the number of tokens, in log-log."""
    heads = {"seconds": "seconds", "peak_mb": "memory, MB"}
    with _canvas(9.2, panels=2) as (canvas, panels):
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
    with _canvas(6, 3) as (canvas, (panel,)):
        minutes = [second / 60 for second, _, _ in found["samples"]]
        for number, label in enumerate(("with mapped files (PSS)", "without mapped files")):
            memory = [one[1 + number] for one in found["samples"]]
            panel.plot(minutes, memory, color=COLORS[number], label=label)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("minutes")
        panel.set_ylabel("memory of all processes, MB")
        panel.legend(frameon=False)
        return _svg(canvas)
