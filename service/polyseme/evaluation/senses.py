"""Occurrences tagged with senses: lemma by lemma, their centroids, and a judge without vectors."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import f1_score

from polyseme.engine.arrays import Flags, Floats, Integers, unit
from polyseme.evaluation.coverage import Knows
from polyseme.evaluation.occurrences import Occurrence

Tagged: TypeAlias = tuple[Sequence[str], Sequence[tuple[int, str, str]]]
"""The words of a sentence, and its tags: place, lemma, sense. `training/tags.py` reads them."""
FEWEST, MOST = 8, 160
"""Occurrences of a sense, and of a lemma: a sense with fewer is left out, a lemma with more cut."""
LONGEST = 100
"""Words of a sentence."""
PRIOR = 10.0
"""How many occurrences the judge's prior weighs."""


@dataclass(frozen=True)
class Lemma:
    """A lemma with two senses or more."""

    name: str
    occurrences: list[Occurrence]
    senses: Integers
    """[m], numbers from 0"""


@dataclass(frozen=True)
class Material:
    """What of tagged sentences is measured with."""

    lemmas: list[Lemma]
    counts: Counter[str]
    """how often each word occurs, in lower case"""
    tagged: list[str]
    """the words in lower case that are tagged anywhere, the most frequent last"""


def material(
    sentences: Iterable[Tagged], wanted: Callable[[str], bool], knows: Knows, seed: int = 1
) -> Material:
    """The lemmas that are wanted and can be measured, sorted by name, and every word's count.

    A lemma has two senses or more with FEWEST occurrences each, of words that have a vector.
    """
    counts: Counter[str] = Counter()
    forms: set[str] = set()
    found: dict[str, list[tuple[Occurrence, str]]] = defaultdict(list)
    for tokens, tags in sentences:
        words = tuple(tokens)
        folded = [word.casefold() for word in words]
        counts.update(folded)
        forms.update(folded[place] for place, _, _ in tags)
        if len(words) <= LONGEST:
            for place, lemma, sense in tags:
                if wanted(lemma):
                    found[lemma].append((Occurrence(words, place), sense))
    lemmas = (_lemma(name, found[name], knows, seed) for name in sorted(found))
    ordered = sorted(forms, key=lambda form: (counts[form], form))
    return Material([one for one in lemmas if one is not None], counts, ordered)


def _lemma(
    name: str, found: Sequence[tuple[Occurrence, str]], knows: Knows, seed: int
) -> Lemma | None:
    known = knows([one.word for one, _ in found])
    kept = _often([pair for pair, there in zip(found, known, strict=True) if there])
    order = np.random.default_rng([seed, *name.encode()]).permutation(len(kept))
    kept = _often([kept[number] for number in sorted(order[:MOST])])
    if not kept:
        return None
    _, senses = np.unique(np.array([sense for _, sense in kept]), return_inverse=True)
    return Lemma(name, [one for one, _ in kept], senses)


def _often(found: list[tuple[Occurrence, str]]) -> list[tuple[Occurrence, str]]:
    """Those of senses that occur often enough, where there are two such senses."""
    counts = Counter(sense for _, sense in found)
    often = {sense for sense, count in counts.items() if count >= FEWEST}
    return [pair for pair in found if pair[1] in often] if len(often) > 1 else []


