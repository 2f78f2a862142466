"""What was measured, as a table for people and as a document for programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from polyseme.evaluation.bootstrap import LEVEL, RESAMPLES, SEED, Figure
from polyseme.evaluation.published import Published
from polyseme.evaluation.systems import Kind


@dataclass(frozen=True)
class Row:
    """A system and its figures, one for each column."""

    name: str
    title: str
    kind: Kind
    figures: dict[str, Figure]
    facts: dict[str, Any] = field(default_factory=dict)
    """further numbers, for the document alone"""


@dataclass(frozen=True)
class Results:
    """A table of systems, published figures of the same set, and what has to be said of both."""

    task: Literal["coarsewsd", "wic", "similarity"]
    title: str
    columns: dict[str, str]
    """names of figures, and how the table heads them"""
    rows: Sequence[Row]
    published: Sequence[Published] = ()
    words: dict[str, dict[str, float]] = field(default_factory=dict)
    """of the model, word by word"""
    notes: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    base: float = 0.0
    """what guessing would reach, in %, where that is a number; bars begin there"""


def document(results: Results) -> dict[str, Any]:
    """The results for programs; every figure in %."""
    return {
        "task": results.task,
        **results.facts,
        "interval": {"percent": LEVEL, "resamples": RESAMPLES, "seed": SEED},
        "systems": {
            row.name: {
                "title": row.title,
                "kind": row.kind,
                **{name: one._asdict() for name, one in row.figures.items()},
                **row.facts,
            }
            for row in results.rows
        },
        "published": [
            {"title": one.title, "source": one.source, **one.figures} for one in results.published
        ],
        "notes": list(results.notes),
    }


def table(results: Results) -> str:
    """The results for a person to read."""
    head = [results.title, "", _line("", results.columns.values(), _width(results))]
    lines = [_row(row, results) for row in results.rows]
    lines += [_published(one, results) for one in results.published]
    return "\n".join([*head, *lines, *_words(results), "", *results.notes])


def _width(results: Results) -> int:
    titles = [row.title for row in results.rows] + [_named(one) for one in results.published]
    return max(map(len, titles))


def _named(one: Published) -> str:
    return f"{one.title} (published)"


def _line(title: str, cells: Any, width: int) -> str:
    return "  ".join([f"{title:<{width}}", *(f"{cell:<20}" for cell in cells)]).rstrip()


def _row(row: Row, results: Results) -> str:
    cells = [
        f"{one.value:5.2f} [{one.low:.1f}, {one.high:.1f}]" if one else "–"
        for one in map(row.figures.get, results.columns)
    ]
    return _line(row.title, cells, _width(results))


def _published(one: Published, results: Results) -> str:
    cells = [f"{one.figures[name]:5.1f}" for name in results.columns if name in one.figures]
    return _line(_named(one), cells, _width(results))


def _words(results: Results) -> list[str]:
    if not results.words:
        return []
    names = list(next(iter(results.words.values())))
    width = max(map(len, results.words))
    head = "  ".join([f"{'':<{width}}", *(f"{name:>{max(8, len(name))}}" for name in names)])
    lines = [
        "  ".join([f"{word:<{width}}", *(_cell(one[name], max(8, len(name))) for name in names)])
        for word, one in results.words.items()
    ]
    return ["", head.rstrip(), *lines]


def _cell(number: float, width: int) -> str:
    return f"{number:>{width},}" if isinstance(number, int) else f"{number:>{width}.2f}"
