"""Measure how well the attention weights of each head explain a contextual vector.

docs/training.md has the formulas.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats, Integers
from polyseme.engine.attention import SentenceArrays
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.progress import SILENT, Progress
from polyseme_lab.evaluation.datasets import LabeledOccurrences
from polyseme_lab.evaluation.perturbation import (
    MEASURES,
    Centroids,
    Erasure,
    FrequencyMatcher,
    NaiveBayes,
    SenseData,
    attention_rows,
    contribution_row,
    evaluate_rankings,
    head_titles,
    heads_of,
    lemma_quality,
    ranking_titles,
    round_robin,
    swap_word,
    zero_queries,
)
from polyseme_lab.evaluation.sources import LocalSource
from polyseme_lab.evaluation.statistics import resample_counts
from polyseme_lab.evaluation.systems import stack_reader, tabulate

OCCURRENCES, SEED = 500, 1
SWAPS = 3
"""Maximum number of words that replace each query word in turn."""
MIN_KEYS = 4
"""Minimum number of keys of an occurrence for a ranking."""
CONTROLS = ("nearness", "rarity", "uniform", "random")
"""Rankings without a model, in the order of `_Examiner`."""


Estimate: TypeAlias = dict[str, float]
"""`value`, a measure × 100, and `error`, its standard error × 100 from bootstrap resamples of the
lemmas."""
Figures: TypeAlias = dict[str, Estimate | None]
"""Estimates by measure or by head; None if no occurrence has a value."""


def estimates(values: Floats, lemmas: Integers) -> list[Estimate | None]:
    """Return means over occurrences, with standard errors over lemmas. [m, c], [m] -> c estimates

    NaN marks missing values.
    """
    present = ~np.isnan(values)
    one_hot = (np.unique(lemmas)[:, None] == lemmas).astype(np.float64)  # [l, m]
    sums, counts = one_hot @ np.where(present, values, 0), one_hot @ present
    drawn = resample_counts(len(one_hot)).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a resample may lack values
        resampled = (drawn @ sums) / (drawn @ counts)
        means = sums.sum(axis=0) / counts.sum(axis=0)
    return [
        None
        if np.isnan(mean)
        else {
            "value": round(100 * float(mean), 2),
            "error": round(100 * float(np.std(column[~np.isnan(column)])), 2),
        }
        for mean, column in zip(means, resampled.T, strict=True)
    ]


def explain(
    model: Model,
    data: SenseData,
    count: int = OCCURRENCES,
    seed: int = SEED,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Evaluate a model on a random sample of tagged occurrences, of each lemma in turn.

    The result is a JSON document. `rankings` has the measures of each ranking; `by_query` has, for
    each head, the decrease of each measure with Wq = 0; `swaps` the mean distance between the
    attention weights of two query words; `quality` that of the model, and `cost` its decrease by
    the heads that have Wq = 0. Raises CommandError if the model or the tags have nothing to
    evaluate.
    """
    if not model.layers:
        raise CommandError("The model has no layer, and so no attention to measure.")
    if not data.lemmas:
        raise CommandError(
            "No lemma has two senses with eight known occurrences each; use more tags."
        )
    tables = stack_vectors(model, data.lemmas, progress)
    examiner = _Examiner(model, data, tables[_UNCHANGED], seed)
    examined: list[_Examined] = []
    with progress.stage("occurrences", count, in_bytes=False) as bar:
        for lemma, number in round_robin(data.lemmas, seed):
            if (occurrence := examiner(lemma, number)) is not None:
                examined.append(occurrence)
                bar.advance(1)
            if len(examined) == count:
                break
    if not examined:
        raise CommandError(
            f"No tagged word has {MIN_KEYS} other known words in its sentence; use other tags, or a"
            " model with more words."
        )
    heads = head_titles(model.layers)
    figures = np.stack([occurrence.figures for occurrence in examined])  # [m, r, c]
    lemmas = np.array([occurrence.lemma for occurrence in examined])
    swaps = np.array([occurrence.swaps for occurrence in examined])
    end = 2 * len(heads)
    lost = figures[:, 0:end:2] - figures[:, 1:end:2]
    qualities = {  # [l, 2] by stack of layers
        name: np.array(list(map(lemma_quality, vectors, data.lemmas)))
        for name, vectors in tables.items()
    }
    groups = np.arange(len(data.lemmas))
    quality = qualities.pop(_UNCHANGED)
    right, judged = (
        round(100 * float(np.mean([getattr(each, name) for each in examined])), 2)
        for name in ("right", "judged")
    )
    return {
        "task": "attention",
        "model": model.manifest.name,
        "occurrences": len(examined),
        "lemmas": len(np.unique(lemmas)),
        "measured_lemmas": len(data.lemmas),
        "seed": seed,
        "right_sense": right,
        "judge_right_sense": judged,
        "rankings": _named([*ranking_titles(model.layers), *CONTROLS], figures, lemmas),
        "by_query": _named(heads, lost, lemmas),
        "swaps": dict(zip(heads, estimates(swaps, lemmas), strict=True)),
        "quality": dict(zip(_QUALITY, estimates(quality, groups), strict=True)),
        "cost": {
            name: dict(zip(_QUALITY, estimates(quality - other, groups), strict=True))
            for name, other in qualities.items()
        },
    }


