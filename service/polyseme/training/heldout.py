"""Scores on lemmas, or words, that are never trained on: do occurrences of one sense stand near?"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, unit
from polyseme.training.contexts import Contexts, Entries, Tensors
from polyseme.training.groups import Draw
from polyseme.training.material import Occurrences
from polyseme.training.network import Network

FOLDS = 5
PAIRS = 60_000
"""pairs of occurrences that are compared, at most"""
PAIRS_OF_EACH = 50
"""pairs for each occurrence, at most"""
MOST = 6000
"""occurrences that are scored"""
MOST_OF_GROUP = 200
_AT_ONCE = 256
"""contexts of a batch"""
WINDOW = 60
"""words on either side that are read"""


@dataclass(frozen=True)
class Scores:
    """How well senses are told apart, each in %; None where there is nothing to measure."""

    auc: float | None = None
    """the area under the curve of the cosine, over pairs of occurrences of one lemma: how often two
    of one sense are nearer than two of different senses"""
    macro_f1: float | None = None
    """of the nearest sense centroid in five folds, the mean over lemmas"""

    def document(self) -> dict[str, float | None]:
        """The scores by name."""
        return {"auc": self.auc, "macro_f1": self.macro_f1}


def measurable(occurrences: Occurrences, fewest: int, seed: int) -> Occurrences:
    """Those of lemmas that have two senses with so many occurrences each, and of those senses.

    Where there are very many, some lemmas and some occurrences of each, drawn at random.
    """
    rng = np.random.default_rng([seed, 0x4E])
    kept: list[NDArray[np.int64]] = []
    for numbers in _shuffled(by_group(occurrences), rng):
        often = _often(numbers, occurrences.labels, fewest)
        some = _often(rng.permutation(often)[:MOST_OF_GROUP], occurrences.labels, fewest)
        if sum(map(len, kept)) < MOST:
            kept.append(some)
    chosen = np.sort(np.concatenate(kept)) if kept else np.zeros(0, np.int64)
    return occurrences.chosen(chosen)


def by_group(occurrences: Occurrences) -> list[NDArray[np.int64]]:
    """The numbers of the occurrences of each group."""
    order = np.argsort(occurrences.groups, kind="stable")
    _, starts = np.unique(occurrences.groups[order], return_index=True)
    return np.split(order, starts[1:]) if len(order) else []


def _shuffled(
    parts: list[NDArray[np.int64]], rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    yield from (parts[number] for number in rng.permutation(len(parts)))


def _often(numbers: NDArray[np.int64], labels: NDArray[np.int64], fewest: int) -> NDArray[np.int64]:
    """The occurrences whose sense occurs so often among them, of two senses or more."""
    _, inverse, counts = np.unique(labels[numbers], return_inverse=True, return_counts=True)
    often = counts >= fewest
    none: NDArray[np.int64] = np.zeros(0, np.int64)
    return numbers[often[inverse]] if np.count_nonzero(often) > 1 else none


class HeldOut:
    """Occurrences that are scored again and again, in their whole contexts."""

    def __init__(self, contexts: Contexts, tensors: Tensors, draw: Draw, seed: int) -> None:
        self._tensors, self._seed = tensors, seed
        self.occurrences = draw.occurrences
        self._batches = list(_batches(contexts, draw)) if len(draw.occurrences) else []

    def __len__(self) -> int:
        return len(self.occurrences)

    def scores(self, network: Network, vectors: torch.Tensor | None = None) -> Scores:
        """Score a network; `vectors` [E, d] stand in for the table's."""
        if not self._batches:
            return Scores()
        with torch.no_grad():
            found = [
                network.targets(self._tensors.batch(entries, vectors)).numpy()
                for entries in self._batches
            ]
        return scores(unit(np.concatenate(found)), self.occurrences, self._seed)


def _batches(contexts: Contexts, draw: Draw) -> Iterator[Entries]:
    for first in range(0, len(draw.occurrences), _AT_ONCE):
        which = np.arange(first, min(first + _AT_ONCE, len(draw.occurrences)))
        part = Draw(draw.occurrences.chosen(which), draw.hidden[which])
        yield contexts.whole(part, WINDOW)


def scores(vectors: Floats, occurrences: Occurrences, seed: int) -> Scores:
    """The scores of unit vectors. [m, d] -> scores"""
    groups = by_group(occurrences)
    rng = np.random.default_rng([seed, 0xF1])
    f1 = [centroids_f1(vectors[numbers], occurrences.labels[numbers], rng) for numbers in groups]
    auc = pairs_auc(vectors, groups, occurrences.labels, np.random.default_rng([seed, 0xAC]))
    return Scores(auc, round(100 * float(np.mean(f1)), 2))


def centroids_f1(vectors: Floats, labels: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Macro-F1 of the nearest sense centroid in five folds. [m, d], [m] -> a number"""
    from sklearn.metrics import f1_score  # noqa: PLC0415 - an extra

    folds = rng.permutation(len(labels)) % FOLDS
    guesses = np.empty_like(labels)
    for fold in range(min(FOLDS, len(labels))):
        train, test = folds != fold, folds == fold
        names = np.unique(labels[train])
        means = np.stack([vectors[train & (labels == name)].mean(axis=0) for name in names])
        guesses[test] = names[np.argmax(vectors[test] @ unit(means).T, axis=1)]
    return float(f1_score(labels, guesses, average="macro"))


def pairs_auc(
    vectors: Floats,
    groups: list[NDArray[np.int64]],
    labels: NDArray[np.int64],
    rng: np.random.Generator,
) -> float | None:
    """The area under the curve over pairs within groups, in %. [m, d], …, [m] -> a number"""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - an extra

    pairs = min(PAIRS, PAIRS_OF_EACH * sum(map(len, groups)))
    chosen = rng.integers(len(groups), size=pairs)
    sizes = np.array([len(group) for group in groups])[chosen]
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])[chosen]
    first = rng.integers(sizes)
    second = (first + rng.integers(1, sizes)) % sizes
    flat = np.concatenate(groups)
    a, b = flat[starts + first], flat[starts + second]
    same = labels[a] == labels[b]
    if same.all() or not same.any():
        return None
    cosines = np.einsum("md,md->m", vectors[a], vectors[b])
    return round(100 * float(roc_auc_score(same, cosines)), 2)
