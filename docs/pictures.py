"""Plot results: heatmaps of attention, learning curves, and bar charts of evaluations.

The functions plot data from JSON documents. Equal data give equal bytes.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from xml.etree import ElementTree as ET

from polyseme_lab.evaluation.results import ResultRow, Results
from polyseme_lab.evaluation.statistics import IntervalEstimate

CELL, LETTER, MARGIN = 20, 7.2, 8
"""Sizes in pixels: side of a cell, width of a letter, margin."""
FAINT = 0.02
"""Weights below this are not drawn."""
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.cell { fill: #0072b2 } .frame { fill: none; stroke: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #d0d7de } .cell { fill: #56b4e9 } }"""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
SVG: Any = {"svg.hashsalt": "polyseme", "svg.fonttype": "none"}
"""Settings for equal bytes, and for text as text, which is an eighth of the size of outlines."""
DASHES = ("-", "--", "-.", ":")
"""Line styles. The style changes when the colors repeat, after seven lines."""


def heatmap(text: str, tokens: Sequence[str], weights: Sequence[Any]) -> str:
    """Return an SVG with a heatmap of the attention weights [L, h, n, n] of each head.

    A row is a query token, a column a key token.
    """
    panels = [
        (_title(layer, head, weights), matrix)
        for layer, heads in enumerate(weights)
        for head, matrix in enumerate(heads)
    ]
    label = LETTER * max(map(len, tokens)) + MARGIN
    side, top = CELL * len(tokens), label + (CELL if len(panels) > 1 else 0)
    width = label + len(panels) * (side + 2 * MARGIN)
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {top + side + MARGIN:.0f}",
            "width": f"{width:.0f}",
            "role": "img",
        },
    )
    ET.SubElement(svg, "title").text = f"Attention weights of the words in “{text}”"
    ET.SubElement(svg, "style").text = STYLE
    for row, token in enumerate(tokens):
        place = {"x": f"{label - 6:.0f}", "y": f"{top + CELL * (row + 0.7):.0f}"}
        ET.SubElement(svg, "text", {**place, "text-anchor": "end"}).text = token
    most = max(weight for _, matrix in panels for row in matrix for weight in row)
    for number, (title, matrix) in enumerate(panels):
        left = label + number * (side + 2 * MARGIN)
        name = title if len(panels) > 1 else ""
        _panel(svg, (left, top), tokens, matrix, most=most, title=name)
    ET.indent(svg, space="")
    return ET.tostring(svg, encoding="unicode") + "\n"


def _title(layer: int, head: int, weights: Sequence[Any]) -> str:
    return f"head {head + 1}" if len(weights) == 1 else f"layer {layer + 1}, head {head + 1}"


def _panel(
    svg: ET.Element,
    corner: tuple[float, float],
    tokens: Sequence[str],
    matrix: Sequence[Sequence[float]],
    *,
    most: float,
    title: str,
) -> None:
    """Draw the heatmap of a head; the opacity of a cell is its weight divided by `most`."""
    left, top = corner
    side = CELL * len(tokens)
    if title:
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


def curves(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> bytes:
    """Return an SVG plot of the held-out scores of training runs over their steps."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({"font.size": 10, **SVG}):
        canvas = Canvas(figsize=(9, 3.6), layout="constrained")
        panels = canvas.subplots(1, 2)
        heads = {"auc": "pairs, AUC, %", "macro_f1": "macro-F1, %"}
        for panel, (measure, head) in zip(panels, heads.items(), strict=True):
            for number, (name, history) in enumerate(histories.items()):
                points = [p for p in history if p.get(measure) is not None]
                steps, values = ([p[key] for p in points] for key in ("step", measure))
                color = COLORS[number % len(COLORS)]
                dashes = DASHES[number // len(COLORS) % len(DASHES)]
                panel.plot(steps, values, dashes, color=color, marker=".", label=name)
            panel.set_xlabel("steps")
            panel.set_title(f"held-out lemmas: {head}", fontsize=10)
            panel.spines[["top", "right"]].set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", frameon=False, ncols=3)
        buffer = io.BytesIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def bars(
    document: Mapping[str, Any],
    title: str,
    columns: dict[str, str],
    task: Literal["coarsewsd", "wic"],
    base: float = 0.0,
) -> bytes:
    """Return an SVG plot of a document of `polyseme evaluate --json`."""
    import matplotlib as mpl

    from polyseme_lab.evaluation.results import Published, plot_results

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
