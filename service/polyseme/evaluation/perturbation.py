"""One occurrence without some of its words, with another word that looks, without queries.

What changes is set beside what each head looks at.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np
from scipy.stats import rankdata

from polyseme.engine.arrays import Flags, Floats, Integers
from polyseme.engine.attention import Sentence
from polyseme.engine.layers import Layer, contextualize
from polyseme.evaluation.senses import Material, area, margins
from polyseme.models.model import Model
from polyseme.tokenizer import tokenize

KEPT = (1, 2, 3)
"""How many of the most attended words are erased, and how many are left."""
EVIDENT = log(2)
"""From here on the judge's evidence makes a word one that tells the sense."""
MEASURES = (
    *("drop_correlation", "change_correlation", "flip_auc", "flip_at_1", "flip_at_3"),
    *("evidence_correlation", "evidence_auc", "evidence_at_1", "evidence_at_3"),
    *(f"removed_{k}" for k in KEPT),
    *(f"kept_{k}" for k in KEPT),
)
"""What `measured` gives, in its order."""
SENTENCES = (
    ("she went to the bank to deposit money near the river", "bank"),
    ("the animal didn't cross the street because it was too tired", "it"),
    ("the animal didn't cross the street because it was too wide", "it"),
    ("he was eating an apple under the tree", "apple"),
    ("Apple launched a new phone", "Apple"),
)
"""What everybody asks about attention, and the word whose row is asked for."""
NEIGHBOURS = 25
"""How far in the order of frequency a word is from the one it stands in for, at most."""


def others(sentence: Sentence, place: int) -> Integers:
    """The places a word can look at that are not itself: known, and not the same word. -> [m]"""
    there: Integers = np.flatnonzero(sentence.known & (sentence.words != sentence.words[place]))
    return there


def erased(sentence: Sentence, places: Sequence[int]) -> Sentence:
    """The sentence with unknown words at some places; everything else stays where it is."""
    known, vectors = sentence.known.copy(), sentence.vectors.copy()
    known[list(places)], vectors[list(places)] = False, 0
    return replace(sentence, known=known, vectors=vectors)


def swapped(sentence: Sentence, place: int, other: Sentence) -> Sentence:
    """The sentence with the one word of another in a place; it is nobody else's word either."""
    vectors, known = sentence.vectors.copy(), sentence.known.copy()
    vectors[place], known[place] = other.vectors[0], other.known[0]
    bias = sentence.word_bias
    if bias is not None and other.word_bias is not None:
        bias = bias.copy()
        bias[place] = other.word_bias[0]
    return replace(sentence, vectors=vectors, known=known, word_bias=bias)


def contextual(sentence: Sentence, layers: Sequence[Layer], place: int) -> Floats:
    """The contextual vector of one word. -> [d]"""
    vector: Floats = contextualize(sentence, layers).contextual[place]
    return vector


def rows(sentence: Sentence, layers: Sequence[Layer], place: int, keys: Integers) -> Floats:
    """What each head of each layer gives to some words, as parts of 1 of all it gives them.

    -> [L·h, m]; all layers have the same heads. Equal parts where it gives them nothing.
    """
    records = contextualize(sentence, layers, ("weights",)).records
    weights = np.concatenate([one["weights"][:, place][:, keys] for one in records])
    given = weights.astype(np.float64)
    given[given.sum(axis=1) <= 0] = 1
    result: Floats = given / given.sum(axis=1, keepdims=True)
    return result


def distances(one: Floats, other: Floats) -> Floats:
    """The total variation distance of each row from the other's: ½·Σ|p − q|. [r, m] -> [r]"""
    result: Floats = np.abs(one - other).sum(axis=1) / 2
    return result


@dataclass(frozen=True)
class Head:
    """A head of a layer, both counted from 0."""

    layer: int
    number: int


def heads_of(layers: Sequence[Layer]) -> list[Head]:
    """Every head, in the order of `rows`."""
    return [Head(n, head) for n, layer in enumerate(layers) for head in range(layer.heads)]


def titles_of(layers: Sequence[Layer]) -> list[str]:
    """The names of the heads, counted from 1."""
    heads = heads_of(layers)
    if len(layers) == 1:
        return [f"head {head.number + 1}" for head in heads]
    return [f"layer {head.layer + 1} head {head.number + 1}" for head in heads]


def rankings_of(layers: Sequence[Layer]) -> list[str]:
    """The names of what ranks words in a model: each head, as it is and with Wq = 0, their mean."""
    titles = titles_of(layers)
    names = [name for head in titles for name in (head, f"{head}, Wq = 0")]
    if layers[0].heads == 1:
        return names
    means = [f"layer {n}, mean of heads" for n in range(1, len(layers) + 1)]
    return [*names, *(means if len(layers) > 1 else ["mean of heads"])]


