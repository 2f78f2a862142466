"""Results as a text table and as a JSON document."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from polyseme_lab.evaluation.statistics import LEVEL, RESAMPLES, SEED, IntervalEstimate
from polyseme_lab.evaluation.systems import Kind
from polyseme_lab.training.config import COARSEWSD


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

    task: Literal["coarsewsd", "wic", "tagging", "sentences", "pseudowords", "senses"]
    title: str
    columns: dict[str, str]
    """names of measures and their headings in the table"""
    rows: Sequence[ResultRow]
    published: Sequence[Published] = ()
    notes: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)


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


def published_coarsewsd(words: Collection[str]) -> list[Published]:
    """Return the published figures for exactly these words, if they are the ten or all twenty."""
    return [
        Published(title, "Loureiro et al. 2021", {"accuracy": accuracy, "macro_f1": f1})
        for title, (accuracy, f1) in _COARSEWSD.get(frozenset(words), {}).items()
    ]
