"""Select occurrences with sense tags; classify them by sense centroids and by naive Bayes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.metrics import f1_score

from polyseme.engine.arrays import Floats, Integers, unit
from polyseme_lab.evaluation.datasets import Knows, TokenizedOccurrence
from polyseme_lab.evaluation.statistics import roc_auc

Tagged: TypeAlias = tuple[Sequence[str], Sequence[tuple[int, str, str]]]
"""The words and the tags (position, lemma, sense) of a sentence, as read by `training/tags.py`."""
MIN_OF_SENSE, MAX_OF_LEMMA = 8, 160
"""Minimum occurrences of a sense, and maximum occurrences of a lemma."""
MAX_WORDS = 100
"""Maximum number of words in the sentence of an occurrence."""
PRIOR = 10.0
"""The weight of the naive Bayes prior, as a number of occurrences."""


@dataclass(frozen=True)
class Lemma:
    """A lemma with at least two senses."""

    name: str
    occurrences: list[TokenizedOccurrence]
    senses: Integers
    """[m], indices from 0"""


@dataclass(frozen=True)
class SenseData:
    """The lemmas to evaluate, and the words of the whole text."""

    lemmas: list[Lemma]
    counts: Counter[str]
    """the number of occurrences of each casefolded word"""
    tagged: list[str]
    """all tagged words, casefolded, most frequent last"""


def collect_senses(
    sentences: Iterable[Tagged], wanted: Callable[[str], bool], knows: Knows, seed: int = 1
) -> SenseData:
    """Collect the lemmas for which `wanted` is true, sorted by name, and the counts of all words.

    A lemma needs two senses, each with at least MIN_OF_SENSE occurrences that have a vector.
    """
    counts: Counter[str] = Counter()
    forms: set[str] = set()
    found: dict[str, list[tuple[TokenizedOccurrence, str]]] = defaultdict(list)
    for tokens, tags in sentences:
        words = tuple(tokens)
        folded = [word.casefold() for word in words]
        counts.update(folded)
        forms.update(folded[place] for place, _, _ in tags)
        if len(words) <= MAX_WORDS:
            for place, lemma, sense in tags:
                if wanted(lemma):
                    found[lemma].append((TokenizedOccurrence(words, place), sense))
    lemmas = (_lemma(name, found[name], knows, seed) for name in sorted(found))
    ordered = sorted(forms, key=lambda form: (counts[form], form))
    return SenseData([one for one in lemmas if one is not None], counts, ordered)


def _lemma(
    name: str, found: Sequence[tuple[TokenizedOccurrence, str]], knows: Knows, seed: int
) -> Lemma | None:
    known = knows([one.word for one, _ in found])
    kept = _frequent_senses([pair for pair, keep in zip(found, known, strict=True) if keep])
    order = np.random.default_rng([seed, *name.encode()]).permutation(len(kept))
    kept = _frequent_senses([kept[number] for number in sorted(order[:MAX_OF_LEMMA])])
    if not kept:
        return None
    _, senses = np.unique(np.array([sense for _, sense in kept]), return_inverse=True)
    return Lemma(name, [one for one, _ in kept], senses)


def _frequent_senses(
    found: list[tuple[TokenizedOccurrence, str]],
) -> list[tuple[TokenizedOccurrence, str]]:
    """Return the occurrences of the frequent senses, or [] if fewer than two are frequent."""
    counts = Counter(sense for _, sense in found)
    frequent = {sense for sense, count in counts.items() if count >= MIN_OF_SENSE}
    return [pair for pair in found if pair[1] in frequent] if len(frequent) > 1 else []


def round_robin(lemmas: Sequence[Lemma], seed: int) -> list[tuple[int, int]]:
    """Return (lemma, occurrence) indices: lemmas take turns, their occurrences in random order."""
    rng = np.random.default_rng([seed, 0x1E])
    orders = [rng.permutation(len(lemma.senses)) for lemma in lemmas]
    longest = max(map(len, orders))
    return [
        (lemma, int(order[turn]))
        for turn in range(longest)
        for lemma, order in enumerate(orders)
        if turn < len(order)
    ]


class Centroids:
    """The mean of the unit vectors of each sense of a lemma. [m, d], [m]"""

    def __init__(self, vectors: Floats, senses: Integers) -> None:
        self._vectors, self._senses = unit(vectors.astype(np.float64)), senses
        one_hot = senses[:, None] == np.arange(senses.max() + 1)
        self._sums = one_hot.T.astype(np.float64) @ self._vectors

    def cosines(self, number: int, vectors: Floats) -> Floats:
        """Return cosines with means that leave out occurrence `number`. [q, d] -> [q, s]"""
        sums = self._sums.copy()
        sums[self._senses[number]] -= self._vectors[number]
        cosines: Floats = unit(vectors.astype(np.float64)) @ unit(sums).T
        return cosines

    def guesses(self) -> Integers:
        """Return the nearest sense of each occurrence, leaving it out of the means. -> [m]"""
        nearest = [self.cosines(n, v[None]).argmax() for n, v in enumerate(self._vectors)]
        return np.array(nearest, np.int64)

    def pairs_auc(self) -> float:
        """Return the ROC AUC of the cosine over all pairs; pairs of the same sense are positive."""
        a, b = np.triu_indices(len(self._vectors), 1)
        cosines = (self._vectors @ self._vectors.T)[a, b]
        return float(roc_auc(cosines[None], self._senses[a] == self._senses[b])[0])


def margins(cosines: Floats, sense: int) -> Floats:
    """Return the cosine of the right sense minus the largest other cosine. [q, s] -> [q]"""
    best: Floats = np.delete(cosines, sense, axis=1).max(axis=1)
    return cosines[:, sense] - best


def lemma_quality(vectors: Floats, lemma: Lemma) -> tuple[float, float]:
    """Return the ROC AUC over pairs and the macro-F1 of the nearest centroid. [m, d]"""
    centroids = Centroids(vectors, lemma.senses)
    f1 = f1_score(lemma.senses, centroids.guesses(), average="macro", zero_division=0)
    return centroids.pairs_auc(), float(f1)


class NaiveBayes:
    """A naive Bayes classifier of an occurrence, trained on the words of the other occurrences.

    The evidence of a word w for sense s against the other senses r is
    log((n_s + a·q)/(N_s + a)) − log((n_r + a·q)/(N_r + a)), where n is the number of occurrences
    with w in their sentence, N the number of all occurrences, q = (n_s + n_r) / (N_s + N_r), and
    a = PRIOR. It is 0 for a word that occurs in no other sentence, or in equal shares of the
    sentences of s and r (the informative prior of Monroe et al. 2008).
    """

    def __init__(self, lemma: Lemma) -> None:
        self._sentences = [one.words for one in lemma.occurrences]
        self._bags = [{word.casefold() for word in one.words} for one in lemma.occurrences]
        self._senses = lemma.senses
        self._of_sense = np.bincount(lemma.senses).astype(np.float64)
        self._with: dict[str, Floats] = defaultdict(lambda: np.zeros(len(self._of_sense)))
        for bag, sense in zip(self._bags, lemma.senses, strict=True):
            for word in bag:
                self._with[word][sense] += 1

    def evidence(self, number: int, words: Sequence[str]) -> Floats:
        """Return the evidence of m words, without the sentence of `number`. -> [m, s]"""
        left, own = self._of_sense.copy(), self._bags[number]
        folded = [word.casefold() for word in words]
        none = np.zeros(len(left))
        having = np.array([self._with.get(word, none) for word in folded]).reshape(-1, len(left))
        for sentence, sense in zip(self._sentences, self._senses, strict=True):
            if sentence == self._sentences[number]:
                left[sense] -= 1
                having[[word in own for word in folded], sense] -= 1
        return _log_ratios(having, left)

    def guess(self, number: int) -> int:
        """Return the sense with the most evidence in the sentence of occurrence `number`."""
        words = sorted(self._bags[number])
        return int(self.evidence(number, words).sum(axis=0).argmax())


def _log_ratios(having: Floats, of_sense: Floats) -> Floats:
    """Return log(rate in a sense / rate in the others) of each word. [m, s], [s] -> [m, s]"""
    n_rest, rest = having.sum(axis=1, keepdims=True) - having, of_sense.sum() - of_sense
    pooled = PRIOR * having.sum(axis=1, keepdims=True) / max(of_sense.sum(), 1)
    seen = np.broadcast_to(pooled > 0, having.shape)
    rate = np.where(seen, having + pooled, 1) / np.where(seen, of_sense + PRIOR, 1)
    rest_rate = np.where(seen, n_rest + pooled, 1) / np.where(seen, rest + PRIOR, 1)
    result: Floats = np.log(rate / rest_rate)
    return result