_UNCHANGED, _NO_QUERIES = "", "all heads"
_QUALITY = ("pairs_auc", "macro_f1")


def stack_vectors(
    model: Model, lemmas: Sequence[LabeledOccurrences], progress: Progress
) -> dict[str, list[Floats]]:
    """Return the vectors [m, d] of each lemma's occurrences, by stack of layers.

    The stacks are the unchanged layers, the layers with Wq = 0 for all heads, and if there are
    several heads, the layers with Wq = 0 for each one.
    """
    heads, d = heads_of(model.layers), model.manifest.dimension
    stacks = {_UNCHANGED: list(model.layers), _NO_QUERIES: zero_queries(model.layers, d, heads)}
    if len(heads) > 1:
        for name, head in zip(head_titles(model.layers), heads, strict=True):
            stacks[name] = zero_queries(model.layers, d, [head])
    readers = {name: stack_reader(layers) for name, layers in stacks.items()}
    occurrences = [occurrence for lemma in lemmas for occurrence in lemma.occurrences]
    tables = tabulate(LocalSource(model), readers, occurrences, progress)
    return {name: [table(lemma.occurrences) for lemma in lemmas] for name, table in tables.items()}


def _named(names: Sequence[str], figures: Floats, lemmas: Integers) -> dict[str, Figures]:
    """Return the estimates by ranking (r) and by measure (c). [m, r, c], [m]"""
    return {
        name: dict(zip(MEASURES, estimates(figures[:, row], lemmas), strict=True))
        for row, name in enumerate(names)
    }


class _Examined(NamedTuple):
    """The measurements of one occurrence."""

    lemma: int
    figures: Floats
    """[r, c], the measures of each ranking"""
    swaps: Floats
    """[L·h], the mean distance between each head's weights of the word and of words instead of it;
    NaN if there are no such words"""
    right: bool
    """whether the nearest centroid is that of the right sense"""
    judged: bool
    """whether naive Bayes finds the right sense"""


class _Examiner:
    """Measures single occurrences."""

    def __init__(self, model: Model, data: SenseData, vectors: list[Floats], seed: int) -> None:
        self._data, self._layers = data, list(model.layers)
        self._rng = np.random.default_rng([seed, 0xA7])
        d = model.manifest.dimension
        self._no_queries = zero_queries(self._layers, d, heads_of(self._layers))
        self._source = LocalSource(model)
        self._draw_similar = FrequencyMatcher(data, self._source.knows)
        senses = [lemma.senses for lemma in data.lemmas]
        self._centroids = list(map(Centroids, vectors, senses))
        self._classifiers = list(map(NaiveBayes, data.lemmas))

    def __call__(self, lemma: int, number: int) -> _Examined | None:
        """Measure an occurrence; return None if it has fewer than MIN_KEYS keys."""
        words, place = self._data.lemmas[lemma].occurrences[number]
        sense = int(self._data.lemmas[lemma].senses[number])
        sentence, layers = self._read(words), self._layers
        # The keys are known words that differ from the query word.
        keys = np.flatnonzero(sentence.known & (sentence.words != sentence.words[place]))
        if len(keys) < MIN_KEYS:
            return None
        centroids, classifier = self._centroids[lemma], self._classifiers[lemma]
        erasure = Erasure(
            sentence, layers, place, lambda vectors: centroids.cosines(number, vectors)
        )
        weights = attention_rows(sentence, layers, place, keys)
        without = attention_rows(sentence, self._no_queries, place, keys)
        scores = [row for pair in zip(weights, without, strict=True) for row in pair]
        h = layers[0].heads
        if h > 1:
            scores += list(weights.reshape(-1, h, len(keys)).mean(axis=1))
        scores.append(contribution_row(sentence, layers, place, keys))
        counts = np.array([self._data.counts[words[key].casefold()] for key in keys])
        nearness, uniform = -np.abs(keys - place), np.zeros(len(keys))
        scores += [nearness, -counts, uniform, self._rng.random(len(keys))]  # CONTROLS
        swaps = []
        for word in self._draw_similar(words[place], words, SWAPS, self._rng):
            swapped = swap_word(sentence, place, self._read([word]))
            others = attention_rows(swapped, layers, place, keys)
            swaps.append(np.abs(weights - others).sum(axis=1) / 2)  # total variation distance
        evidence = classifier.evidence(number, [words[key] for key in keys])[:, sense]
        ties = self._rng.random(len(keys))
        return _Examined(
            lemma,
            evaluate_rankings(np.stack(scores), keys, erasure, sense, evidence, ties),
            np.mean(swaps, axis=0) if swaps else np.full(len(weights), np.nan),
            bool(erasure.cosines().argmax() == sense),
            classifier.guess(number) == sense,
        )

    def _read(self, words: Sequence[str]) -> SentenceArrays:
        (stack,) = self._source([tuple(words)])
        return stack.inputs.select(0)
