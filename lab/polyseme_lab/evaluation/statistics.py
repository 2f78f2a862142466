"""Bootstrap intervals (Efron 1979), confusion matrices, rank correlation, nearest centroids."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import f1_score

from polyseme.engine import Flags, Floats, Integers, unit
from polyseme.errors import CommandError

RESAMPLES, SEED = 1000, 1
LEVEL = 95
"""Confidence level of the intervals in %."""
FOLDS = 5
MAX_ITEMS = 50_000
"""Maximum number of items to resample; more would take over 400 MB."""


class IntervalEstimate(NamedTuple):
    """An estimate in % and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @classmethod
    def from_resamples(cls, value: float, resamples: Floats) -> "IntervalEstimate":
        """Create an estimate from a value (1 is 100 %) and its value in each resample [B]."""
        tail = (100 - LEVEL) / 2
        low, high = np.percentile(resamples, [tail, 100 - tail])
        return cls(*(round(100 * float(part), 2) for part in (value, low, high)))

    @classmethod
    def of_mean(cls, values: Floats | Flags) -> "IntervalEstimate":
        """Create an estimate of the mean of n items. [n]"""
        n = len(values)
        return cls.from_resamples(float(values.mean()), resample_counts(n) @ values / n)

    @classmethod
    def of_statistic(cls, statistic: Callable[[Integers], float], n: int) -> "IntervalEstimate":
        """Create an estimate of `statistic(indices)` for n items."""
        rng = np.random.default_rng(SEED)
        resamples = np.array([statistic(rng.integers(n, size=n)) for _ in range(RESAMPLES)])
        return cls.from_resamples(statistic(np.arange(n)), resamples)


def interval_note(items: str) -> str:
    """Return the note of a table about its intervals, which resample the items."""
    return (
        f"In brackets: {LEVEL} % intervals, percentiles of {RESAMPLES:,} bootstrap resamples of"
        f" {items} (seed {SEED})."
    )


def resample_counts(n: int, stream: int = 0) -> Integers:
    """Return how often each resample draws each of n items. -> [B, n]

    The counts depend only on n and `stream`, so all systems get the same resamples. Each word of
    CoarseWSD-20 has its own stream. Raises CommandError for more than MAX_ITEMS items.
    """
    if n > MAX_ITEMS:
        raise CommandError(
            f"A set of more than {MAX_ITEMS:,} items cannot be resampled. Evaluate a part of it."
        )
    rng = np.random.default_rng([SEED, stream])
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)


def confusion_cells(gold: Integers, predicted: Integers, senses: int) -> Floats:
    """Return each item's cell of the s × s confusion matrix, one-hot. [n], [n] -> [n, s·s]"""
    one_hot = np.zeros((len(gold), senses * senses))
    one_hot[np.arange(len(gold)), gold * senses + predicted] = 1
    return one_hot


def accuracy(counts: Floats) -> Floats:
    """Return the fraction on the diagonal of confusion matrices. [..., s, s] -> [...]"""
    correct = np.trace(counts, axis1=-2, axis2=-1)
    result: Floats = correct / counts.sum(axis=(-2, -1))
    return result


def macro_f1(counts: Floats) -> Floats:
    """Return the mean F1 of the senses that occur or were predicted. [..., s, s] -> [...]

    F1 = 2·correct / (gold + predicted), as in scikit-learn's `f1_score(average="macro")`.
    """
    correct = np.diagonal(counts, axis1=-2, axis2=-1)
    both = counts.sum(axis=-1) + counts.sum(axis=-2)
    f1 = 2 * correct / np.where(both > 0, both, 1)
    result: Floats = f1.sum(axis=-1) / (both > 0).sum(axis=-1)
    return result


def rank_correlation(first: Floats, second: Floats) -> float:
    """Return Spearman's rank correlation, 0 if either is constant. [m], [m]"""
    ranks = rankdata(np.stack([first, second]), axis=1)
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    norm = float(np.sqrt((ranks * ranks).sum(axis=1).prod()))
    return float(ranks[0] @ ranks[1]) / norm if norm else 0.0


def nearest_centroids(train: Floats, labels: Integers, test: Floats) -> Integers:
    """Return the label of the nearest centroid of each test vector. [m, d], [m], [q, d] -> [q]

    A centroid is the mean of the training vectors with a label. All vectors are unit vectors.
    """
    names = np.unique(labels)
    means = np.stack([train[labels == name].mean(axis=0) for name in names])
    nearest: Integers = names[np.argmax(test @ unit(means).T, axis=1)]
    return nearest


def centroids_f1(vectors: Floats, labels: Integers, rng: np.random.Generator) -> float:
    """Return the macro-F1 of the nearest sense centroid in five folds. [m, d], [m] -> float"""
    folds = rng.permutation(len(labels)) % FOLDS
    guesses = np.empty_like(labels)
    for fold in range(min(FOLDS, len(labels))):
        train, test = folds != fold, folds == fold
        guesses[test] = nearest_centroids(vectors[train], labels[train], vectors[test])
    return float(f1_score(labels, guesses, average="macro"))