def in_turn(lemmas: Sequence[Lemma], seed: int) -> list[tuple[int, int]]:
    """Every occurrence, one of each lemma, then another of each."""
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
    """The mean vector of each sense of a lemma, for any occurrence without itself. [m, d], [m]"""

    def __init__(self, vectors: Floats, senses: Integers) -> None:
        self._vectors, self._senses = unit(vectors.astype(np.float64)), senses
        one_hot = senses[:, None] == np.arange(senses.max() + 1)
        self._sums = one_hot.T.astype(np.float64) @ self._vectors

    def cosines(self, number: int, vectors: Floats) -> Floats:
        """Of some vectors with each sense, occurrence `number` left out. [q, d] -> [q, s]"""
        sums = self._sums.copy()
        sums[self._senses[number]] -= self._vectors[number]
        cosines: Floats = unit(vectors.astype(np.float64)) @ unit(sums).T
        return cosines

    def guesses(self) -> Integers:
        """The sense that is nearest to each occurrence. -> [m]"""
        nearest = [self.cosines(n, v[None]).argmax() for n, v in enumerate(self._vectors)]
        return np.array(nearest, np.int64)

    def pairs_auc(self) -> float:
        """How often two of one sense are nearer than two of different senses, of all pairs."""
        a, b = np.triu_indices(len(self._vectors), 1)
        cosines = (self._vectors @ self._vectors.T)[a, b]
        return float(area(cosines[None], self._senses[a] == self._senses[b])[0])


def margins(cosines: Floats, sense: int) -> Floats:
    """How much nearer the right sense is than the best other. [q, s] -> [q]"""
    best: Floats = np.delete(cosines, sense, axis=1).max(axis=1)
    return cosines[:, sense] - best


def area(scores: Floats, positive: Flags) -> Floats:
    """How often a positive scores higher than a negative, ties ½: the area under the curve.

    [r, m], [m] -> [r], NaN where there are no positives or no negatives
    """
    yes = int(positive.sum())
    no = len(positive) - yes
    if not yes or not no:
        return np.full(len(scores), np.nan)
    above = rankdata(scores, axis=1)[:, positive].sum(axis=1) - yes * (yes + 1) / 2
    result: Floats = above / (yes * no)
    return result


def quality(vectors: Floats, lemma: Lemma) -> tuple[float, float]:
    """The area under the curve over pairs, and the macro-F1 of the nearest centroid. [m, d]"""
    centroids = Centroids(vectors, lemma.senses)
    f1 = f1_score(lemma.senses, centroids.guesses(), average="macro", zero_division=0)
    return centroids.pairs_auc(), float(f1)


class Judge:
    """What the other occurrences' words say of an occurrence: naive Bayes, no vectors.

    Evidence of a word w for sense s against the rest r: log((n_s + a·q)/(N_s + a)) less the same
    of r. n: how many occurrences have w in their sentence; N: how many there are; q = (n_s + n_r) /
    (N_s + N_r). A word that is nowhere else, or equally common in both, is no evidence: 0 (the
    informative prior of Monroe et al. 2008).
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
        """The evidence of each word for each sense, this sentence left out. [m words] -> [m, s]"""
        left, own = self._of_sense.copy(), self._bags[number]
        folded = [word.casefold() for word in words]
        none = np.zeros(len(left))
        having = np.array([self._with.get(word, none) for word in folded]).reshape(-1, len(left))
        for sentence, sense in zip(self._sentences, self._senses, strict=True):
            if sentence == self._sentences[number]:
                left[sense] -= 1
                having[[word in own for word in folded], sense] -= 1
        return _log_odds(having, left)

    def guess(self, number: int) -> int:
        """The sense for which there is most evidence."""
        words = sorted(self._bags[number])
        return int(self.evidence(number, words).sum(axis=0).argmax())


def _log_odds(having: Floats, of_sense: Floats) -> Floats:
    """Of each sense against the rest. [m, s], [s] -> [m, s]"""
    n_rest, rest = having.sum(axis=1, keepdims=True) - having, of_sense.sum() - of_sense
    pooled = PRIOR * having.sum(axis=1, keepdims=True) / max(of_sense.sum(), 1)
    seen = np.broadcast_to(pooled > 0, having.shape)
    for_it = np.where(seen, having + pooled, 1) / np.where(seen, of_sense + PRIOR, 1)
    against = np.where(seen, n_rest + pooled, 1) / np.where(seen, rest + PRIOR, 1)
    result: Floats = np.log(for_it / against)
    return result
