"""Each set measured for some systems: from files and vectors to a table of results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from polyseme.evaluation import coarsewsd as coarse_set
from polyseme.evaluation import wic as pair_set
from polyseme.evaluation.bootstrap import LEVEL, RESAMPLES, SEED
from polyseme.evaluation.coarsewsd import AmbiguousWord, Coarse
from polyseme.evaluation.coverage import Knows, pairs_known
from polyseme.evaluation.files import evaluation_files, fingerprint
from polyseme.evaluation.occurrences import Embedder, Occurrence
from polyseme.evaluation.published import Published, published_coarsewsd, published_wic
from polyseme.evaluation.refusal import EvaluationError
from polyseme.evaluation.results import Results, Row
from polyseme.evaluation.similarity import Lookup, judged_pairs, similarity
from polyseme.evaluation.systems import SEEDS, Kind
from polyseme.evaluation.wish import MOST_FREQUENT, Split

_NO_WORDS = "The model's vocabulary has none of the words that the set asks for."


@dataclass(frozen=True)
class Measured:
    """A system whose vectors are there. Several embedders are draws of it: a mean is told."""

    name: str
    title: str
    kind: Kind
    embedders: Sequence[Embedder]


Vectors: TypeAlias = Callable[[Sequence[Occurrence]], Iterable[Measured]]
"""What gives some occurrences the vectors of every system."""


def measure_coarsewsd(
    directory: Path, knows: Knows, vectors: Vectors, *, most_frequent: bool = True
) -> Results:
    """Measure on CoarseWSD-20, or as many of its words as the folder has.

    Raises EvaluationError where the set cannot be read, or the model has none of the words.
    """
    files = evaluation_files(directory, "coarsewsd")
    words = coarse_set.ambiguous_words(files)
    known = knows([word.test.occurrences[0].word for word in words])
    if not any(known):
        raise EvaluationError(_NO_WORDS)
    rows, own = [], None
    if most_frequent:
        found = coarse_set.most_frequent_sense(files)
        rows.append(_coarse_row(MOST_FREQUENT, "most frequent sense", "control", found))
    for one in vectors(coarse_set.occurrences_in(files)):
        found = coarse_set.coarsewsd(files, *one.embedders)
        own = found if one.kind == "model" else own
        rows.append(_coarse_row(one.name, one.title, one.kind, found))
    published = published_coarsewsd([word.name for word in words])
    lacking = [word.name for word, there in zip(words, known, strict=True) if not there]
    sentences = sum(len(word.test.senses) for word in words)
    return Results(
        task="coarsewsd",
        title=f"CoarseWSD-20, {len(words)} words, {sentences:,} test sentences: nearest sense"
        " centroid, means over the words, %",
        columns={"accuracy": "accuracy", "macro_f1": "macro-F1"},
        rows=rows,
        published=published,
        words=_by_word(words, own) if own else {},
        notes=_notes("each word's test sentences", rows, published, ", ".join(lacking)),
        facts={
            "words": [word.name for word in words],
            "sentences": sentences,
            "lacking": lacking,
            "data": fingerprint(files),
        },
    )


def measure_wic(directory: Path, knows: Knows, vectors: Vectors, split: Split) -> Results:
    """Measure on a split of WiC; raise EvaluationError as `measure_coarsewsd` does."""
    files = evaluation_files(directory, "wic")
    pairs = pair_set.pairs_of(files, split).occurrences
    lacking = pairs_known(pairs, knows).count(False)
    if lacking == len(pairs):
        raise EvaluationError(_NO_WORDS)
    rows = []
    for one in vectors(pair_set.occurrences_in(files, split)):
        found = pair_set.wic(files, *one.embedders, split=split)
        facts = {"train_accuracy": found.train, "threshold": found.threshold}
        rows.append(Row(one.name, one.title, one.kind, {"accuracy": found.accuracy}, facts))
    published = published_wic(split)
    told = f"a word of {lacking} pairs" if lacking else ""
    return Results(
        task="wic",
        title=f"WiC, {len(pairs):,} pairs of {split}: cosine against the threshold that is best on"
        " train, %",
        columns={"accuracy": f"{split} accuracy"},
        rows=rows,
        published=published,
        notes=_notes("the pairs", rows, published, told),
        facts={
            "split": split,
            "pairs": len(pairs),
            "lacking": lacking,
            "data": fingerprint(files),
        },
        base=50.0,
    )


def measure_similarity(directory: Path, lookup: Lookup, title: str) -> Results:
    """Measure the static vectors on the sets of judged pairs that the folder has."""
    found = {name: similarity(pairs, lookup) for name, pairs in judged_pairs(directory).items()}
    figures = {name: one.spearman for name, one in found.items()}
    notes = [
        f"{name}: {one.pairs} pairs; {one.lacking} more were left out, because the vocabulary lacks"
        " a word of them."
        for name, one in found.items()
    ]
    return Results(
        task="similarity",
        title="Spearman's correlation of static cosines with people's judgement, × 100",
        columns={name: name for name in found},
        rows=[Row("static", title, "model", figures)],
        notes=[*notes, _interval("the pairs")],
        facts={
            "pairs": {name: one.pairs for name, one in found.items()},
            "lacking": {name: one.lacking for name, one in found.items()},
        },
    )


def _coarse_row(name: str, title: str, kind: Kind, found: Coarse) -> Row:
    by_word = {
        word: {"accuracy": _percent(one.accuracy), "macro_f1": _percent(one.macro_f1)}
        for word, one in found.words.items()
    }
    figures = {"accuracy": found.accuracy, "macro_f1": found.macro_f1}
    return Row(name, title, kind, figures, {"words": by_word})


def _by_word(words: Sequence[AmbiguousWord], own: Coarse) -> dict[str, dict[str, float]]:
    return {
        word.name: {
            "senses": len(word.senses),
            "train": len(word.train.senses),
            "test": len(word.test.senses),
            "accuracy": _percent(own.words[word.name].accuracy),
            "macro-F1": _percent(own.words[word.name].macro_f1),
        }
        for word in words
    }


def _percent(part: float) -> float:
    return round(100 * part, 2)


def _interval(items: str) -> str:
    return (
        f"In brackets: {LEVEL} % intervals, percentiles of {RESAMPLES:,} bootstrap resamples of"
        f" {items} (seed {SEED})."
    )


def _notes(
    items: str, rows: Iterable[Row], published: Sequence[Published], lacking: str
) -> list[str]:
    notes = [_interval(items)]
    if any(row.name == "random" for row in rows):
        notes.append(f"Random projections: the mean of seeds {', '.join(map(str, SEEDS))}.")
    if lacking:
        notes.append(f"Without a static vector, so told by context alone: {lacking}.")
    if published:
        sources = ", ".join(dict.fromkeys(one.source for one in published))
        notes.append(f"Published: figures of {sources} on the same data, not measured here.")
    return notes
