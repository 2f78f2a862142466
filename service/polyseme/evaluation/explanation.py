"""How far attention rows say what a contextual vector rests on, head by head, beside controls.

docs/explanation.md has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats, Integers
from polyseme.engine.attention import Sentence
from polyseme.engine.layers import Layer, contextualize
from polyseme.evaluation.bootstrap import draws
from polyseme.evaluation.occurrences import Occurrence
from polyseme.evaluation.perturbation import (
    MEASURES,
    SENTENCES,
    Erasure,
    LikeFrequency,
    attention_of,
    distances,
    heads_of,
    measured,
    others,
    rankings_of,
    rows,
    swapped,
    titles_of,
    unqueried,
)
from polyseme.evaluation.progress import Course, quiet
from polyseme.evaluation.readings import LocalSource
from polyseme.evaluation.refusal import EvaluationError
from polyseme.evaluation.senses import Centroids, Judge, Lemma, Material, in_turn, quality
from polyseme.evaluation.systems import Reader, tabulate
from polyseme.models.model import Model

OCCURRENCES, SEED = 500, 1
SWAPS = 3
"""Words that look in place of each."""
FEWEST_WORDS = 4
"""Words that an occurrence can look at; with fewer there is nothing to tell apart."""
CONTROLS = ("nearness", "rarity", "uniform", "random")
"""Rankings that no model made, in the order of `_Examiner`."""


class Estimate(NamedTuple):
    """A figure and its standard error, both times 100; of B bootstrap resamples of the lemmas."""

    value: float
    error: float

    @classmethod
    def of(cls, value: float, resampled: Floats) -> "Estimate":
        """From parts of 1. [B] -> estimate"""
        return cls(round(100 * float(value), 2), round(100 * float(np.std(resampled)), 2))


Figures: TypeAlias = dict[str, Estimate | None]
"""By measure; None where no occurrence has such a thing, as words whose removal flips the sense."""


@dataclass(frozen=True)
class Explanation:
    """What was measured."""

    rankings: dict[str, Figures]
    """by what ranks a sentence's words, then by measure"""
    by_query: dict[str, Figures]
    """by head: what each measure loses where the same head has Wq = 0"""
    swaps: Figures
    """by head: the mean distance between the rows of two looking words"""
    quality: Figures
    cost: dict[str, Figures]
    """by whose Wq is zero: how much of the quality is lost"""
    facts: dict[str, Any]
    examples: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """The results for programs."""

        def plain(figures: Any) -> Any:
            if isinstance(figures, Estimate):
                return figures._asdict()
            return figures and {name: plain(one) for name, one in figures.items()}

        names = ("rankings", "by_query", "swaps", "quality", "cost")
        measured = {name: plain(getattr(self, name)) for name in names}
        return {"task": "attention", **self.facts, **measured, "examples": self.examples}


def estimates(values: Floats, lemmas: Integers) -> list[Estimate | None]:
    """Means over occurrences, and how they vary with the lemmas. [m, c], [m] -> c estimates

    NaN is what an occurrence has no value of.
    """
    there = ~np.isnan(values)
    one_hot = (np.unique(lemmas)[:, None] == lemmas).astype(np.float64)  # [l, m]
    sums, counts = one_hot @ np.where(there, values, 0), one_hot @ there
    drawn = draws(len(one_hot)).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a resample, or all, may have no value
        resampled = (drawn @ sums) / (drawn @ counts)
        means = sums.sum(axis=0) / counts.sum(axis=0)
    return [
        None if np.isnan(mean) else Estimate.of(mean, column[~np.isnan(column)])
        for mean, column in zip(means, resampled.T, strict=True)
    ]


