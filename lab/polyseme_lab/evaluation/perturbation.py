"""Tagged occurrences, their classifiers, and perturbations of their sentences."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import log
from typing import NamedTuple, TypeAlias

import numpy as np
from sklearn.metrics import f1_score

from polyseme.engine.arrays import Floats, Integers, unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, contextualize
from polyseme.operations.encode import stacks
from polyseme_lab.evaluation.datasets import Knows, LabeledOccurrences, TokenizedOccurrence
from polyseme_lab.evaluation.statistics import precision_at, roc_auc, spearman

Tagged: TypeAlias = tuple[Sequence[str], Sequence[tuple[int, str, str]]]
"""The words and the tags (position, lemma, sense) of a sentence, as read from tags."""
MIN_OF_SENSE, MAX_OF_LEMMA = 8, 160
"""Minimum occurrences of a sense, and maximum occurrences of a lemma."""
MAX_WORDS = 100
"""Maximum number of words in the sentence of an occurrence."""
PRIOR = 10.0
"""The weight of the naive Bayes prior, as a number of occurrences."""


@dataclass(frozen=True)
class SenseData:
    """The lemmas to evaluate, each with at least two senses, and the words of the whole text."""

    lemmas: list[LabeledOccurrences]
    counts: Counter[str]
    """the number of occurrences of each casefolded word"""
    tagged: list[str]
    """all tagged words, casefolded, most frequent last"""


def collect_senses(
    sentences: Iterable[Tagged], is_measured: Callable[[str], bool], knows: Knows, seed: int = 1
) -> SenseData:
    """Collect the lemmas that `is_measured` selects, sorted by name, and the counts of all words.

    A lemma needs two senses, each with at least MIN_OF_SENSE occurrences that have a vector.
    """
    counts: Counter[str] = Counter()
    forms: set[str] = set()
    tagged: dict[str, list[tuple[TokenizedOccurrence, str]]] = defaultdict(list)
    for tokens, tags in sentences:
        words = tuple(tokens)
        folded = [word.casefold() for word in words]
        counts.update(folded)
        forms.update(folded[place] for place, _, _ in tags)
        if len(words) <= MAX_WORDS:
            for place, lemma, sense in tags:
                if is_measured(lemma):
                    tagged[lemma].append((TokenizedOccurrence(words, place), sense))
    lemmas = []
    for name in sorted(tagged):
        known = knows([occurrence.word for occurrence, _ in tagged[name]])
        kept = _frequent_senses(list(compress(tagged[name], known)))
        order = np.random.default_rng([seed, *name.encode()]).permutation(len(kept))
        kept = _frequent_senses([kept[number] for number in sorted(order[:MAX_OF_LEMMA])])
        if kept:
            _, senses = np.unique(np.array([sense for _, sense in kept]), return_inverse=True)
            occurrences = [occurrence for occurrence, _ in kept]
            lemmas.append(LabeledOccurrences(name, occurrences, senses))
    ordered = sorted(forms, key=lambda form: (counts[form], form))
    return SenseData(lemmas, counts, ordered)


def _frequent_senses(
    tagged: list[tuple[TokenizedOccurrence, str]],
) -> list[tuple[TokenizedOccurrence, str]]:
    """Return the occurrences of the frequent senses, or [] if fewer than two are frequent."""
    counts = Counter(sense for _, sense in tagged)
    frequent = {sense for sense, count in counts.items() if count >= MIN_OF_SENSE}
    return [pair for pair in tagged if pair[1] in frequent] if len(frequent) > 1 else []


def round_robin(lemmas: Sequence[LabeledOccurrences], seed: int) -> list[tuple[int, int]]:
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


def lemma_quality(vectors: Floats, lemma: LabeledOccurrences) -> tuple[float, float]:
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

    def __init__(self, lemma: LabeledOccurrences) -> None:
        self._sentences = [occurrence.words for occurrence in lemma.occurrences]
        self._bags = [{word.casefold() for word in words} for words in self._sentences]
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
        n_rest, rest = having.sum(axis=1, keepdims=True) - having, left.sum() - left
        pooled = PRIOR * having.sum(axis=1, keepdims=True) / max(left.sum(), 1)
        seen = np.broadcast_to(pooled > 0, having.shape)
        rate = np.where(seen, having + pooled, 1) / np.where(seen, left + PRIOR, 1)
        rest_rate = np.where(seen, n_rest + pooled, 1) / np.where(seen, rest + PRIOR, 1)
        log_ratios: Floats = np.log(rate / rest_rate)
        return log_ratios

    def guess(self, number: int) -> int:
        """Return the sense with the most evidence in the sentence of occurrence `number`."""
        words = sorted(self._bags[number])
        return int(self.evidence(number, words).sum(axis=0).argmax())


TOP_COUNTS = (1, 2, 3)
"""Numbers of highest-ranked words to erase, or to keep."""
REVEALING = log(2)
"""A word reveals the sense if its evidence is at least this."""
MEASURES = (
    *("drop_correlation", "change_correlation", "flip_auc", "flip_at_1", "flip_at_3"),
    *("evidence_correlation", "evidence_auc", "evidence_at_1", "evidence_at_3"),
    *(f"removed_{k}" for k in TOP_COUNTS),
    *(f"kept_{k}" for k in TOP_COUNTS),
)
"""The columns of `evaluate_rankings`."""
MAX_RANK_DIFFERENCE = 25
"""Maximum difference in frequency rank between a word and its replacement."""


def swap_word(sentence: SentenceArrays, place: int, other: SentenceArrays) -> SentenceArrays:
    """Replace vector, `known` and word bias at a position by those of a one-word sentence.

    The word ID is unchanged, so the mask `other-words` excludes the same keys.
    """
    vectors, known = sentence.vectors.copy(), sentence.known.copy()
    vectors[place], known[place] = other.vectors[0], other.known[0]
    bias = sentence.word_bias
    if bias is not None and other.word_bias is not None:
        bias = bias.copy()
        bias[place] = other.word_bias[0]
    return sentence._replace(vectors=vectors, known=known, word_bias=bias)


def attention_rows(
    sentence: SentenceArrays, layers: Sequence[Layer], place: int, keys: Integers
) -> Floats:
    """Return each head's attention weights from a query word to `keys`, with sum 1. -> [L·h, m]

    If all weights of a head are 0, its row is uniform.
    """
    records = contextualize(sentence, layers, ("weights",)).records
    weights = np.concatenate([record["weights"][:, place][:, keys] for record in records])
    weights = weights.astype(np.float64)
    weights[weights.sum(axis=1) <= 0] = 1
    result: Floats = weights / weights.sum(axis=1, keepdims=True)
    return result


def contribution_row(
    sentence: SentenceArrays, layers: Sequence[Layer], place: int, keys: Integers
) -> Floats:
    """Return the sizes of the contributions of `keys` to a word in the last layer. -> [m]"""
    last = len(layers) - 1
    records = contextualize(sentence, layers, ("contributions",), (last,)).records
    row: Floats = np.abs(records[last]["contributions"][place, keys].astype(np.float64))
    return row


class Head(NamedTuple):
    """A head of a layer, both counted from 0."""

    layer: int
    number: int


def heads_of(layers: Sequence[Layer]) -> list[Head]:
    """Return all heads, in the order of `attention_rows`."""
    return [Head(n, head) for n, layer in enumerate(layers) for head in range(layer.heads)]


def head_titles(layers: Sequence[Layer]) -> list[str]:
    """Return the titles of the heads, counted from 0."""
    return [
        f"layer {layer} head {number}" if len(layers) > 1 else f"head {number}"
        for layer, number in heads_of(layers)
    ]


def ranking_titles(layers: Sequence[Layer]) -> list[str]:
    """Return the titles of rankings: each head with and without Wq, means, and contributions."""
    titles = head_titles(layers)
    names = [name for head in titles for name in (head, f"{head}, Wq = 0")]
    if layers[0].heads > 1:
        means = [f"layer {n}, mean of heads" for n in range(len(layers))]
        names += means if len(layers) > 1 else ["mean of heads"]
    return [*names, "contributions"]


def zero_queries(layers: Sequence[Layer], d: int, heads: Sequence[Head]) -> list[Layer]:
    """Return the layers with Wq = 0 for some heads; biases of queries are unchanged.

    `d` is the width of the vectors, needed for layers without Wq.
    """
    changed = list(layers)
    for head in heads:
        layer = changed[head.layer]
        weight = layer.query.weight
        weight = np.eye(d, dtype=np.float32) if weight is None else weight.copy()
        k = weight.shape[1] // layer.heads
        weight[:, head.number * k : (head.number + 1) * k] = 0
        changed[head.layer] = replace(layer, query=replace(layer.query, weight=weight))
    return changed


class FrequencyMatcher:
    """Draws tagged words with about the same frequency as another word."""

    def __init__(self, data: SenseData, knows: Knows) -> None:
        self._words = list(compress(data.tagged, knows(data.tagged)))
        self._counts = [data.counts[word] for word in self._words]
        self._all_counts = data.counts

    def __call__(
        self, word: str, sentence: Sequence[str], number: int, rng: np.random.Generator
    ) -> list[str]:
        """Draw at most `number` distinct words that do not occur in the sentence."""
        middle = bisect_left(self._counts, self._all_counts[word.casefold()])
        near = self._words[max(middle - MAX_RANK_DIFFERENCE, 0) : middle + MAX_RANK_DIFFERENCE + 1]
        excluded = {other.casefold() for other in sentence}
        allowed = [other for other in near if other not in excluded]
        return [allowed[n] for n in rng.permutation(len(allowed))[:number]]


class Erasure:
    """Computes the cosines of an occurrence with each sense after other words are erased.

    The argument `cosines` maps vectors to their cosines with the senses. [q, d] -> [q, s]
    """

    def __init__(
        self,
        sentence: SentenceArrays,
        layers: Sequence[Layer],
        place: int,
        cosines: Callable[[Floats], Floats],
    ) -> None:
        self._sentence, self._layers, self._place = sentence, layers, place
        self._sense_cosines = cosines
        self._cache: dict[frozenset[int], Floats] = {}

    def cosines(self, erased: Sequence[Sequence[int]] = ((),)) -> Floats:
        """Return the cosines with the words at each list of places erased. -> [c, s]"""
        keys = [frozenset(map(int, places)) for places in erased]
        missing = [key for key in dict.fromkeys(keys) if key not in self._cache]
        for stack in stacks([len(self._sentence.words)] * len(missing)):
            part = [missing[number] for number in stack]
            arrays = self._sentence.select(None).select([0] * len(part))
            for number, key in enumerate(part):
                # An erased word is unknown.
                arrays.known[number, list(key)], arrays.vectors[number, list(key)] = False, 0
            vectors = contextualize(arrays, self._layers).contextual[:, self._place]
            self._cache.update(zip(part, self._sense_cosines(vectors), strict=True))
        return np.stack([self._cache[key] for key in keys])

    def losses(self, erased: Sequence[Sequence[int]], sense: int) -> Floats:
        """Return the decrease of a sense's margin for each list of erased words. -> [c]"""
        lost: Floats = margins(self.cosines(), sense) - margins(self.cosines(erased), sense)
        return lost


