"""Measure how well the attention weights of each head explain a contextual vector.

docs/explanation.md has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats, Integers
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme.errors import CommandError
from polyseme.models.model import Model
from polyseme.progress import SILENT, Progress
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.perturbation import (
    MEASURES,
    SENTENCES,
    Erasure,
    FrequencyMatcher,
    attended_places,
    attention_of,
    attention_rows,
    evaluate_rankings,
    head_titles,
    heads_of,
    ranking_titles,
    swap_word,
    total_variation,
    zero_queries,
)
from polyseme_lab.evaluation.senses import (
    Centroids,
    Lemma,
    NaiveBayes,
    SenseData,
    lemma_quality,
    round_robin,
)
from polyseme_lab.evaluation.sources import LocalSource
from polyseme_lab.evaluation.statistics import resample_counts
from polyseme_lab.evaluation.systems import Reader, tabulate

OCCURRENCES, SEED = 500, 1
SWAPS = 3
"""Maximum number of words that replace each query word in turn."""
MIN_KEYS = 4
"""Minimum number of keys of an occurrence for a ranking."""
CONTROLS = ("nearness", "rarity", "uniform", "random")
"""Rankings without a model, in the order of `_Examiner._scores`."""


class Estimate(NamedTuple):
    """A measure × 100, and its standard error × 100 from bootstrap resamples of the lemmas."""

    value: float
    error: float

    @classmethod
    def of(cls, value: float, resamples: Floats) -> "Estimate":
        """Create an estimate from a measure and its value in each resample [B]."""
        return cls(round(100 * float(value), 2), round(100 * float(np.std(resamples)), 2))


Figures: TypeAlias = dict[str, Estimate | None]
"""Estimates by measure or by head; None if no occurrence has a value."""


@dataclass(frozen=True)
class Explanation:
    """The results of `explain`."""

    rankings: dict[str, Figures]
    """by ranking, then by measure"""
    by_query: dict[str, Figures]
    """by head: the decrease of each measure with Wq = 0"""
    swaps: Figures
    """by head: the mean distance between the attention weights of two query words"""
    quality: Figures
    cost: dict[str, Figures]
    """by the heads that have Wq = 0: the decrease of quality"""
    facts: dict[str, Any]
    examples: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """Return the results as a JSON document."""

        def plain(figures: Any) -> Any:
            if isinstance(figures, Estimate):
                return figures._asdict()
            return figures and {name: plain(one) for name, one in figures.items()}

        names = ("rankings", "by_query", "swaps", "quality", "cost")
        measured = {name: plain(getattr(self, name)) for name in names}
        return {"task": "attention", **self.facts, **measured, "examples": self.examples}


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
        None if np.isnan(mean) else Estimate.of(mean, column[~np.isnan(column)])
        for mean, column in zip(means, resampled.T, strict=True)
    ]


def explain(
    model: Model,
    data: SenseData,
    count: int = OCCURRENCES,
    seed: int = SEED,
    progress: Progress = SILENT,
) -> Explanation:
    """Evaluate a model on a random sample of tagged occurrences.

    Raises CommandError if the model or the tags have nothing to evaluate.
    """
    if not model.layers:
        raise CommandError("The model has no layer, and so no attention to measure.")
    if not data.lemmas:
        raise CommandError(
            "No lemma has two senses with eight known occurrences each; use more tags."
        )
    heads = head_titles(model.layers)
    tables = _lemma_vectors(model, data.lemmas, progress)
    found = _examine(model, data, tables[_UNCHANGED], (count, seed), progress)
    qualities = _quality(tables, data.lemmas)
    groups = np.arange(len(data.lemmas))
    quality = qualities.pop(_UNCHANGED)
    cost = {name: estimates(quality - other, groups) for name, other in qualities.items()}
    figures = np.stack([one.figures for one in found])  # [m, r, c]
    lemmas = np.array([one.lemma for one in found])
    end = 2 * len(heads)
    lost = figures[:, 0:end:2] - figures[:, 1:end:2]
    swaps = np.array([one.swaps for one in found])
    right, judged = (np.mean([getattr(one, name) for one in found]) for name in ("right", "judged"))
    return Explanation(
        rankings=_named([*ranking_titles(model.layers), *CONTROLS], figures, lemmas),
        by_query=_named(heads, lost, lemmas),
        swaps=dict(zip(heads, estimates(swaps, lemmas), strict=True)),
        quality=dict(zip(_QUALITY, estimates(quality, groups), strict=True)),
        cost={name: dict(zip(_QUALITY, one, strict=True)) for name, one in cost.items()},
        facts={
            "model": model.manifest.name,
            "occurrences": len(found),
            "lemmas": len(np.unique(lemmas)),
            "measured_lemmas": len(data.lemmas),
            "seed": seed,
            "right_sense": round(100 * float(right), 2),
            "judge_right_sense": round(100 * float(judged), 2),
        },
        examples=[attention_of(model, text, word) for text, word in SENTENCES],
    )


_UNCHANGED, _NO_QUERIES = "", "all heads"
_QUALITY = ("pairs_auc", "macro_f1")


def _lemma_vectors(
    model: Model, lemmas: Sequence[Lemma], progress: Progress
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
    readers = {name: _reader(layers) for name, layers in stacks.items()}
    occurrences = [one for lemma in lemmas for one in lemma.occurrences]
    tables = tabulate(LocalSource(model), readers, occurrences, progress)
    return {name: [table(lemma.occurrences) for lemma in lemmas] for name, table in tables.items()}


def _reader(layers: Sequence[Layer]) -> Reader:
    return lambda read, places: contextualize(read.sentence, layers).contextual[list(places)]


def _quality(tables: dict[str, list[Floats]], lemmas: Sequence[Lemma]) -> dict[str, Floats]:
    """Return the measures `_QUALITY` of each lemma, by stack of layers. -> [l, 2]"""
    return {
        name: np.array([lemma_quality(v, one) for v, one in zip(vectors, lemmas, strict=True)])
        for name, vectors in tables.items()
    }


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
    """[L·h], by head"""
    right: bool
    """whether the nearest centroid is that of the right sense"""
    judged: bool
    """whether naive Bayes finds the right sense"""


def _examine(
    model: Model, data: SenseData, vectors: list[Floats], draw: tuple[int, int], progress: Progress
) -> list[_Examined]:
    """Measure occurrences, one of each lemma in turn; `draw` is (maximum number, seed)."""
    count, seed = draw
    examiner = _Examiner(model, data, vectors, np.random.default_rng([seed, 0xA7]))
    found: list[_Examined] = []
    with progress.stage("occurrences", count, in_bytes=False) as bar:
        for lemma, number in round_robin(data.lemmas, seed):
            if (examined := examiner(lemma, number)) is not None:
                found.append(examined)
                bar.advance(1)
            if len(found) == count:
                break
    if not found:
        raise CommandError(
            f"No tagged word has {MIN_KEYS} other known words in its sentence; use other tags, or a"
            " model with more words."
        )
    return found


class _Examiner:
    """Measures single occurrences."""

    def __init__(
        self, model: Model, data: SenseData, vectors: list[Floats], rng: np.random.Generator
    ) -> None:
        self._data, self._rng, self._layers = data, rng, list(model.layers)
        d = model.manifest.dimension
        self._no_queries = zero_queries(self._layers, d, heads_of(self._layers))
        self._source = LocalSource(model)
        self._draw_similar = FrequencyMatcher(data, self._source.knows)
        self._centroids = [
            Centroids(v, lemma.senses) for v, lemma in zip(vectors, data.lemmas, strict=True)
        ]
        self._classifiers = list(map(NaiveBayes, data.lemmas))

    def __call__(self, lemma: int, number: int) -> _Examined | None:
        """Measure an occurrence; return None if it has fewer than MIN_KEYS keys."""
        one = self._data.lemmas[lemma].occurrences[number]
        sense = int(self._data.lemmas[lemma].senses[number])
        sentence = self._read(one.words)
        keys = attended_places(sentence, one.place)
        if len(keys) < MIN_KEYS:
            return None
        centroids, classifier = self._centroids[lemma], self._classifiers[lemma]
        erasure = Erasure(
            sentence, self._layers, one.place, lambda vectors: centroids.cosines(number, vectors)
        )
        scores, swaps = self._scores(sentence, one, keys)
        evidence = classifier.evidence(number, [one.words[key] for key in keys])[:, sense]
        ties = self._rng.random(len(keys))
        return _Examined(
            lemma,
            evaluate_rankings(scores, keys, erasure, sense, evidence, ties),
            swaps,
            bool(erasure.cosines().argmax() == sense),
            classifier.guess(number) == sense,
        )

    def _read(self, words: Sequence[str]) -> SentenceArrays:
        (read,) = self._source([tuple(words)])
        return read.sentence

    def _scores(
        self, sentence: SentenceArrays, one: TokenizedOccurrence, keys: Integers
    ) -> tuple[Floats, Floats]:
        """Return the scores of m keys in each ranking, and `_swaps`. -> [r, m], [L·h]"""
        weights = attention_rows(sentence, self._layers, one.place, keys)
        without = attention_rows(sentence, self._no_queries, one.place, keys)
        found = [row for pair in zip(weights, without, strict=True) for row in pair]
        h = self._layers[0].heads
        if h > 1:
            found += list(weights.reshape(-1, h, len(keys)).mean(axis=1))
        counts = [self._data.counts[one.words[key].casefold()] for key in keys]
        controls = (
            *(-np.abs(keys - one.place), -np.array(counts)),
            *(np.zeros(len(keys)), self._rng.random(len(keys))),
        )
        return np.stack([*found, *controls]), self._swaps(sentence, one, keys, weights)

    def _swaps(
        self, sentence: SentenceArrays, one: TokenizedOccurrence, keys: Integers, weights: Floats
    ) -> Floats:
        """Return each head's mean distance between the weights of a word and its replacements.

        -> [L·h], NaN if there are no replacements.
        """
        drawn = self._draw_similar(one.word, one.words, SWAPS, self._rng)
        found = [
            attention_rows(
                swap_word(sentence, one.place, self._read([word])), self._layers, one.place, keys
            )
            for word in drawn
        ]
        if not found:
            return np.full(len(weights), np.nan)
        return np.asarray(np.mean([total_variation(weights, other) for other in found], axis=0))
