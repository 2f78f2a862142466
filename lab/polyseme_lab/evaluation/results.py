"""Results as a text table, as a JSON document and as a plot."""

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from polyseme_lab.evaluation.statistics import LEVEL, RESAMPLES, SEED, IntervalEstimate
from polyseme_lab.evaluation.systems import Kind, Split
from polyseme_lab.training.config import COARSEWSD

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Published(NamedTuple):
    """A row of a published table, in %."""

    title: str
    source: str
    figures: dict[str, float]


@dataclass(frozen=True)
class ResultRow:
    """A system and its value in each column."""

    name: str
    title: str
    kind: Kind
    figures: dict[str, IntervalEstimate]
    facts: dict[str, Any] = field(default_factory=dict)
    """additional values for the document"""


@dataclass(frozen=True)
class Results:
    """A table of systems, with published values for the same data set."""

    task: Literal["coarsewsd", "wic", "similarity", "tagging", "sentences", "pseudowords", "senses"]
    title: str
    columns: dict[str, str]
    """names of measures and their headings in the table"""
    rows: Sequence[ResultRow]
    published: Sequence[Published] = ()
    words: dict[str, dict[str, float]] = field(default_factory=dict)
    """counts, and the measures of the model in %, for each word"""
    notes: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    base: float = 0.0
    """the chance level in %, where the bars of a plot begin; 0 if unknown"""


def document(results: Results) -> dict[str, Any]:
    """Return the results as a JSON document; all measures are in %."""
    return {
        "task": results.task,
        **results.facts,
        "interval": {"percent": LEVEL, "resamples": RESAMPLES, "seed": SEED},
        "systems": {
            row.name: {
                "title": row.title,
                "kind": row.kind,
                **{name: figure._asdict() for name, figure in row.figures.items()},
                **row.facts,
            }
            for row in results.rows
        },
        "published": [
            {"title": row.title, "source": row.source, **row.figures} for row in results.published
        ],
        "notes": list(results.notes),
    }


def table(results: Results) -> str:
    """Return the results as text."""

    def line(title: str, cells: Any) -> str:
        return "  ".join([f"{title:<{width}}", *(f"{cell:<20}" for cell in cells)]).rstrip()

    published = {f"{row.title} (published)": row for row in results.published}
    width = max(map(len, [*(row.title for row in results.rows), *published]))
    lines = [results.title, "", line("", results.columns.values())]
    for row in results.rows:
        figures = map(row.figures.get, results.columns)
        cells = (f"{f.value:5.2f} [{f.low:.1f}, {f.high:.1f}]" if f else "–" for f in figures)
        lines.append(line(row.title, cells))
    for title, values in published.items():
        names = (name for name in results.columns if name in values.figures)
        lines.append(line(title, (f"{values.figures[name]:5.1f}" for name in names)))
    if results.words:
        heads = {name: max(8, len(name)) for name in next(iter(results.words.values()))}
        width = max(map(len, results.words))
        titles = (f"{name:>{wide}}" for name, wide in heads.items())
        lines += ["", "  ".join([" " * width, *titles]).rstrip()]
        for word, counts in results.words.items():
            cells = (
                f"{counts[name]:>{wide},}"
                if isinstance(counts[name], int)
                else f"{counts[name]:>{wide}.2f}"
                for name, wide in heads.items()
            )
            lines.append("  ".join([f"{word:<{width}}", *cells]))
    return "\n".join([*lines, "", *results.notes])


TEN = frozenset(
    ("apple", "bank", "bass", "chair", "club", "digit", "java", "mole", "spring", "trunk")
)
"""The words of CoarseWSD-20 that are measured."""
_COARSEWSD = {
    TEN: {
        "fastText classifier on crawl-300d-2M": (93.8, 91.1),
        "BERT-base, nearest sense centroid": (94.7, 93.3),
        "BERT-large, nearest sense centroid": (95.9, 94.8),
    },
    frozenset(COARSEWSD): {
        "fastText classifier on crawl-300d-2M": (93.8, 86.8),
        "BERT-base, nearest sense centroid": (94.0, 91.0),
        "BERT-large, nearest sense centroid": (95.8, 93.2),
    },
}
"""Accuracy and macro-F1 on all words of a set (Loureiro et al. 2021)."""
_WIC_TEST = {"ELMo": 57.7, "context2vec": 59.3, "BERT-large": 65.5, "people": 80.0}
"""Accuracy (Pilehvar & Camacho-Collados 2019)."""


def published_coarsewsd(words: Collection[str]) -> list[Published]:
    """Return the published figures for exactly these words, if they are the ten or all twenty."""
    return [
        Published(title, "Loureiro et al. 2021", {"accuracy": accuracy, "macro_f1": f1})
        for title, (accuracy, f1) in _COARSEWSD.get(frozenset(words), {}).items()
    ]


def published_wic(split: Split) -> list[Published]:
    """Return the published figures for a split; only test has any."""
    return [
        Published(title, "Pilehvar & Camacho-Collados 2019", {"accuracy": accuracy})
        for title, accuracy in _WIC_TEST.items()
        if split == "test"
    ]


Image: TypeAlias = Literal["png", "svg"]
COLORS = {"control": "#a6a6a6", "model": "#0072b2", "compared": "#d55e00"}
"""Colors that differ for every color vision, and in lightness (Okabe & Ito 2008)."""
DASHES = ((0, (6, 3)), (0, (2, 2)), (0, (8, 2, 1, 2)), (0, (1, 1)))
"""Line styles of published values."""
_STYLE: Any = {"font.size": 10, "svg.hashsalt": "polyseme"}
_METADATA: dict[Image, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}}


def plot_results(results: Results, kind: Image) -> bytes:
    """Plot the results, one panel for each measure. Equal results give equal bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns, count = len(results.columns), len(results.rows) + len(results.published) / 2
    with mpl.rc_context(_STYLE):
        fig = Figure((2.4 + 4.2 * columns, 1.2 + 0.36 * count), layout="constrained")
        panels = fig.subplots(1, columns, sharey=True, squeeze=False)[0]
        for panel, (name, head) in zip(panels, results.columns.items(), strict=True):
            _draw(panel, name, results)
            panel.set_xlabel(f"{head} ({results.base:g}: chance)" if results.base else head)
        fig.suptitle(results.title, fontsize=10)
        if results.published:
            handles, labels = panels[0].get_legend_handles_labels()
            fig.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=9)
        buffer = io.BytesIO()
        fig.savefig(buffer, format=kind, dpi=150, metadata=_METADATA[kind])
    return buffer.getvalue()


def _draw(panel: "Axes", name: str, results: Results) -> None:
    """Draw a bar for each system with its interval and value, and a line for each published one."""
    values, low, high = np.array([row.figures[name] for row in results.rows]).T
    bars = panel.barh(
        range(len(values)),
        values - results.base,
        left=results.base,
        xerr=np.maximum([values - low, high - values], 0),
        color=[COLORS[row.kind] for row in results.rows],
        error_kw={"ecolor": "#333333", "elinewidth": 1, "capsize": 2},
        height=0.7,
    )
    panel.bar_label(bars, [f"{value:.1f}" for value in values], padding=4)
    panel.set_yticks(range(len(values)), [row.title for row in results.rows])
    panel.set_ylim(len(values) - 0.5, -0.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.margins(x=0.15)
    for row, dashes in zip(results.published, DASHES, strict=False):
        numbers = " / ".join(f"{row.figures[column]:.1f}" for column in results.columns)
        label, x = f"{row.title}, published: {numbers}", row.figures[name]
        panel.axvline(x, color="#333333", linestyle=dashes, linewidth=1.2, label=label)