def evaluate_rankings(
    scores: Floats, keys: Integers, erasure: Erasure, sense: int, evidence: Floats, ties: Floats
) -> Floats:
    """Return the MEASURES of each ranking of words by `scores`. [r, m] -> [r, len(MEASURES)]

    `evidence` [m] is that of naive Bayes for the sense; `ties` [m] orders words with equal scores.
    """
    single = [[int(key)] for key in keys]
    drops = erasure.losses(single, sense)
    flips = erasure.cosines(single).argmax(axis=1) != erasure.cosines().argmax()
    reveals = evidence >= REVEALING
    agreement = [
        spearman(scores, drops),
        spearman(scores, np.abs(drops)),
        roc_auc(scores, flips),
        *(precision_at(scores, flips, k) for k in (1, 3)),
        spearman(scores, evidence),
        roc_auc(scores, reveals),
        *(precision_at(scores, reveals, k) for k in (1, 3)),
    ]
    orders = np.stack([np.lexsort((ties, -row)) for row in scores])
    top = [[keys[order[:k]] for k in TOP_COUNTS] for order in orders]
    all_but_top = [[keys[order[k:]] for k in TOP_COUNTS] for order in orders]
    lost = [erasure.losses([*a, *b], sense) for a, b in zip(top, all_but_top, strict=True)]
    return np.concatenate([np.stack(agreement, axis=1), np.stack(lost)], axis=1)
