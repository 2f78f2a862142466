"""Fit the projection and the rule of `/v1/senses` to hidden words of a text.

Words that occur often enough are hidden in their sentences. The projection is the linear
discriminant (Fisher 1936) that tells the words apart: directions in which the surroundings of every
word vary count less, directions in which words differ count more. The rule for one sense or several
is a logistic regression that tells single words from pairs of similar words.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.models.model import Model
from polyseme.models.senses import ContextProjection
from polyseme.senses.clustering import two_cluster_statistics
from polyseme.senses.occurrences import encode_occurrences
from polyseme.senses.projection import SHRINKAGE
from polyseme.tokenizer import ResolvedToken, resolve_all

WIDTH = 200
"""The number of dimensions of the projection."""
RATIO, SIMILAR = 1.35, (0.1, 0.35)
"""Largest ratio of the ranks, and range of the static cosine, of a pair of similar words."""
MIN_PAIRS = 30
"""With fewer pairs of similar words, no rule is fitted."""
RIDGE, STEPS = 1e-2, 30
HIDDEN = ResolvedToken("", None, None, None, "oov", None)
"""A token that hides a word: it has no vector, and no other token is an occurrence of it."""


class HiddenWord(NamedTuple):
    """The words of a sentence, and the place of the one to hide."""

    words: Sequence[str]
    place: int


def hidden_surroundings(model: Model, occurrences: Sequence[HiddenWord]) -> Floats:
    """Return the surroundings of hidden words. -> [m, 3d]"""
    rows = []
    for words, place in occurrences:
        tokens = resolve_all(words, model.vocabulary, composes=model.composes)
        tokens[place] = HIDDEN
        rows.append(encode_occurrences(model, tokens, [place], 0)[0].surroundings)
    return unit(np.stack(rows).astype(np.float64))


def fit_discriminant(words: Sequence[Floats], width: int = WIDTH) -> ContextProjection:
    """Fit a linear discriminant to the surroundings of words. [m, 3d] each -> [3d], [3d, r]"""
    from scipy.linalg import eigh  # noqa: PLC0415 - slow import

    means = np.stack([one.mean(axis=0) for one in words])
    rest = np.concatenate([one - mean for one, mean in zip(words, means, strict=True)])
    within = rest.T @ rest / (len(rest) - len(words))
    between = np.cov(means.T) - within * np.mean([1 / len(one) for one in words])
    d = len(within)
    shrunk = within + (SHRINKAGE * np.trace(within) / d or 1) * np.eye(d)
    _, directions = eigh(between, shrunk, subset_by_index=[d - min(width, d), d - 1])
    return ContextProjection(means.mean(axis=0), directions[:, ::-1], np.zeros(0))


def similar_pairs(model: Model, words: Sequence[str], ranks: Mapping[str, int]) -> list[list[str]]:
    """Pair words of the same last two letters, of similar rank and static vector."""
    left = sorted(words, key=lambda word: crc32(word.encode()))
    tokens = resolve_all(left, model.vocabulary, composes=model.composes)
    vectors = dict(zip(left, unit(model.static(tokens)), strict=True))
    found = []
    while left:
        word = left.pop()
        for other in left:
            if (
                other[-2:] == word[-2:]
                and 1 / RATIO < ranks[other] / ranks[word] < RATIO
                and SIMILAR[0] < vectors[other] @ vectors[word] < SIMILAR[1]
            ):
                found.append([word, other])
                left.remove(other)
                break
    return found


def fit_rule(words: Mapping[str, Floats], pairs: Sequence[Sequence[str]]) -> Floats | None:
    """Fit the rule to the points of words, and of pairs of words. [m, r] each -> [3]

    A pair has half of the occurrences of both words, so all examples have equally many. The words
    and the pairs have the same total weight. None if there are too few pairs.
    """
    if len(pairs) < MIN_PAIRS:
        return None
    values, several = [], []
    for pair in pairs:
        parts = [words[word] for word in pair]
        examples = [*parts, np.concatenate([part[::2] for part in parts])]
        values += [two_cluster_statistics(points) for points in examples]
        several += [False, False, True]
    return logistic_regression(np.array(values), np.array(several))


def logistic_regression(values: Floats, labels: Flags) -> Floats:
    """Return intercept and weights by Newton's method, for classes of equal weight. [m, s] -> [1+s]

    The weights have a small ridge, so the result is finite even if a line separates the classes.
    """
    x = np.hstack([np.ones((len(values), 1)), values])
    y = labels.astype(np.float64)
    weights = np.where(labels, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    rule = np.zeros(x.shape[1])
    ridge = RIDGE * np.diag([0.0] + [1.0] * values.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-x @ rule))
        gradient = x.T @ (weights * (y - p)) - ridge @ rule
        curvature = (x * (weights * p * (1 - p))[:, None]).T @ x + ridge
        rule += np.linalg.solve(curvature + 1e-9 * np.eye(len(rule)), gradient)
    return rule
