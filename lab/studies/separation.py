"""Measure how well vectors separate senses, with standard errors over the sampled lemmas.

The measures are the macro-F1 of the nearest sense centroid in five folds, averaged over nouns, and
the area under the ROC curve of the cosine over pairs of occurrences of a lemma.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import f1_score, roc_auc_score

from polyseme.engine.arrays import Flags, Floats, Integers, unit

FEWEST, FOLDS, PAIRS, SEED = 8, 5, 60_000, 1
Tagged = tuple[int, int, str, str]
"""A tagged word: number of the sentence, position, lemma with part of speech, sense."""
Lemmas = dict[str, tuple[Integers, Integers]]
"""Indices of the tagged words of each lemma, and the index of the sense of each."""


class Pairs(NamedTuple):
    """Pairs of occurrences of one lemma."""

    first: Integers
    second: Integers
    same: Flags
    lemma: Integers


@dataclass(frozen=True)
class Separation:
    """The measures of some vectors, as fractions."""

    f1: Floats
    """[nouns]"""
    auc: float
    influence: Floats
    """[lemmas], contribution of each lemma to the error of the AUC; see `auc_influence`"""


def by_lemma(tagged: Sequence[Tagged]) -> Lemmas:
    """Return the occurrences in frequent senses of each lemma with two or more such senses."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, (_, _, lemma, sense) in enumerate(tagged):
        found[lemma][sense].append(number)
    kept = {}
    for lemma, senses in found.items():
        often = {sense: ns for sense, ns in senses.items() if len(ns) >= FEWEST}
        if len(often) > 1:
            numbers = np.array([n for ns in often.values() for n in ns])
            labels = np.array([i for i, ns in enumerate(often.values()) for _ in ns])
            kept[lemma] = numbers, labels
    return kept


def nouns_of(lemmas: Lemmas) -> list[tuple[Integers, Integers]]:
    """Return the indices and senses of each noun."""
    return [pair for lemma, pair in lemmas.items() if lemma.endswith("/NOUN")]


def centroids_f1(vectors: Floats, labels: Integers, rng: np.random.Generator) -> float:
    """Return the macro-F1 of the nearest sense centroid in five folds. [m, d], [m] -> float"""
    folds = rng.permutation(len(labels)) % FOLDS
    guesses = np.empty_like(labels)
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        names = np.unique(labels[train])
        means = np.stack([vectors[train & (labels == name)].mean(axis=0) for name in names])
        guesses[test] = names[np.argmax(vectors[test] @ unit(means).T, axis=1)]
    return float(f1_score(labels, guesses, average="macro"))


def pairs_of(lemmas: Lemmas) -> Pairs:
    """Draw random pairs of occurrences; each lemma has the same expected number of pairs."""
    rng, all_ = np.random.default_rng(SEED), list(lemmas.values())
    drawn = []
    for lemma in rng.integers(len(all_), size=PAIRS):
        numbers, labels = all_[lemma]
        a, b = rng.choice(len(numbers), 2, replace=False)
        drawn.append((numbers[a], numbers[b], labels[a] == labels[b], lemma))
    first, second, same, lemma = (np.array(part) for part in zip(*drawn, strict=True))
    return Pairs(first, second, same, lemma)


def separation(vectors: Floats, lemmas: Lemmas, pairs: Pairs) -> Separation:
    """Return both measures of unit vectors. [m, d]"""
    rng = np.random.default_rng(SEED)
    f1 = [centroids_f1(vectors[numbers], labels, rng) for numbers, labels in nouns_of(lemmas)]
    cosines = np.einsum("md,md->m", vectors[pairs.first], vectors[pairs.second])
    auc = float(roc_auc_score(pairs.same, cosines))
    influence = auc_influence(cosines, pairs.same, pairs.lemma, len(lemmas))
    return Separation(np.array(f1), auc, influence)


def auc_influence(cosines: Floats, same: Flags, lemma: Integers, lemmas: int) -> Floats:
    """Return each lemma's contribution to the AUC's error; the squares sum to its variance. -> [l]

    With l lemmas, a contribution is √(l / (l − 1)) times the sum of the structural components
    (Obuchowski 1997) of the lemma's pairs. The component of a pair with the same sense is the share
    of pairs with different senses that have a lower cosine, minus the AUC, divided by the number of
    pairs with the same sense. For a pair with different senses, it is the share of pairs with the
    same sense that have a higher cosine, minus the AUC, divided by the number of pairs with
    different senses.
    """
    ranks, above = rankdata(cosines), np.empty(len(cosines))
    for kind in (same, ~same):
        above[kind] = (ranks[kind] - rankdata(cosines[kind])) / max(1, np.count_nonzero(~kind))
    above[~same] = 1 - above[~same]
    area = above[same].mean()
    parts = (above - area) / np.where(same, np.count_nonzero(same), np.count_nonzero(~same))
    sums = np.bincount(lemma, weights=parts, minlength=lemmas)
    correction = np.sqrt(lemmas / max(1, lemmas - 1))
    influence: Floats = correction * sums
    return influence


def figures(one: Separation, base: Separation | None = None) -> dict[str, dict[str, float]]:
    """Return both measures in % with standard errors, and the paired differences from `base`."""
    f1 = _figure(float(one.f1.mean()), _of_mean(one.f1))
    auc = _figure(one.auc, _of_sum(one.influence))
    if base is not None:
        f1 |= _difference(float((one.f1 - base.f1).mean()), _of_mean(one.f1 - base.f1))
        auc |= _difference(one.auc - base.auc, _of_sum(one.influence - base.influence))
    return {"nouns_macro_f1": f1, "pairs_auc": auc}


def _of_mean(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _of_sum(influence: Floats) -> float:
    return float(np.sqrt((influence**2).sum()))


def _figure(value: float, error: float) -> dict[str, float]:
    return {"value": _percent(value), "error": _percent(error)}


def _difference(value: float, error: float) -> dict[str, float]:
    return {"difference": _percent(value), "difference_error": _percent(error)}


def _percent(part: float) -> float:
    return round(100 * part, 2) + 0.0  # no −0.0


def plain(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the measures without their errors."""
    return {name: one["value"] for name, one in found.items()}
