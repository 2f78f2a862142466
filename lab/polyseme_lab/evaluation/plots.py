"""Plots of results: bars for measured values, dashed lines for published ones."""

import io
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polyseme_lab.evaluation.results import ResultRow, Results

Image: TypeAlias = Literal["png", "svg"]
COLORS = {"control": "#a6a6a6", "model": "#0072b2", "compared": "#d55e00"}
"""Colors that differ for every color vision, and in lightness (Okabe & Ito 2008)."""
DASHES = ((0, (6, 3)), (0, (2, 2)), (0, (8, 2, 1, 2)), (0, (1, 1)))
"""Line styles of published values."""
_STYLE: Any = {"font.size": 10, "svg.hashsalt": "polyseme"}
_METADATA: dict[Image, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}}
_BAR, _PANEL, _TITLES, _MARGIN, _LEGEND = 0.36, 4.2, 2.4, 1.2, 0.2
"""Inches of a bar, a panel, the names of systems, margins, and a line of the legend."""
_ROOM, _LEFT = 0.13, 0.03
"""Free space relative to the range of values: on the right, for numbers, and on the left if an
interval extends below the base."""


def plot_results(results: Results, kind: Image) -> bytes:
    """Plot the results, one panel for each measure. Equal results give equal bytes."""
    rows = results.rows
    height = _MARGIN + _BAR * len(rows) + _LEGEND * len(results.published)
    with mpl.rc_context(_STYLE):
        size = (_TITLES + _PANEL * len(results.columns), height)
        fig = Figure(figsize=size, layout="constrained")
        panels = fig.subplots(1, len(results.columns), sharey=True, squeeze=False)[0]
        for panel, (name, head) in zip(panels, results.columns.items(), strict=True):
            _draw(panel, name, rows, results.base)
            _draw_published(panel, name, results)
            panel.set_xlabel(f"{head} ({results.base:g}: chance)" if results.base else head)
        fig.suptitle(results.title, fontsize=10)
        if results.published:
            handles, labels = panels[0].get_legend_handles_labels()
            fig.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=9)
        buffer = io.BytesIO()
        fig.savefig(buffer, format=kind, dpi=150, metadata=_METADATA[kind])
    return buffer.getvalue()


def _draw(panel: Axes, name: str, rows: Sequence[ResultRow], base: float) -> None:
    """Draw a bar for each system, from `base`, with its interval."""
    figures = [row.figures[name] for row in rows]
    values = [one.value for one in figures]
    below = [max(one.value - one.low, 0) for one in figures]
    above = [max(one.high - one.value, 0) for one in figures]
    panel.barh(
        range(len(rows)),
        [value - base for value in values],
        left=base,
        xerr=[below, above],
        color=[COLORS[row.kind] for row in rows],
        error_kw={"ecolor": "#333333", "elinewidth": 1, "capsize": 2},
        height=0.7,
    )
    panel.set_yticks(range(len(rows)), [row.title for row in rows])
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_published(panel: Axes, name: str, results: Results) -> None:
    """Draw a dashed line for each published value, and write the values of the bars."""
    published = [one.figures[name] for one in results.published]
    for one, value, dashes in zip(results.published, published, DASHES, strict=False):
        numbers = " / ".join(f"{one.figures[column]:.1f}" for column in results.columns)
        label = f"{one.title}, published: {numbers}"
        panel.axvline(value, color="#333333", linestyle=dashes, linewidth=1.2, label=label)
    figures = [row.figures[name] for row in results.rows]
    low = min(results.base, *(one.low for one in figures))
    high = max(results.base, *(one.high for one in figures), *published)
    left = 0 if low == results.base else _LEFT * (high - low)
    panel.set_xlim(low - left, high + _ROOM * (high - low))
    for place, figure in enumerate(figures):
        number, point = f"{figure.value:.1f}", (high, place)
        panel.annotate(number, point, (6, 0), textcoords="offset points", va="center")
