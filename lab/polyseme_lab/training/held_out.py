"""Split the data into training and held-out data, and score a network on the held-out data."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from polyseme.engine import Floats, unit
from polyseme.errors import CommandError
from polyseme_lab.evaluation.statistics import centroids_f1
from polyseme_lab.training.config import MAX_HELD_OUT, TrainingConfig
from polyseme_lab.training.corpus import is_held_out, is_lemma_held_out, sample_held_out
from polyseme_lab.training.data import (
    ContextReader,
    Draw,
    LemmaSampler,
    Occurrences,
    PseudoWordSampler,
    TokenizedData,
    by_group,
    merge_draws,
)
from polyseme_lab.training.network import Network, TableTensors

HELD_OUT_GROUPS = 150
"""Number of pseudo-words to score if there are no tags."""
HELD_OUT_OCCURRENCES = 24
"""Maximum number of occurrences of each word of a pseudo-word to score."""
MAX_PAIRS = 60_000
"""Maximum number of pairs of occurrences to compare."""
PAIRS_PER_OCCURRENCE = 50
"""Maximum number of pairs, divided by the number of occurrences."""
MAX_SCORED = 6000
"""Lemmas are added to the held-out set until it has this number of occurrences."""
MAX_SCORED_OF_GROUP = 200
WINDOW = 60
"""Maximum number of context words on either side."""
_BATCH = 256


class Scores(NamedTuple):
    """Measures of how well senses are separated, in %; None without held-out data."""

    auc: float | None = None
    """area under the ROC curve of the cosine over pairs of occurrences of a lemma: the probability
    that a pair with the same sense is more similar than a pair with different senses"""
    macro_f1: float | None = None
    """macro-F1 of the nearest sense centroid in five folds, averaged over lemmas"""


class HeldOutSet:
    """Held-out occurrences in batches, with contexts that are not augmented."""

    def __init__(
        self, contexts: ContextReader, tensors: TableTensors, draw: Draw, seed: int
    ) -> None:
        self._tensors, self._seed = tensors, seed
        self.occurrences = draw.occurrences
        self._batches = []
        for first in range(0, len(draw.occurrences), _BATCH):
            which = np.arange(first, min(first + _BATCH, len(draw.occurrences)))
            part = Draw(draw.occurrences.chosen(which), draw.hidden[which])
            self._batches.append(contexts.whole(part, WINDOW))

    def __len__(self) -> int:
        return len(self.occurrences)

    def scores(self, network: Network, vectors: torch.Tensor | None = None) -> Scores:
        """Score a network; `vectors` [E, d] replace those of the table."""
        if not self._batches:
            return Scores()
        with torch.no_grad():
            rows = [
                network.contextual_targets(self._tensors.batch(contexts, vectors))[:, 0].numpy()
                for contexts in self._batches
            ]
        return score_vectors(unit(np.concatenate(rows)), self.occurrences, self._seed)


@dataclass(frozen=True)
class TrainingData:
    """The samplers of the training data, and the held-out data."""

    contexts: ContextReader
    tensors: TableTensors
    lemmas: LemmaSampler | None
    words: PseudoWordSampler | None
    held_out: HeldOutSet
    held_out_sentences: NDArray[np.int64]
    """[s], the sentences that training does not see"""

    def draw(self, config: TrainingConfig, rng: np.random.Generator) -> Draw:
        """Draw the occurrences of one step."""
        count = round((config.mix if self.lemmas else 1) * config.groups) if self.words else 0
        draws = []
        if self.words and count:
            draws.append(self.words.draw(rng, count, config.of_each_word))
        if self.lemmas and count < config.groups:
            draws.append(self.lemmas.draw(rng, config.groups - count, config.occurrences))
        return merge_draws(draws)


def split_data(data: TokenizedData, config: TrainingConfig) -> TrainingData:
    """Split the data into training and held-out data.

    Raises CommandError if there is too little to learn from.
    """
    contexts = ContextReader(data.table, data.sentences)
    tensors = TableTensors(data.table)
    share, seed = config.held_out, config.split
    # The lemmas of one word are held out together.
    held_lemmas = [is_lemma_held_out(name, share, seed) for name in data.tagged.names]
    held = np.array(held_lemmas, np.bool_)[data.tagged.groups]
    lemmas = LemmaSampler(data.tagged.chosen(~held)) if len(data.tagged) else None
    # Sentences without tags to train on, and some of the paragraphs.
    trained = np.searchsorted(data.sentences.offsets, data.tagged.positions[~held], "right") - 1
    tagged, paragraphs = np.split(
        np.arange(len(data.sentences.offsets) - 1), [data.paragraphs_from]
    )
    paragraphs = paragraphs[sample_held_out(len(paragraphs), MAX_HELD_OUT, seed)]
    words = held_words = None
    begin = data.sentences.offsets[data.paragraphs_from]
    if begin < len(data.sentences.entries):  # there is a corpus
        # Pseudo-words have no occurrences in the tagged sentences and the held-out paragraphs.
        entries = data.sentences.entries.copy()
        entries[:begin] = data.table.unknown
        for sentence in paragraphs:
            entries[slice(*data.sentences.offsets[[sentence, sentence + 1]])] = data.table.unknown
        every = PseudoWordSampler(
            data.table,
            replace(data.sentences, entries=entries),
            frozenset(config.leave_out),
            config.pseudo_words,
            config.commonest_words,
        )
        spelled = dict(zip(data.table.words[:-1].tolist(), data.table.keys, strict=False))
        which = np.array(
            [is_held_out(spelled[w].casefold(), share, seed) for w in every.by_frequency.tolist()],
            np.bool_,
        )
        words, held_words = (
            sampler if len(sampler) >= config.pseudo_words else None
            for sampler in (every.restricted(every.by_frequency[part]) for part in (~which, which))
        )
    if not (lemmas or words):
        raise CommandError(
            "There is too little training data. It needs words of the model's vocabulary: lemmas"
            " with two senses in --tags, or words that occur five times in --corpus."
            + (data.left_out and f" {data.left_out}")
        )
    if lemmas or held_words is None:
        occurrences = select_measurable(data.tagged.chosen(held), config.fewest, config.split)
        draw = Draw(occurrences, np.zeros(len(occurrences), np.bool_))
    else:
        rng = np.random.default_rng([config.split, 0x0D])
        draw = held_words.draw(rng, HELD_OUT_GROUPS, HELD_OUT_OCCURRENCES)
        occurrences = select_measurable(draw.occurrences, config.fewest, config.split)
        draw = Draw(occurrences, np.ones(len(occurrences), np.bool_))
    held_out = HeldOutSet(contexts, tensors, draw, config.split)
    unseen = np.concatenate([np.setdiff1d(tagged, trained), paragraphs])
    return TrainingData(contexts, tensors, lemmas or None, words or None, held_out, unseen)


def select_measurable(occurrences: Occurrences, fewest: int, seed: int) -> Occurrences:
    """Select the senses with at least `fewest` occurrences, of lemmas with two such senses.

    Large sets are reduced to a random sample of lemmas and of occurrences of each lemma.
    """
    rng = np.random.default_rng([seed, 0x4E])
    groups = by_group(occurrences)
    kept: list[NDArray[np.int64]] = []
    for group in rng.permutation(len(groups)):
        frequent = _frequent(groups[group], occurrences.labels, fewest)
        part = rng.permutation(frequent)[:MAX_SCORED_OF_GROUP]
        if sum(map(len, kept)) < MAX_SCORED:
            kept.append(_frequent(part, occurrences.labels, fewest))
    chosen = np.sort(np.concatenate(kept)) if kept else np.zeros(0, np.int64)
    return occurrences.chosen(chosen)


def _frequent(
    numbers: NDArray[np.int64], labels: NDArray[np.int64], fewest: int
) -> NDArray[np.int64]:
    """Return the occurrences of senses with at least `fewest`; none if only one sense has them."""
    _, inverse, counts = np.unique(labels[numbers], return_inverse=True, return_counts=True)
    frequent = counts >= fewest
    none: NDArray[np.int64] = np.zeros(0, np.int64)
    return numbers[frequent[inverse]] if np.count_nonzero(frequent) > 1 else none


def score_vectors(vectors: Floats, occurrences: Occurrences, seed: int) -> Scores:
    """Return the scores of the unit vectors of occurrences. [m, d] -> scores"""
    groups = by_group(occurrences)
    rng = np.random.default_rng([seed, 0xF1])
    f1 = [centroids_f1(vectors[numbers], occurrences.labels[numbers], rng) for numbers in groups]
    auc = pairs_auc(vectors, groups, occurrences.labels, np.random.default_rng([seed, 0xAC]))
    return Scores(auc, round(100 * float(np.mean(f1)), 2))


def pairs_auc(
    vectors: Floats,
    groups: list[NDArray[np.int64]],
    labels: NDArray[np.int64],
    rng: np.random.Generator,
) -> float | None:
    """Return the ROC AUC of the cosine over pairs within groups, in %. [m, d], …, [m] -> float

    None unless some pairs have equal labels and others different ones.
    """
    pairs = min(MAX_PAIRS, PAIRS_PER_OCCURRENCE * sum(map(len, groups)))
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