def explain(
    model: Model,
    material: Material,
    count: int = OCCURRENCES,
    seed: int = SEED,
    course: Course = quiet,
) -> Explanation:
    """Measure a model on some occurrences of tagged words, drawn at random.

    Raises EvaluationError where the model, or the tags, have nothing to measure.
    """
    if not model.layers:
        raise EvaluationError("The model has no layer, and so no attention to measure.")
    if not material.lemmas:
        raise EvaluationError("No lemma has two senses of eight known occurrences: give more tags.")
    heads = titles_of(model.layers)
    tables = _tabulated(model, material.lemmas, course)
    found = _examined(model, material, tables[_AS_IT_IS], (count, seed), course)
    of_quality = _quality(tables, material.lemmas)
    groups = np.arange(len(material.lemmas))
    whole = of_quality.pop(_AS_IT_IS)
    cost = {who: estimates(whole - found, groups) for who, found in of_quality.items()}
    figures = np.stack([one.figures for one in found])  # [m, r, c]
    lemmas = np.array([one.lemma for one in found])
    end = 2 * len(heads)
    lost = figures[:, 0:end:2] - figures[:, 1:end:2]
    swaps = np.array([one.swaps for one in found])
    right, judged = (np.mean([getattr(one, name) for one in found]) for name in ("right", "judged"))
    return Explanation(
        rankings=_named([*rankings_of(model.layers), *CONTROLS], figures, lemmas),
        by_query=_named(heads, lost, lemmas),
        swaps=dict(zip(heads, estimates(swaps, lemmas), strict=True)),
        quality=dict(zip(_QUALITY, estimates(whole, groups), strict=True)),
        cost={who: dict(zip(_QUALITY, one, strict=True)) for who, one in cost.items()},
        facts={
            "model": model.manifest.name,
            "occurrences": len(found),
            "lemmas": len(np.unique(lemmas)),
            "measured_lemmas": len(material.lemmas),
            "seed": seed,
            "right_sense": round(100 * float(right), 2),
            "judge_right_sense": round(100 * float(judged), 2),
        },
        examples=[attention_of(model, text, word) for text, word in SENTENCES],
    )


_AS_IT_IS, _NO_QUERIES = "", "all heads"
_QUALITY = ("pairs_auc", "macro_f1")


def _tabulated(model: Model, lemmas: Sequence[Lemma], course: Course) -> dict[str, list[Floats]]:
    """The vectors of each lemma's occurrences: as they are, and with Wq = 0. -> [m, d] of each"""
    heads, d = heads_of(model.layers), model.manifest.dimension
    stacks = {_AS_IT_IS: list(model.layers), _NO_QUERIES: unqueried(model.layers, d, heads)}
    if len(heads) > 1:
        for name, head in zip(titles_of(model.layers), heads, strict=True):
            stacks[name] = unqueried(model.layers, d, [head])
    readers = {name: _reader(layers) for name, layers in stacks.items()}
    asked = [one for lemma in lemmas for one in lemma.occurrences]
    tables = tabulate(LocalSource(model), readers, asked, course)
    return {name: [table(lemma.occurrences) for lemma in lemmas] for name, table in tables.items()}


def _reader(layers: Sequence[Layer]) -> Reader:
    return lambda reading, places: contextualize(reading.sentence, layers).contextual[list(places)]


def _quality(tables: dict[str, list[Floats]], lemmas: Sequence[Lemma]) -> dict[str, Floats]:
    """Of each stack: both figures of each lemma. -> [l, 2]"""
    return {
        name: np.array([quality(v, one) for v, one in zip(vectors, lemmas, strict=True)])
        for name, vectors in tables.items()
    }


def _named(names: Sequence[str], figures: Floats, lemmas: Integers) -> dict[str, Figures]:
    """By name and measure. [m, r, c], [m]"""
    return {
        name: dict(zip(MEASURES, estimates(figures[:, row], lemmas), strict=True))
        for row, name in enumerate(names)
    }


class _Seen(NamedTuple):
    """What was found of one occurrence."""

    lemma: int
    figures: Floats
    """[r, c]"""
    swaps: Floats
    """[L·h]"""
    right: bool
    judged: bool


