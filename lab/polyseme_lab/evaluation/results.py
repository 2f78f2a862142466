"""Format measured and published results as a text table and as a JSON document."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from polyseme_lab.evaluation.statistics import LEVEL, RESAMPLES, SEED, IntervalEstimate
from polyseme_lab.evaluation.systems import Kind, Split


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


COARSEWSD_COLUMNS = {"accuracy": "accuracy", "macro_f1": "macro-F1"}


def coarsewsd_title(words: int, sentences: int) -> str:
    """Return the title of the table of CoarseWSD-20."""
    return (
        f"CoarseWSD-20, {words} words, {sentences:,} test sentences: nearest sense centroid, means"
        " over the words, %"
    )


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
    """Return the results as text."""

    def line(title: str, cells: Any) -> str:
        return "  ".join([f"{title:<{width}}", *(f"{cell:<20}" for cell in cells)]).rstrip()

    published = {f"{one.title} (published)": one for one in results.published}
    width = max(map(len, [*(row.title for row in results.rows), *published]))
    lines = [results.title, "", line("", results.columns.values())]
    for row in results.rows:
        figures = map(row.figures.get, results.columns)
        cells = (f"{f.value:5.2f} [{f.low:.1f}, {f.high:.1f}]" if f else "–" for f in figures)
        lines.append(line(row.title, cells))
    for title, one in published.items():
        names = (name for name in results.columns if name in one.figures)
        lines.append(line(title, (f"{one.figures[name]:5.1f}" for name in names)))
    return "\n".join([*lines, *_word_lines(results.words), "", *results.notes])


def _word_lines(words: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of the table with one row per word."""
    if not words:
        return []
    names = list(next(iter(words.values())))
    width = max(map(len, words))
    head = "  ".join([f"{'':<{width}}", *(f"{name:>{max(8, len(name))}}" for name in names)])
    lines = [
        "  ".join([f"{word:<{width}}", *(_cell(one[name], max(8, len(name))) for name in names)])
        for word, one in words.items()
    ]
    return ["", head.rstrip(), *lines]


def _cell(number: float, width: int) -> str:
    return f"{number:>{width},}" if isinstance(number, int) else f"{number:>{width}.2f}"


TEN = frozenset(
    ("apple", "bank", "bass", "chair", "club", "digit", "java", "mole", "spring", "trunk")
)
"""The words of CoarseWSD-20 whose results are in docs/quality.md."""
TWENTY = TEN | frozenset(
    ("arm", "bow", "crane", "deck", "hood", "pitcher", "pound", "seal", "square", "yard")
)
_LOUREIRO, _PILEHVAR = "Loureiro et al. 2021", "Pilehvar & Camacho-Collados 2019"


def _coarse(title: str, accuracy: float, f1: float) -> Published:
    return Published(title, _LOUREIRO, {"accuracy": accuracy, "macro_f1": f1})


_OF_TEN = (
    _coarse("fastText classifier on crawl-300d-2M", 93.8, 91.1),
    _coarse("BERT-base, nearest sense centroid", 94.7, 93.3),
    _coarse("BERT-large, nearest sense centroid", 95.9, 94.8),
)
_OF_TWENTY = (
    _coarse("fastText classifier on crawl-300d-2M", 93.8, 86.8),
    _coarse("BERT-base, nearest sense centroid", 94.0, 91.0),
    _coarse("BERT-large, nearest sense centroid", 95.8, 93.2),
)
_OF_WIC_TEST = tuple(
    Published(title, _PILEHVAR, {"accuracy": accuracy})
    for title, accuracy in (
        ("ELMo", 57.7),
        ("context2vec", 59.3),
        ("BERT-large", 65.5),
        ("people", 80.0),
    )
)


def published_coarsewsd(words: Collection[str]) -> tuple[Published, ...]:
    """Return the published figures for exactly these words, if they are TEN or TWENTY."""
    return {TEN: _OF_TEN, TWENTY: _OF_TWENTY}.get(frozenset(words), ())


def published_wic(split: Split) -> tuple[Published, ...]:
    """Return the published figures for a split; only test has any."""
    return _OF_WIC_TEST if split == "test" else ()
