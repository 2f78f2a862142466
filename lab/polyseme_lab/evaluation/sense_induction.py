"""Compare the clusters of a word's occurrences, found without labels, with its true senses.

Two sets: CoarseWSD-20 (Loureiro et al. 2021); pseudo-words (Schütze 1992), pairs of words that the
same token replaces, and their single words.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import rankdata
from sklearn.cluster import KMeans
from sklearn.metrics import (
    adjusted_rand_score,
    silhouette_score,
    v_measure_score,
)

from polyseme.engine import Floats, Integers, unit
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.senses.clustering import (
    DEFAULT_RULE,
    MAX_FOUND,
    Rule,
    cluster,
    log_odds,
    two_cluster_statistics,
)
from polyseme.senses.occurrences import find_projection, project, surround
from polyseme.terminal import SILENT, Progress
from polyseme_lab.evaluation.coarsewsd import ambiguous_words
from polyseme_lab.evaluation.datasets import (
    ARCHIVES,
    Embedder,
    LabeledOccurrences,
    TokenizedOccurrence,
    read_data_set,
)
from polyseme_lab.evaluation.downstream import PseudoWord, read_pseudowords
from polyseme_lab.evaluation.results import ResultRow, Results
from polyseme_lab.evaluation.statistics import SEED, IntervalEstimate, interval_note
from polyseme_lab.evaluation.systems import (
    Kind,
    Places,
    StaticStack,
    systems,
    tabulate,
)

MAX_OCCURRENCES = 300
"""Maximum occurrences of a word of CoarseWSD-20; a random sample if its test split has more."""
PSEUDOWORDS = ("pseudowords.jsonl.xz", "pseudowords.jsonl")

Clustering: TypeAlias = Callable[[Floats, int | None], Integers]
"""A function from vectors, and the number of clusters or None, to labels. [m, d] -> [m]"""


class SenseSystem(NamedTuple):
    """A method to find senses: the vectors of occurrences, and their clustering."""

    title: str
    kind: Kind
    vectors: str
    clustering: Clustering


def _one_sense(vectors: Floats, count: int | None) -> Integers:
    del count
    return np.zeros(len(vectors), np.int64)


def _k_means(vectors: Floats, count: int | None) -> Integers:
    """k-means; if no number is given, the one with the largest silhouette. [m, d] -> [m]"""
    points = unit(vectors.astype(np.float64))
    distinct = len(np.unique(points, axis=0))

    def fitted(k: int) -> Integers:
        labels: Integers = KMeans(k, n_init=10, random_state=SEED).fit_predict(points)
        return labels

    if count is not None:
        return fitted(min(count, distinct))
    tried = [fitted(k) for k in range(2, min(MAX_FOUND, distinct, len(points) - 1) + 1)]
    quality = partial(silhouette_score, points, metric="cosine")
    return max(tried, key=quality) if tried else _one_sense(vectors, 1)


def sense_systems(rule: Rule = DEFAULT_RULE) -> dict[str, SenseSystem]:
    """Return the systems by name; in `model`, `rule` decides between one sense and several."""

    def default(vectors: Floats, count: int | None) -> Integers:
        return cluster(vectors, None if count is None else min(count, len(vectors)), rule).labels

    return {
        "one-sense": SenseSystem("one sense for all", "control", "senses", _one_sense),
        "mean": SenseSystem("k-means, mean of the static vectors", "control", "mean", _k_means),
        "k-means": SenseSystem("k-means, contextual vector", "control", "model", _k_means),
        "model": SenseSystem("`/v1/senses`", "model", "senses", default),
    }


def measure_senses(
    model: Model, directory: Path, progress: Progress = SILENT
) -> dict[str, Results]:
    """Return the results on each set in a folder, by name of the set.

    Raises CommandError if there is no set, or if one cannot be read.
    """
    results: dict[str, Results] = {}
    archives = any((directory / f"coarsewsd{ending}").is_file() for ending in ARCHIVES)
    if archives or (directory / "coarsewsd").is_dir():
        samples = coarsewsd_samples(directory)
        results["coarsewsd"] = measure_coarsewsd(model, samples, progress)
    for name in PSEUDOWORDS:
        if "pseudowords" not in results and (directory / name).is_file():
            pairs = read_pseudowords(directory / name)
            results["pseudowords"] = measure_pseudowords(model, pairs, progress)
    if not results:
        raise CommandError(
            f"The folder has neither coarsewsd.tar.xz nor {PSEUDOWORDS[0]}; docs/training.md"
            " describes the sets."
        )
    return results


def _tables(
    model: Model,
    occurrences: Sequence[TokenizedOccurrence],
    progress: Progress,
    names: Sequence[str] = ("mean", "model"),
) -> dict[str, Embedder]:
    """Return the vectors of occurrences: those of some systems, and those of `/v1/senses`."""
    projection = find_projection(model)

    def points(stack: StaticStack, places: Places) -> Floats:
        of_sentence, at = places
        here = [at[of_sentence == number].tolist() for number in range(len(stack.tokens))]
        return project(surround(model, stack.tokens, here), projection)

    readers = {name: system.readers[0] for name, system in systems(model, names).items()}
    readers["senses"] = points
    return {**tabulate(model, readers, occurrences, progress)}


# CoarseWSD-20

COARSE_COLUMNS = {
    "ari_given": "ARI, number given",
    "v_given": "V",
    "ari_found": "ARI, not given",
    "v_found": "V",
    "number_right": "number right",
}


def coarsewsd_samples(directory: Path) -> list[LabeledOccurrences]:
    """Return at most MAX_OCCURRENCES test occurrences of each word of CoarseWSD-20."""
    rng = np.random.default_rng(SEED)
    samples = []
    for word in ambiguous_words(read_data_set(directory, "coarsewsd")):
        m = len(word.test.senses)
        drawn = np.sort(rng.choice(m, min(m, MAX_OCCURRENCES), replace=False))
        occurrences = [word.test.occurrences[number] for number in drawn]
        samples.append(LabeledOccurrences(word.name, occurrences, word.test.senses[drawn]))
    return samples


def measure_coarsewsd(
    model: Model, samples: Sequence[LabeledOccurrences], progress: Progress
) -> Results:
    """Compare the clusters of each word with its senses."""
    asked = list(chain.from_iterable(sample.occurrences for sample in samples))
    tables = _tables(model, asked, progress)
    chosen = sense_systems(find_projection(model).rule)
    rows = []
    with progress.stage("clusters", len(chosen) * len(samples), in_bytes=False) as bar:
        for name, system in chosen.items():
            words = {}
            for sample in samples:
                vectors = tables[system.vectors](sample.occurrences)
                words[sample.name] = induced(sample.senses, vectors, system.clustering)
                bar.advance(1)
            for measures in words.values():
                measures["number_right"] = measures["found"] == measures["senses"]
            figures = {
                column: IntervalEstimate.of_mean(np.array([m[column] for m in words.values()]))
                for column in COARSE_COLUMNS
            }
            by_word = {
                word: {
                    key: value if isinstance(value, int) else round(100 * value, 2)
                    for key, value in measures.items()
                    if key != "number_right"
                }
                for word, measures in words.items()
            }
            facts = {"words": by_word}
            rows.append(ResultRow(name, system.title, system.kind, figures, facts))
    return Results(
        task="senses",
        title=f"CoarseWSD-20, senses found in at most {MAX_OCCURRENCES} test sentences of"
        f" {len(samples)} words, means over the words, × 100",
        columns=COARSE_COLUMNS,
        rows=rows,
        notes=[interval_note("the words")],
        facts={"occurrences": len(asked)},
    )


def induced(gold: Integers, vectors: Floats, clustering: Clustering) -> dict[str, float]:
    """Measure two clusterings: with the number of senses given, and without it. [m], [m, d]

    The measures are the adjusted Rand index (Hubert & Arabie 1985) and V (Rosenberg & Hirschberg
    2007). `senses` and `found` are the true number and the number found if none is given.
    """
    senses = len(np.unique(gold))
    given, estimated = (clustering(vectors, count) for count in (senses, None))
    return {
        "senses": senses,
        "found": len(np.unique(estimated)),
        "ari_given": float(adjusted_rand_score(gold, given)),
        "v_given": float(v_measure_score(gold, given)),
        "ari_found": float(adjusted_rand_score(gold, estimated)),
        "v_found": float(v_measure_score(gold, estimated)),
    }


# One sense or two

PSEUDO_COLUMNS = {
    "auc": "AUC",
    "auc_twice": "AUC, twice as many",
    "one_right": "one: right",
    "two_right": "two: right",
    "two_right_twice": "two, twice as many",
    "split_ari": "ARI of the split",
}


def measure_pseudowords(model: Model, pairs: Sequence[PseudoWord], progress: Progress) -> Results:
    """Measure how well the rule of `/v1/senses` tells single words from pseudo-words."""
    asked = list(chain.from_iterable(pair.occurrences for pair in pairs))
    table, rule = _tables(model, asked, progress, names=())["senses"], find_projection(model).rule
    scores, splits = np.empty((len(pairs), 4)), np.empty(len(pairs))
    with progress.stage("one sense or two", len(pairs), in_bytes=False) as bar:
        for number, pair in enumerate(pairs):
            points = unit(table(pair.occurrences).astype(np.float64))
            first, second = (np.flatnonzero(pair.senses == sense) for sense in (0, 1))
            half = np.concatenate([first[::2], second[::2]])
            samples = (first, second, half, np.arange(len(pair.senses)))
            scores[number] = [
                log_odds(two_cluster_statistics(points[sample]), rule) for sample in samples
            ]
            splits[number] = adjusted_rand_score(pair.senses, cluster(points, 2).labels)
            bar.advance(1)
    figures = {**rule_figures(scores), "split_ari": IntervalEstimate.of_mean(splits)}
    sizes = [int(np.bincount(pair.senses).max()) for pair in pairs]
    return Results(
        task="senses",
        title=f"{len(pairs)} pseudo-words of two words with at most {max(sizes)} occurrences each,"
        " and the words by themselves: one sense or two, %",
        columns=PSEUDO_COLUMNS,
        rows=[ResultRow("model", "`/v1/senses`", "model", figures)],
        notes=[
            interval_note("the pairs of words"),
            (
                "AUC: words against pseudo-words with as many occurrences, half of those of both"
                " words; twice as many: against pseudo-words with all of them."
            ),
        ],
        facts={"pairs": len(pairs)},
    )


def rule_figures(scores: Floats) -> dict[str, IntervalEstimate]:
    """Return the areas under the ROC curve, and the shares of right decisions. [n, 4]

    The columns: evidence for two senses in each word of a pair, in as many occurrences of both, and
    in twice as many.
    """

    def auc(rows: Integers, column: int) -> float:
        m = len(rows)
        ranks = rankdata(np.concatenate([scores[rows, :2].ravel(), scores[rows, column]]))
        return float(ranks[2 * m :].sum() - m * (m + 1) / 2) / (2 * m * m)

    return {
        **{
            name: IntervalEstimate.of_statistic(partial(auc, column=column), len(scores))
            for name, column in (("auc", 2), ("auc_twice", 3))
        },
        "one_right": IntervalEstimate.of_mean((scores[:, :2] <= 0).mean(axis=1)),
        "two_right": IntervalEstimate.of_mean(scores[:, 2] > 0),
        "two_right_twice": IntervalEstimate.of_mean(scores[:, 3] > 0),
    }
