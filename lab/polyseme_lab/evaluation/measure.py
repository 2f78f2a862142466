"""Evaluate a model or a service on CoarseWSD-20, WiC or sets of judged pairs of words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme_lab.evaluation import coarsewsd as coarse_set
from polyseme_lab.evaluation import wic as pair_set
from polyseme_lab.evaluation.coarsewsd import CoarseWsdResult
from polyseme_lab.evaluation.datasets import (
    Embedder,
    Files,
    Knows,
    TokenizedOccurrence,
    fingerprint,
    read_data_set,
    read_text_lines,
)
from polyseme_lab.evaluation.results import (
    COARSEWSD_COLUMNS,
    Published,
    ResultRow,
    Results,
    coarsewsd_title,
    published_coarsewsd,
    published_wic,
)
from polyseme_lab.evaluation.sources import LocalSource, ServiceSource, Source
from polyseme_lab.evaluation.statistics import (
    LEVEL,
    RESAMPLES,
    SEED,
    IntervalEstimate,
    bootstrap,
    rank_correlation,
)
from polyseme_lab.evaluation.systems import (
    MINILM,
    MINILM_TITLE,
    MOST_FREQUENT,
    SEEDS,
    SERVED_NAMES,
    EvaluationConfig,
    Kind,
    Split,
    System,
    served_systems,
    systems,
    tabulate,
    transformer_vectors,
)
from polyseme_lab.evaluation.wic import pairs_known

SETS = {"wordsim353.tsv": "WordSim-353", "simlex999.txt": "SimLex-999"}
MIN_PAIRS = 10
"""Minimum number of pairs with known words."""
Lookup: TypeAlias = Callable[[Sequence[str]], tuple[Floats, Flags]]
"""A function from words to their static vectors and whether each is known. -> [m, d], [m]"""


class JudgedPair(NamedTuple):
    """Two words and the human judgment of their similarity."""

    first: str
    second: str
    judgment: float


@dataclass(frozen=True)
class SimilarityResult:
    """The result on one set."""

    spearman: IntervalEstimate
    """the rank correlation × 100"""
    pairs: int
    """pairs with two known words"""
    lacking: int
    """pairs skipped because a word is unknown"""


def judged_pairs(directory: Path) -> dict[str, list[JudgedPair]]:
    """Read the sets in a folder, by title. Raises CommandError for no set or an invalid one."""
    sets: dict[str, list[JudgedPair]] = {}
    for name, title in SETS.items():
        if (directory / name).is_file():
            pairs = sets[title] = []
            for number, line in enumerate(read_text_lines(directory / name), 1):
                if line and not line.startswith("#"):
                    pairs.append(_pair(line, f"{name}, line {number}"))
            if not pairs:
                raise CommandError(f"{name} has no pairs.")
    if not sets:
        raise CommandError(f"The folder has neither {' nor '.join(SETS)}.")
    return sets


def _pair(line: str, where: str) -> JudgedPair:
    """Parse two words and a number, separated by tabs."""
    fields = line.split("\t")
    try:
        first, second, judgment = fields[0], fields[1], float(fields[2])
        good = len(fields) == len(JudgedPair._fields) and first and second
        if good and np.isfinite(judgment):
            return JudgedPair(first, second, judgment)
    except (IndexError, ValueError):
        pass
    raise CommandError(f"{where}: the line is not two words and a number, separated by tabs.")


def similarity(pairs: Sequence[JudgedPair], lookup: Lookup) -> SimilarityResult:
    """Return Spearman's correlation of cosines with human judgments, over pairs of known words.

    Raises CommandError if there are too few such pairs, or all are equally similar.
    """
    words = list(dict.fromkeys(word for pair in pairs for word in pair[:2]))
    vectors, known = lookup(words)
    places = {word: place for place, word in enumerate(words) if known[place]}
    kept = [pair for pair in pairs if pair.first in places and pair.second in places]
    if len(kept) < MIN_PAIRS:
        raise CommandError(
            f"The model knows both words of only {len(kept)} of {len(pairs)} pairs, which is too"
            " few for a correlation."
        )
    sides = [p.first for p in kept], [p.second for p in kept]
    first, second = [unit(vectors[[places[word] for word in side]]) for side in sides]
    cosines = (first.astype(np.float64) * second).sum(axis=1)
    judgments = np.array([pair.judgment for pair in kept])
    if not np.ptp(cosines) or not np.ptp(judgments):
        raise CommandError("All pairs are equally similar, so they have no order to compare.")

    def agreement(rows: Sequence[int] | np.ndarray) -> float:
        return rank_correlation(cosines[rows], judgments[rows])

    figure = IntervalEstimate.from_resamples(
        agreement(np.arange(len(kept))), bootstrap(agreement, len(kept))
    )
    return SimilarityResult(figure, len(kept), len(pairs) - len(kept))


PACKAGES = ("numpy", "scikit-learn", "scipy")
PARTS = ("static", "mean", "parameter-free", "no-association", "no-informativeness", "model")
"""The model, three baselines and two ablations."""


@dataclass(frozen=True)
class Measured:
    """A system with its vectors; the results of several embedders are averaged."""

    name: str
    title: str
    kind: Kind
    embedders: Sequence[Embedder]


Vectors: TypeAlias = Callable[[Sequence[TokenizedOccurrence]], Iterable[Measured]]
"""A function from occurrences to the vectors of every system."""
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
    return _measure(config, service.model, service, served_systems(config.names))


def _measure(
    config: EvaluationConfig, name: str, source: Source, chosen: Mapping[str, System]
) -> Results:
    if config.task == "similarity":
        results = measure_similarity(config.directory, lookup(source), f"static vector ({name})")
    else:

        def vectors(occurrences: Sequence[TokenizedOccurrence]) -> Iterator[Measured]:
            """Yield the baselines, the model and the transformer."""
            readers = {
                f"{name} {number}": reader
                for name, system in chosen.items()
                for number, reader in enumerate(system.readers)
            }
            tables = tabulate(source, readers, occurrences, config.progress) if readers else {}
            for key, system in chosen.items():
                own = [tables[f"{key} {number}"] for number in range(len(system.readers))]
                title = f"{system.title} ({name})" if system.kind == "model" else system.title
                yield Measured(key, title, system.kind, own)
            if MINILM in config.names:
                own = [transformer_vectors(occurrences, config.progress)]
                yield Measured(MINILM, MINILM_TITLE, "compared", own)

        if config.task == "wic":
            results = measure_wic(config.directory, source.knows, vectors, config.split)
        else:
            most_frequent = MOST_FREQUENT in config.names
            results = measure_coarsewsd(
                config.directory, source.knows, vectors, most_frequent=most_frequent
            )
    versions = {package: version(package) for package in PACKAGES}
    return replace(results, facts={"model": name, **results.facts, "versions": versions})


def lookup(source: Source) -> Lookup:
    """Return a function from words to their static vectors and `known`. -> [m, d], [m]"""

    def look_up(words: Sequence[str]) -> tuple[Floats, Flags]:
        sentences = [read.sentence for read in source([(word,) for word in words])]
        vectors = np.concatenate([sentence.vectors for sentence in sentences])
        return vectors, np.concatenate([sentence.known for sentence in sentences])

    return look_up


def measure_coarsewsd(
    directory: Path, knows: Knows, vectors: Vectors, *, most_frequent: bool = True
) -> Results:
    """Evaluate on the words of CoarseWSD-20 that the folder contains.

    Raises CommandError if the set cannot be read, or the model has none of the words.
    """
    files = read_data_set(directory, "coarsewsd")
    words = coarse_set.ambiguous_words(files)
    known = knows([word.test.occurrences[0].word for word in words])
    if not any(known):
        raise CommandError("The model's vocabulary has none of the words of the set.")
    rows, by_word = [], {}
    if most_frequent:
        result = coarse_set.most_frequent_sense(files)
        rows.append(_coarse_row(MOST_FREQUENT, "most frequent sense", "control", result))
    for system in vectors(coarse_set.occurrences_in(files)):
        result = coarse_set.coarsewsd(files, *system.embedders)
        rows.append(_coarse_row(system.name, system.title, system.kind, result))
        if system.kind == "model":
            by_word = {
                word.name: {
                    "senses": len(word.senses),
                    "train": len(word.train.senses),
                    "test": len(word.test.senses),
                    "accuracy": _percent(result.words[word.name].accuracy),
                    "macro-F1": _percent(result.words[word.name].macro_f1),
                }
                for word in words
            }
    published = published_coarsewsd([word.name for word in words])
    lacking = [word.name for word, is_known in zip(words, known, strict=True) if not is_known]
    sentences = sum(len(word.test.senses) for word in words)
    return Results(
        task="coarsewsd",
        title=coarsewsd_title(len(words), sentences),
        columns=COARSEWSD_COLUMNS,
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


def measure_wic(directory: Path, knows: Knows, vectors: Vectors, split: Split) -> Results:
    """Evaluate on a split of WiC.

    Raises CommandError if the set cannot be read, or no pair has two known words.
    """
    files = read_data_set(directory, "wic")
    pairs = pair_set.pairs_of(files, split).occurrences
    lacking = pairs_known(pairs, knows).count(False)
    if lacking == len(pairs):
        raise CommandError("Every pair of the set has a word that the model has no vector for.")
    rows = []
    for system in vectors(pair_set.occurrences_in(files, split)):
        result = pair_set.wic(files, *system.embedders, split=split)
        facts = {"train_accuracy": result.train, "threshold": result.threshold}
        figures = {"accuracy": result.accuracy}
        rows.append(ResultRow(system.name, system.title, system.kind, figures, facts))
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


def measure_similarity(directory: Path, lookup: Lookup, title: str) -> Results:
    """Evaluate static vectors on the sets of judged pairs in a folder."""
    sets = {name: similarity(pairs, lookup) for name, pairs in judged_pairs(directory).items()}
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
        notes=[*notes, _interval("the pairs")],
        facts={
            "pairs": {name: result.pairs for name, result in sets.items()},
            "lacking": {name: result.lacking for name, result in sets.items()},
        },
    )


def _coarse_row(name: str, title: str, kind: Kind, found: CoarseWsdResult) -> ResultRow:
    by_word = {
        word: {"accuracy": _percent(one.accuracy), "macro_f1": _percent(one.macro_f1)}
        for word, one in found.words.items()
    }
    figures = {"accuracy": found.accuracy, "macro_f1": found.macro_f1}
    return ResultRow(name, title, kind, figures, {"words": by_word})


def _percent(part: float) -> float:
    return round(100 * part, 2)


def _interval(items: str) -> str:
    return (
        f"In brackets: {LEVEL} % intervals, percentiles of {RESAMPLES:,} bootstrap resamples of"
        f" {items} (seed {SEED})."
    )


def _notes(
    items: str, rows: Iterable[ResultRow], published: Sequence[Published], lacking: str
) -> list[str]:
    notes = [_interval(items)]
    if any(row.name == "random" for row in rows):
        notes.append(f"Random projections: the mean of seeds {', '.join(map(str, SEEDS))}.")
    if lacking:
        notes.append(f"Without a static vector, so classified by context alone: {lacking}.")
    if published:
        sources = ", ".join(dict.fromkeys(one.source for one in published))
        notes.append(f"Published: figures of {sources} on the same data, not measured here.")
    return notes


def quality(model: Model, data: Path) -> Figures:
    """Return the measures of a model on CoarseWSD-20 and WiC, for its manifest."""
    coarse, pairs = (read_data_set(data, name) for name in ("coarsewsd", "wic"))
    ((_, figures),) = part_figures(model, coarse, pairs, ("model",))
    return figures


def part_figures(
    model: Model, coarse: Files, in_context: Files, names: Sequence[str] = PARTS
) -> Iterator[tuple[str, Figures]]:
    """Yield the title of each system and its figures on both sets, in %."""
    chosen = systems(model, names)
    readers = {name: system.readers[0] for name, system in chosen.items()}
    occurrences = coarse_set.occurrences_in(coarse) + pair_set.occurrences_in(in_context)
    tables = tabulate(LocalSource(model), readers, occurrences)
    for name, system in chosen.items():
        figures = {
            "coarsewsd": coarse_set.coarsewsd(coarse, tables[name]).rounded(),
            "wic": pair_set.wic(in_context, tables[name]).rounded(),
        }
        yield system.title, figures