def _examined(
    model: Model, material: Material, vectors: list[Floats], draw: tuple[int, int], course: Course
) -> list[_Seen]:
    """Some occurrences, taken of each lemma in turn. `draw`: how many, and the seed."""
    count, seed = draw
    examiner = _Examiner(model, material, vectors, np.random.default_rng([seed, 0xA7]))
    found: list[_Seen] = []
    with course("occurrences", count) as advance:
        for lemma, number in in_turn(material.lemmas, seed):
            seen = examiner(lemma, number)
            if seen is not None:
                found.append(seen)
                advance(1)
            if len(found) == count:
                break
    if not found:
        said = f"No tagged word stands among {FEWEST_WORDS} others that the model knows"
        raise EvaluationError(f"{said}: give other tags, or a model with more words.")
    return found


class _Examiner:
    """Measures single occurrences of a model."""

    def __init__(
        self, model: Model, material: Material, vectors: list[Floats], rng: np.random.Generator
    ) -> None:
        self._material, self._rng, self._layers = material, rng, list(model.layers)
        d = model.manifest.dimension
        self._off = unqueried(self._layers, d, heads_of(self._layers))
        self._source = LocalSource(model)
        self._like = LikeFrequency(material, self._source.knows)
        self._centroids = [
            Centroids(v, lemma.senses) for v, lemma in zip(vectors, material.lemmas, strict=True)
        ]
        self._judges = list(map(Judge, material.lemmas))

    def __call__(self, lemma: int, number: int) -> _Seen | None:
        """Measure an occurrence; None where it has too few words around it."""
        one = self._material.lemmas[lemma].occurrences[number]
        sense = int(self._material.lemmas[lemma].senses[number])
        sentence = self._read(one.words)
        keys = others(sentence, one.place)
        if len(keys) < FEWEST_WORDS:
            return None
        centroids, judge = self._centroids[lemma], self._judges[lemma]
        erasure = Erasure(
            sentence, self._layers, one.place, lambda vectors: centroids.cosines(number, vectors)
        )
        scores, swaps = self._scores(sentence, one, keys)
        evidence = judge.evidence(number, [one.words[key] for key in keys])[:, sense]
        ties = self._rng.random(len(keys))
        return _Seen(
            lemma,
            measured(scores, keys, erasure, sense, evidence, ties),
            swaps,
            bool(erasure.cosines().argmax() == sense),
            judge.guess(number) == sense,
        )

    def _read(self, words: Sequence[str]) -> Sentence:
        (reading,) = self._source([tuple(words)])
        return reading.sentence

    def _scores(self, sentence: Sentence, one: Occurrence, keys: Integers) -> tuple[Floats, Floats]:
        """What each ranking makes of the words, and each head's swaps. -> [r, m], [L·h]"""
        weights = rows(sentence, self._layers, one.place, keys)
        off = rows(sentence, self._off, one.place, keys)
        found = [row for pair in zip(weights, off, strict=True) for row in pair]
        h = self._layers[0].heads
        if h > 1:
            found += list(weights.reshape(-1, h, len(keys)).mean(axis=1))
        counts = [self._material.counts[one.words[key].casefold()] for key in keys]
        controls = (
            *(-np.abs(keys - one.place), -np.array(counts)),
            *(np.zeros(len(keys)), self._rng.random(len(keys))),
        )
        return np.stack([*found, *controls]), self._swaps(sentence, one, keys, weights)

    def _swaps(
        self, sentence: Sentence, one: Occurrence, keys: Integers, weights: Floats
    ) -> Floats:
        """How far each row is from that of words of like frequency. -> [L·h]"""
        drawn = self._like(one.word, one.words, SWAPS, self._rng)
        found = [
            rows(swapped(sentence, one.place, self._read([word])), self._layers, one.place, keys)
            for word in drawn
        ]
        if not found:
            return np.full(len(weights), np.nan)
        return np.asarray(np.mean([distances(weights, other) for other in found], axis=0))
