"""Evaluate a model and its baselines on CoarseWSD-20 and WiC."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.terminal import SILENT, Progress
from polyseme_lab.evaluation import coarsewsd as coarse_set
from polyseme_lab.evaluation import wic as pair_set
from polyseme_lab.evaluation.coarsewsd import CoarseWsdResult
from polyseme_lab.evaluation.datasets import (
    OccurrenceVectors,
    TokenizedOccurrence,
    fingerprint,
    read_data_set,
)
from polyseme_lab.evaluation.results import (
    Published,
    ResultRow,
    Results,
    published_coarsewsd,
)
from polyseme_lab.evaluation.statistics import interval_note
from polyseme_lab.evaluation.systems import (
    MINILM,
    MINILM_TITLE,
    MOST_FREQUENT,
    SEEDS,
    Split,
    System,
    knows,
    systems,
    tabulate,
    transformer_vectors,
)

Task: TypeAlias = Literal["coarsewsd", "wic"]
PACKAGES = ("numpy", "scikit-learn", "scipy")


def measure_model(
    model: Model,
    task: Task,
    directory: Path,
    names: Sequence[str],
    *,
    split: Split = "dev",
    progress: Progress = SILENT,
) -> Results:
    """Evaluate the systems with some names on a set in a folder.

    Raises CommandError if the set cannot be read, or the model knows none of its words.
    """
    chosen = systems(model, names)
    if "model" in chosen:
        title = f"{chosen['model'].title} ({model.manifest.name})"
        chosen["model"] = chosen["model"]._replace(title=title)
    if MOST_FREQUENT in names and task == "coarsewsd":
        chosen = {MOST_FREQUENT: System("most frequent sense", "control"), **chosen}
    if MINILM in names:
        chosen[MINILM] = System(MINILM_TITLE, "compared")
    if task == "wic":
        results = measure_wic(model, directory, chosen, split, progress)
    else:
        results = measure_coarsewsd(model, directory, chosen, progress)
    versions = {package: version(package) for package in PACKAGES}
    facts = {"model": model.manifest.name, **results.facts, "versions": versions}
    return replace(results, facts=facts)


def _embedders(
    model: Model,
    chosen: Mapping[str, System],
    occurrences: Sequence[TokenizedOccurrence],
    progress: Progress,
) -> Iterator[tuple[str, System, list[OccurrenceVectors]]]:
    """Yield each system with its vectors; the results of several are averaged."""
    readers = {
        f"{name} {i}": reader
        for name, system in chosen.items()
        for i, reader in enumerate(system.readers)
    }
    tables = tabulate(model, readers, occurrences, progress) if readers else {}
    for name, system in chosen.items():
        if name == MINILM:
            yield name, system, [transformer_vectors(occurrences, progress)]
        else:
            yield name, system, [tables[f"{name} {i}"] for i in range(len(system.readers))]


def measure_coarsewsd(
    model: Model, directory: Path, chosen: Mapping[str, System], progress: Progress
) -> Results:
    """Evaluate systems on the words of CoarseWSD-20 that the folder contains."""
    files = read_data_set(directory, "coarsewsd")
    words = coarse_set.ambiguous_words(files)
    known = knows(model, [word.test.occurrences[0].word for word in words])
    if not any(known):
        raise CommandError("The model's vocabulary has none of the words of the set.")
    rows = []
    occurrences = coarse_set.occurrences_in(files)
    for name, system, embedders in _embedders(model, chosen, occurrences, progress):
        result = (
            coarse_set.most_frequent_sense(files)
            if name == MOST_FREQUENT
            else coarse_set.coarsewsd(files, *embedders)
        )
        rows.append(_coarse_row(name, system, result))
    published = published_coarsewsd([word.name for word in words])
    lacking = [word.name for word, is_known in zip(words, known, strict=True) if not is_known]
    sentences = sum(len(word.test.senses) for word in words)
    return Results(
        task="coarsewsd",
        title=f"CoarseWSD-20, {len(words)} words, {sentences:,} test sentences: nearest sense"
        " centroid, means over the words, %",
        columns={"accuracy": "accuracy", "macro_f1": "macro-F1"},
        rows=rows,
        published=published,
        notes=_notes("each word's test sentences", rows, published, ", ".join(lacking)),
        facts={
            "words": [word.name for word in words],
            "sentences": sentences,
            "lacking": lacking,
            "data": fingerprint(files),
        },
    )


def _coarse_row(name: str, system: System, result: CoarseWsdResult) -> ResultRow:
    by_word = {
        word: {
            "accuracy": round(100 * figures.accuracy, 2),
            "macro_f1": round(100 * figures.macro_f1, 2),
        }
        for word, figures in result.words.items()
    }
    figures = {"accuracy": result.accuracy, "macro_f1": result.macro_f1}
    return ResultRow(name, system.title, system.kind, figures, {"words": by_word})


def measure_wic(
    model: Model, directory: Path, chosen: Mapping[str, System], split: Split, progress: Progress
) -> Results:
    """Evaluate systems on a split of WiC."""
    files = read_data_set(directory, "wic")
    pairs = pair_set.pairs_of(files, split).occurrences
    known = knows(model, [occurrence.word for pair in pairs for occurrence in pair])
    lacking = [a and b for a, b in zip(known[::2], known[1::2], strict=True)].count(False)
    if lacking == len(pairs):
        raise CommandError("Every pair of the set has a word that the model has no vector for.")
    rows = []
    occurrences = pair_set.occurrences_in(files, split)
    for name, system, embedders in _embedders(model, chosen, occurrences, progress):
        result = pair_set.wic(files, *embedders, split=split)
        facts = {"train_accuracy": result.train, "threshold": result.threshold}
        figures = {"accuracy": result.accuracy}
        rows.append(ResultRow(name, system.title, system.kind, figures, facts))
    unknown = f"one or both words of {lacking} pairs" if lacking else ""
    return Results(
        task="wic",
        title=f"WiC, {len(pairs):,} pairs of {split}: cosine against the threshold that is best on"
        " train, %",
        columns={"accuracy": f"{split} accuracy"},
        rows=rows,
        notes=_notes("the pairs", rows, (), unknown),
        facts={
            "split": split,
            "pairs": len(pairs),
            "lacking": lacking,
            "data": fingerprint(files),
        },
    )


def _notes(
    items: str, rows: Iterable[ResultRow], published: Sequence[Published], lacking: str
) -> list[str]:
    notes = [interval_note(items)]
    if any(row.name == "random" for row in rows):
        notes.append(f"Random projections: the mean of seeds {', '.join(map(str, SEEDS))}.")
    if lacking:
        notes.append(f"Without a static vector, so classified by context alone: {lacking}.")
    if published:
        sources = ", ".join(dict.fromkeys(row.source for row in published))
        notes.append(f"Published: figures of {sources} on the same data, not measured here.")
    return notes


def quality(model: Model, directory: Path) -> dict[str, dict[str, Any]]:
    """Return the measures of a model on CoarseWSD-20 and WiC in %, for its manifest."""
    coarse, pairs = (
        measure_model(model, task, directory, ["model"]) for task in ("coarsewsd", "wic")
    )
    scores = {name: figure.value for name, figure in coarse.rows[0].figures.items()}
    return {
        "coarsewsd": {"words": len(coarse.facts["words"]), **scores},
        "wic": {
            "train_accuracy": pairs.rows[0].facts["train_accuracy"],
            "dev_accuracy": pairs.rows[0].figures["accuracy"].value,
        },
    }
