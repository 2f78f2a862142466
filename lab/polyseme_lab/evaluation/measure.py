"""Evaluate a model or a service on CoarseWSD-20, WiC or sets of judged pairs of words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import numpy as np

from polyseme.engine.arrays import Integers, unit
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme_lab.evaluation import coarsewsd as coarse_set
from polyseme_lab.evaluation import wic as pair_set
from polyseme_lab.evaluation.coarsewsd import CoarseWsdResult
from polyseme_lab.evaluation.datasets import (
    Files,
    OccurrenceVectors,
    TokenizedOccurrence,
    fingerprint,
    read_data_set,
    read_scored_pairs,
)
from polyseme_lab.evaluation.results import (
    Published,
    ResultRow,
    Results,
    published_coarsewsd,
    published_wic,
)
from polyseme_lab.evaluation.sources import LocalSource, ServiceSource, Source
from polyseme_lab.evaluation.statistics import (
    IntervalEstimate,
    interval_note,
    rank_correlation,
)
from polyseme_lab.evaluation.systems import (
    MINILM,
    MINILM_TITLE,
    MOST_FREQUENT,
    SEEDS,
    SERVED_NAMES,
    EvaluationConfig,
    System,
    stack_reader,
    systems,
    tabulate,
    transformer_vectors,
)
from polyseme_lab.evaluation.wic import pairs_known

SETS = {"wordsim353.tsv": "WordSim-353", "simlex999.txt": "SimLex-999"}
MIN_PAIRS = 10
"""Minimum number of pairs with known words."""


@dataclass(frozen=True)
class SimilarityResult:
    """The result on one set."""

    spearman: IntervalEstimate
    """the rank correlation × 100"""
    pairs: int
    """pairs with two known words"""
    lacking: int
    """pairs skipped because a word is unknown"""


def judged_pairs(directory: Path) -> dict[str, list[tuple[float, str, str]]]:
    """Read the sets in a folder, by title. Raises CommandError for no set or an invalid one."""
    sets = {
        title: read_scored_pairs(directory / name, 2, "two words and a number")
        for name, title in SETS.items()
        if (directory / name).is_file()
    }
    if not sets:
        raise CommandError(f"The folder has neither {' nor '.join(SETS)}.")
    return sets


def similarity(pairs: Sequence[tuple[float, str, str]], source: Source) -> SimilarityResult:
    """Return Spearman's correlation of cosines with human judgments, over pairs of known words.

    Raises CommandError if there are too few such pairs, or all are equally similar.
    """
    words = list(dict.fromkeys(word for _, *both in pairs for word in both))
    vectors = {
        words[number]: stack.inputs.vectors[place, 0]
        for stack in source([(word,) for word in words])
        for place, number in enumerate(stack.numbers)
        if stack.inputs.known[place, 0]
    }
    kept = [pair for pair in pairs if pair[1] in vectors and pair[2] in vectors]
    if len(kept) < MIN_PAIRS:
        raise CommandError(
            f"The model knows both words of only {len(kept)} of {len(pairs)} pairs, which is too"
            " few for a correlation."
        )
    first = unit(np.stack([vectors[word] for _, word, _ in kept]))
    second = unit(np.stack([vectors[word] for _, _, word in kept]))
    cosines = (first.astype(np.float64) * second).sum(axis=1)
    judgments = np.array([judgment for judgment, _, _ in kept])
    if not np.ptp(cosines) or not np.ptp(judgments):
        raise CommandError("All pairs are equally similar, so they have no order to compare.")

    def agreement(rows: Integers) -> float:
        return rank_correlation(cosines[rows], judgments[rows])

    figure = IntervalEstimate.of_statistic(agreement, len(kept))
    return SimilarityResult(figure, len(kept), len(pairs) - len(kept))


PACKAGES = ("numpy", "scikit-learn", "scipy")
Figures: TypeAlias = dict[str, dict[str, float]]


def measure_model(model: Model, config: EvaluationConfig) -> Results:
    """Evaluate a model in memory."""
    chosen = systems(model, config.names)
    return _measure(config, model.manifest.name, LocalSource(model), chosen)


def measure_service(service: ServiceSource, config: EvaluationConfig) -> Results:
    """Evaluate a model behind a service; raise CommandError for systems that need its weights."""
    available = {*SERVED_NAMES, MOST_FREQUENT, MINILM}
    if unavailable := [name for name in config.names if name not in available]:
        raise CommandError(
            f"A service does not expose its weights, so {', '.join(unavailable)} cannot be measured"
            " through it; measure the model's folder, without --url."
        )
    return _measure(config, service.model, service, systems(None, config.names))


def _measure(
    config: EvaluationConfig, name: str, source: Source, chosen: Mapping[str, System]
) -> Results:
    if config.task == "similarity":
        results = measure_similarity(config.directory, source, f"static vector ({name})")
    else:
        if "model" in chosen:
            title = f"{chosen['model'].title} ({name})"
            chosen = {**chosen, "model": chosen["model"]._replace(title=title)}
        if MINILM in config.names:
            chosen = {**chosen, MINILM: System(MINILM_TITLE, "compared")}
        measure = measure_wic if config.task == "wic" else measure_coarsewsd
        results = measure(config, source, chosen)
    versions = {package: version(package) for package in PACKAGES}
    return replace(results, facts={"model": name, **results.facts, "versions": versions})


def _embedders(
    config: EvaluationConfig,
    source: Source,
    chosen: Mapping[str, System],
    occurrences: Sequence[TokenizedOccurrence],
) -> Iterator[tuple[str, System, list[OccurrenceVectors]]]:
    """Yield each system with its vectors; the results of several are averaged."""
    readers = {
        f"{name} {i}": reader
        for name, system in chosen.items()
        for i, reader in enumerate(system.readers)
    }
    tables = tabulate(source, readers, occurrences, config.progress) if readers else {}
    for name, system in chosen.items():
        if name == MINILM:
            yield name, system, [transformer_vectors(occurrences, config.progress)]
        else:
            yield name, system, [tables[f"{name} {i}"] for i in range(len(system.readers))]


def measure_coarsewsd(
    config: EvaluationConfig, source: Source, chosen: Mapping[str, System]
) -> Results:
    """Evaluate on the words of CoarseWSD-20 that the folder contains.

    Raises CommandError if the set cannot be read, or the model has none of the words.
    """
    files = read_data_set(config.directory, "coarsewsd")
    words = coarse_set.ambiguous_words(files)
    known = source.knows([word.test.occurrences[0].word for word in words])
    if not any(known):
        raise CommandError("The model's vocabulary has none of the words of the set.")
    rows, by_word = [], {}
    if MOST_FREQUENT in config.names:
        result = coarse_set.most_frequent_sense(files)
        rows.append(_coarse_row(MOST_FREQUENT, System("most frequent sense", "control"), result))
    occurrences = coarse_set.occurrences_in(files)
    for name, system, embedders in _embedders(config, source, chosen, occurrences):
        rows.append(_coarse_row(name, system, coarse_set.coarsewsd(files, *embedders)))
        if system.kind == "model":
            measured = rows[-1].facts["words"]
            by_word = {
                word.name: {
                    "senses": len(word.senses),
                    "train": len(word.train.senses),
                    "test": len(word.test.senses),
                    "accuracy": measured[word.name]["accuracy"],
                    "macro-F1": measured[word.name]["macro_f1"],
                }
                for word in words
            }
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
        words=by_word,
        notes=_notes("each word's test sentences", rows, published, ", ".join(lacking)),
        facts={
            "words": [word.name for word in words],
            "sentences": sentences,
            "lacking": lacking,
            "data": fingerprint(files),
        },
    )


def measure_wic(config: EvaluationConfig, source: Source, chosen: Mapping[str, System]) -> Results:
    """Evaluate on a split of WiC.

    Raises CommandError if the set cannot be read, or no pair has two known words.
    """
    split, files = config.split, read_data_set(config.directory, "wic")
    pairs = pair_set.pairs_of(files, split).occurrences
    lacking = pairs_known(pairs, source.knows).count(False)
    if lacking == len(pairs):
        raise CommandError("Every pair of the set has a word that the model has no vector for.")
    rows = []
    occurrences = pair_set.occurrences_in(files, split)
    for name, system, embedders in _embedders(config, source, chosen, occurrences):
        result = pair_set.wic(files, *embedders, split=split)
        facts = {"train_accuracy": result.train, "threshold": result.threshold}
        figures = {"accuracy": result.accuracy}
        rows.append(ResultRow(name, system.title, system.kind, figures, facts))
    published = published_wic(split)
    unknown = f"one or both words of {lacking} pairs" if lacking else ""
    return Results(
        task="wic",
        title=f"WiC, {len(pairs):,} pairs of {split}: cosine against the threshold that is best on"
        " train, %",
        columns={"accuracy": f"{split} accuracy"},
        rows=rows,
        published=published,
        notes=_notes("the pairs", rows, published, unknown),
        facts={
            "split": split,
            "pairs": len(pairs),
            "lacking": lacking,
            "data": fingerprint(files),
        },
        base=50.0,
    )


def measure_similarity(directory: Path, source: Source, title: str) -> Results:
    """Evaluate static vectors on the sets of judged pairs in a folder."""
    sets = {name: similarity(pairs, source) for name, pairs in judged_pairs(directory).items()}
    figures = {name: result.spearman for name, result in sets.items()}
    notes = [
        f"{name}: {result.pairs} pairs; {result.lacking} more were skipped, because the vocabulary"
        " lacks one of their words."
        for name, result in sets.items()
    ]
    return Results(
        task="similarity",
        title="Spearman's correlation of static cosines with human judgments, × 100",
        columns={name: name for name in sets},
        rows=[ResultRow("static", title, "model", figures)],
        notes=[*notes, interval_note("the pairs")],
        facts={
            "pairs": {name: result.pairs for name, result in sets.items()},
            "lacking": {name: result.lacking for name, result in sets.items()},
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


def quality(model: Model, coarse: Files, in_context: Files) -> Figures:
    """Return the measures of a model on CoarseWSD-20 and WiC in %, for its manifest."""
    reader = {"model": stack_reader(model.layers)}
    occurrences = coarse_set.occurrences_in(coarse) + pair_set.occurrences_in(in_context)
    table = tabulate(LocalSource(model), reader, occurrences)["model"]
    return {
        "coarsewsd": coarse_set.coarsewsd(coarse, table).rounded(),
        "wic": pair_set.wic(in_context, table).rounded(),
    }
