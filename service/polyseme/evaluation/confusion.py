"""Counts of what was there and what was guessed, and the figures that follow from them."""

import numpy as np

from polyseme.engine.arrays import Floats, Integers


def cells(gold: Integers, guesses: Integers, senses: int) -> Floats:
    """Which cell of the s × s confusion matrix each item falls into. [n], [n] -> [n, s·s]"""
    one_hot = np.zeros((len(gold), senses * senses))
    one_hot[np.arange(len(gold)), gold * senses + guesses] = 1
    return one_hot


def accuracy(counts: Floats) -> Floats:
    """The part that was guessed right. [..., s, s] -> [...]"""
    right = np.trace(counts, axis1=-2, axis2=-1)
    result: Floats = right / counts.sum(axis=(-2, -1))
    return result


def macro_f1(counts: Floats) -> Floats:
    """The mean F1 of the senses that are there or were guessed. [..., s, s] -> [...]

    Of each: F1 = 2·right / (there + guessed), as scikit-learn's `f1_score(average="macro")` has it.
    """
    right = np.diagonal(counts, axis1=-2, axis2=-1)
    both = counts.sum(axis=-1) + counts.sum(axis=-2)
    f1 = 2 * right / np.where(both > 0, both, 1)
    result: Floats = f1.sum(axis=-1) / (both > 0).sum(axis=-1)
    return result