def unqueried(layers: Sequence[Layer], d: int, heads: Sequence[Head]) -> list[Layer]:
    """The layers with Wq = 0 for some heads; a bias of the queries, the same for all words, stays.

    d: the width of the vectors, of which a layer without Wq makes its queries.
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


class LikeFrequency:
    """Draws words that occur about as often as another, of those that are tagged somewhere."""

    def __init__(self, material: Material, knows: Callable[[Sequence[str]], list[bool]]) -> None:
        known = knows(material.tagged)
        self._words = [w for w, there in zip(material.tagged, known, strict=True) if there]
        self._counts = [material.counts[word] for word in self._words]
        self._count = material.counts

    def __call__(
        self, word: str, sentence: Sequence[str], number: int, rng: np.random.Generator
    ) -> list[str]:
        """Draw some different words, none of which stands in the sentence already."""
        middle = bisect_left(self._counts, self._count[word.casefold()])
        near = self._words[max(middle - NEIGHBOURS, 0) : middle + NEIGHBOURS + 1]
        there = {one.casefold() for one in sentence}
        free = [one for one in near if one not in there]
        return [free[n] for n in rng.permutation(len(free))[:number]]


class Erasure:
    """How near a word is to each sense, as it stands and where other words are erased.

    `cosines` gives those of vectors with the senses. [q, d] -> [q, s]
    """

    def __init__(
        self,
        sentence: Sentence,
        layers: Sequence[Layer],
        place: int,
        cosines: Callable[[Floats], Floats],
    ) -> None:
        self._sentence, self._layers, self._place, self._of = sentence, layers, place, cosines
        self._found: dict[frozenset[int], Floats] = {}

    def cosines(self, places: Sequence[int] = ()) -> Floats:
        """With each sense, some words erased; each choice of words is computed once. -> [s]"""
        key = frozenset(map(int, places))
        if key not in self._found:
            sentence = erased(self._sentence, sorted(key)) if key else self._sentence
            vector = contextual(sentence, self._layers, self._place)
            self._found[key] = self._of(vector[None])[0]
        return self._found[key]

    def losses(self, choices: Sequence[Sequence[int]], sense: int) -> Floats:
        """By how much the margin of a sense falls with each choice of words erased. -> [c]"""
        found = np.stack([self.cosines(places) for places in choices])
        lost: Floats = margins(self.cosines()[None], sense) - margins(found, sense)
        return lost


def measured(
    scores: Floats, keys: Integers, erasure: Erasure, sense: int, evidence: Floats, ties: Floats
) -> Floats:
    """How well each ranking of the words agrees with what they do. [r, m], [m], …, [m] -> [r, c]

    c: MEASURES. `evidence` is the judge's for the sense; `ties` orders words that rank alike.
    """
    single = [[int(key)] for key in keys]
    drops = erasure.losses(single, sense)
    nearest = erasure.cosines().argmax()
    flips = np.array([erasure.cosines(one).argmax() != nearest for one in single])
    tells = evidence >= EVIDENT
    agreement = [
        *(spearman(scores, drops), spearman(scores, np.abs(drops))),
        *(area(scores, flips), precision(scores, flips, 1), precision(scores, flips, 3)),
        spearman(scores, evidence),
        *(area(scores, tells), precision(scores, tells, 1), precision(scores, tells, 3)),
    ]
    orders = np.stack([np.lexsort((ties, -row)) for row in scores])
    removed = [[keys[order[:k]] for k in KEPT] for order in orders]
    kept = [[keys[order[k:]] for k in KEPT] for order in orders]
    lost = [erasure.losses([*a, *b], sense) for a, b in zip(removed, kept, strict=True)]
    return np.concatenate([np.stack(agreement, axis=1), np.stack(lost)], axis=1)


def spearman(scores: Floats, target: Floats) -> Floats:
    """Rank correlation of each row with the target. [r, m], [m] -> [r]

    0 where a row is constant, NaN where the target is.
    """
    ranks, aim = rankdata(scores, axis=1), rankdata(target)
    ranks, aim = ranks - ranks.mean(axis=1, keepdims=True), aim - aim.mean()
    if not aim.any():
        return np.full(len(scores), np.nan)
    lengths = np.sqrt((ranks * ranks).sum(axis=1) * (aim @ aim))
    result: Floats = ranks @ aim / np.where(lengths > 0, lengths, 1)
    return result


def precision(scores: Floats, positive: Flags, k: int) -> Floats:
    """The part of the k highest that is positive, as a mean over the orders of ties.

    [r, m], [m] -> [r], NaN where nothing is positive
    """
    if not positive.any():
        return np.full(len(scores), np.nan)
    last = np.sort(scores, axis=1)[:, -k, None]
    above, level = (np.asarray(part, np.float64) for part in (scores > last, scores == last))
    left = (k - above.sum(axis=1)) / level.sum(axis=1)
    result: Floats = (above @ positive + left * (level @ positive)) / k
    return result


def attention_of(model: Model, text: str, word: str) -> dict[str, Any]:
    """The rows of every head in a text, and the row of one word of it, the first of its spelling.

    `attention`: [L, h, n, n], rounded.
    """
    tokens = tokenize(text, model.vocabulary, composes=model.composes)
    records = contextualize(model.sentence(tokens), model.layers, ("weights",)).records
    return {
        "text": text,
        "tokens": [token.text for token in tokens],
        "word": [token.text for token in tokens].index(word),
        "attention": [np.round(one["weights"].astype(float), 4).tolist() for one in records],
    }
