"""Statistics: bootstrap intervals (Efron 1979), confusion matrices, rankings."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from polyseme.command_error import CommandError
from polyseme.engine.arrays import Flags, Floats, Integers

RESAMPLES, SEED = 1000, 1
LEVEL = 95
"""Confidence level of the intervals in %."""
MOST = 50_000
"""Items to resample at most: 400 MB."""


class Figure(NamedTuple):
    """A figure in %, and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, resamples: Floats) -> "Figure":
        """From a fraction of 1, and its value in each resample. [B] -> figure"""
        tail = (100 - LEVEL) / 2
        low, high = np.percentile(resamples, [tail, 100 - tail])
        return cls(*(round(100 * float(one), 2) for one in (value, low, high)))


def resample_counts(n: int, stream: int = 0) -> Integers:
    """How often each resample draws each of n items. -> [B, n]

    The counts depend on n and `stream` alone, so that all systems are resampled alike. Each set of
    items has a stream of its own. Raises CommandError for more than MOST items.
    """
    if n > MOST:
        raise CommandError(f"A set of more than {MOST:,} items is not resampled; measure a part.")
    rng = np.random.default_rng([SEED, stream])
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)


def bootstrap(statistic: Callable[[Integers], float], n: int) -> Floats:
    """A statistic of the indices that each resample draws. -> [B]"""
    rng = np.random.default_rng(SEED)
    return np.array([statistic(rng.integers(n, size=n)) for _ in range(RESAMPLES)])


def confusion_cells(gold: Integers, guesses: Integers, senses: int) -> Floats:
    """The cell of the s × s confusion matrix of each item, one-hot. [n], [n] -> [n, s·s]"""
    one_hot = np.zeros((len(gold), senses * senses))
    one_hot[np.arange(len(gold)), gold * senses + guesses] = 1
    return one_hot


def accuracy(counts: Floats) -> Floats:
    """The fraction on the diagonal of confusion matrices. [..., s, s] -> [...]"""
    right = np.trace(counts, axis1=-2, axis2=-1)
    result: Floats = right / counts.sum(axis=(-2, -1))
    return result


def macro_f1(counts: Floats) -> Floats:
    """The mean F1 of the senses that occur or were guessed. [..., s, s] -> [...]

    F1 = 2·right / (gold + guessed), as in scikit-learn's `f1_score(average="macro")`.
    """
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    both = counts.sum(axis=-1) + counts.sum(axis=-2)
    f1 = 2 * right / np.where(both > 0, both, 1)
    result: Floats = f1.sum(axis=-1) / (both > 0).sum(axis=-1)
    return result


def roc_auc(scores: Floats, positive: Flags) -> Floats:
    """The area under the ROC curve of each row of scores. [r, m], [m] -> [r]

    The probability that a positive scores higher than a negative, ties counting ½; NaN without
    positives or negatives.
    """
    yes = int(positive.sum())
    no = len(positive) - yes
    if not yes or not no:
        return np.full(len(scores), np.nan)
    above = rankdata(scores, axis=1)[:, positive].sum(axis=1) - yes * (yes + 1) / 2
    result: Floats = above / (yes * no)
    return result


def spearman(scores: Floats, target: Floats) -> Floats:
    """Spearman's rank correlation of each row with the target. [r, m], [m] -> [r]

    0 if the row is constant, NaN if the target is.
    """
    ranks, aim = rankdata(scores, axis=1), rankdata(target)
    ranks, aim = ranks - ranks.mean(axis=1, keepdims=True), aim - aim.mean()
    if not aim.any():
        return np.full(len(scores), np.nan)
    lengths = np.sqrt((ranks * ranks).sum(axis=1) * (aim @ aim))
    result: Floats = ranks @ aim / np.where(lengths > 0, lengths, 1)
    return result


def precision_at(scores: Floats, positive: Flags, k: int) -> Floats:
    """The fraction of positives among the k highest, averaged over ties. [r, m], [m] -> [r]

    NaN without positives.
    """
    if not positive.any():
        return np.full(len(scores), np.nan)
    last = np.sort(scores, axis=1)[:, -k, None]
    above, level = (np.asarray(part, np.float64) for part in (scores > last, scores == last))
    left = (k - above.sum(axis=1)) / level.sum(axis=1)
    result: Floats = (above @ positive + left * (level @ positive)) / k
    return result
