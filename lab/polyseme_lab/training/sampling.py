"""Sample the occurrences of a training step, and read the contexts around them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.data import Occurrences, Sentences, TokenTable

RANK_SPREAD = 0.05
"""Width of the range of frequency ranks from which the words of a pseudo-word are drawn, relative
to the rank; the range has at least ten ranks for each of these words."""
MIN_OCCURRENCES = 5
"""Minimum number of occurrences of a target word in the corpus."""
MAX_FREQUENCY = 0.0005
"""Maximum relative frequency of a target word that occurs more than 100 times; more frequent words
are mostly function words."""
SHORT = (2, 8)
"""Minimum and maximum number of words on either side of the target in a truncated context."""


@dataclass(frozen=True)
class Draw:
    """The occurrences of one step."""

    occurrences: Occurrences
    hidden: NDArray[np.bool_]
    """[m], whether to replace all occurrences of the target word by the unknown token"""


class LemmaSampler:
    """Samples occurrences of lemmas with tagged senses."""

    def __init__(self, occurrences: Occurrences) -> None:
        order = np.argsort(occurrences.groups, kind="stable")
        self._all = occurrences.chosen(order)
        groups, starts = np.unique(self._all.groups, return_index=True)
        parts = np.split(np.arange(len(self._all)), starts[1:]) if len(groups) else []
        self._parts = [part for part in parts if self._is_ambiguous(part)]
        weights = np.sqrt([len(part) for part in self._parts])
        self._weights = weights / weights.sum() if len(weights) else weights

    def __len__(self) -> int:
        return len(self._parts)

    def draw(self, rng: np.random.Generator, groups: int, most: int) -> Draw:
        """Draw at most `groups` lemmas, and at most `most` occurrences of each."""
        count = min(groups, len(self))
        chosen = rng.choice(len(self), count, replace=False, p=self._weights)
        which = np.concatenate([self._some_of(self._parts[part], rng, most) for part in chosen])
        return Draw(self._all.chosen(which), np.zeros(len(which), np.bool_))

    def _is_ambiguous(self, part: NDArray[np.int64]) -> bool:
        """Return whether there are several senses, one of which occurs several times."""
        _, counts = np.unique(self._all.labels[part], return_counts=True)
        return len(counts) > 1 and int(counts.max()) > 1

    def _some_of(
        self, part: NDArray[np.int64], rng: np.random.Generator, most: int
    ) -> NDArray[np.int64]:
        """Sample occurrences of a lemma; rare senses are overrepresented."""
        if len(part) <= most:
            return part
        _, inverse, counts = np.unique(
            self._all.labels[part], return_inverse=True, return_counts=True
        )
        weights = 1 / np.sqrt(counts[inverse])
        return rng.choice(part, most, replace=False, p=weights / weights.sum())


class PseudoWordSampler:
    """Samples occurrences of pseudo-words: sets of words, labeled by the word that occurs."""

    def __init__(
        self,
        table: TokenTable,
        sentences: Sentences,
        left_out: Iterable[str],
        size: int,
        commonest: int | None = None,
    ) -> None:
        """Index the sentences of the corpus.

        A pseudo-word has `size` words of the corpus that have only letters and are not in
        `left_out`, which is casefolded. Only the `commonest` most frequent of these words are used,
        all if it is None.
        """
        words = table.words[sentences.entries]
        counts = np.bincount(words[words >= 0], minlength=int(table.words.max(initial=0)) + 1)
        usable = (counts >= MIN_OCCURRENCES) & (counts <= max(MAX_FREQUENCY * len(words), 100))
        spelled = zip(table.words[:-1].tolist(), table.keys[:-1], strict=True)
        usable[[w for w, key in spelled if not key.isalpha() or key.casefold() in left_out]] = False
        self.size = size
        self.by_frequency = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        self.by_frequency = self.by_frequency[usable[self.by_frequency]][:commonest]
        self._order = np.argsort(words, kind="stable")
        self._starts = np.searchsorted(words[self._order], np.arange(len(counts) + 1))

    def __len__(self) -> int:
        return len(self.by_frequency)

    def restricted(self, words: NDArray[np.int64]) -> "PseudoWordSampler":
        """Return a sampler of some of the words, given in order of frequency."""
        other = object.__new__(PseudoWordSampler)
        other.size, other._order, other._starts = self.size, self._order, self._starts
        other.by_frequency = words
        return other

    def draw(self, rng: np.random.Generator, groups: int, each: int) -> Draw:
        """Draw `groups` pseudo-words and at most `each` occurrences of each of their words."""
        positions, numbers, labels = [], [], []
        for group in range(groups):
            for word in self._similar_words(rng):
                occurring = self._order[self._starts[word] : self._starts[word + 1]]
                found = rng.choice(occurring, min(each, len(occurring)), replace=False)
                positions.append(found)
                numbers.append(np.full(len(found), group))
                labels.append(np.full(len(found), group * len(self._starts) + word))
        occurrences = Occurrences(
            np.concatenate(positions), np.concatenate(numbers), np.concatenate(labels)
        )
        return Draw(occurrences, np.ones(len(occurrences), np.bool_))

    def _similar_words(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw words of similar frequency."""
        rank = int(rng.integers(len(self)))
        spread = min(len(self), max(10 * self.size, int(RANK_SPREAD * rank)))
        first = max(0, min(rank - spread // 2, len(self) - spread))
        near = self.by_frequency[first : first + spread]
        return rng.choice(near, min(self.size, len(near)), replace=False)


def merge_draws(draws: Sequence[Draw]) -> Draw:
    """Concatenate draws, renumbering groups and labels to keep them distinct."""
    shifts, base, label = [], 0, 0
    for draw in draws:
        shifts.append((base, label))
        base += int(draw.occurrences.groups.max(initial=-1)) + 1
        label += int(draw.occurrences.labels.max(initial=-1)) + 1
    parts = [draw.occurrences for draw in draws]
    return Draw(
        Occurrences(
            np.concatenate([part.positions for part in parts]),
            np.concatenate([p.groups + g for p, (g, _) in zip(parts, shifts, strict=True)]),
            np.concatenate([p.labels + b for p, (_, b) in zip(parts, shifts, strict=True)]),
        ),
        np.concatenate([draw.hidden for draw in draws]),
    )


@dataclass(frozen=True)
class Contexts:
    """Contexts as entries of the token table."""

    rows: NDArray[np.int32]
    """[m, n], entries; the unknown entry for hidden words, dropped words and padding"""
    targets: NDArray[np.int64]
    """[m], the position of the target in each context"""


@dataclass(frozen=True)
class ContextReader:
    """Reads the contexts of occurrences, in full or augmented."""

    table: TokenTable
    sentences: Sentences

    def whole(self, draw: Draw, window: int) -> Contexts:
        """Return the contexts of up to `window` words on either side."""
        reach = np.full(len(draw.occurrences), window, np.int64)
        lowered = np.zeros(len(reach), np.bool_)
        return self._read(draw, reach, lowered)

    def augmented(self, draw: Draw, config: TrainingConfig, rng: np.random.Generator) -> Contexts:
        """Return contexts with random truncation, lower case, hiding and dropout, as configured."""
        m = len(draw.occurrences)
        short = rng.integers(SHORT[0], SHORT[1] + 1, m)
        reach = np.where(rng.random(m) < config.cut, short, config.window)
        lowered = rng.random(m) < config.lower
        draw = Draw(draw.occurrences, draw.hidden | (rng.random(m) < config.hide))
        contexts = self._read(draw, reach, lowered)
        dropped = rng.random(contexts.rows.shape) < config.key_dropout
        dropped[np.arange(m), contexts.targets] = False
        contexts.rows[dropped] = self.table.unknown
        return contexts

    def _read(self, draw: Draw, reach: NDArray[np.int64], lowered: NDArray[np.bool_]) -> Contexts:
        positions, unknown = draw.occurrences.positions, self.table.unknown
        offsets = self.sentences.offsets
        sentence = np.searchsorted(offsets, positions, side="right") - 1
        first = np.maximum(offsets[sentence], positions - reach)
        end = np.minimum(offsets[sentence + 1], positions + reach + 1)
        indices = first[:, None] + np.arange(int((end - first).max(initial=1)))  # [m, n]
        inside = indices < end[:, None]
        indices = np.where(inside, indices, first[:, None])
        rows = self.sentences.entries[indices]
        if lowered.any():
            rows = np.where(lowered[:, None], self.sentences.lowered[indices], rows)
        rows = np.where(inside, rows, unknown)
        targets = positions - first
        words = self.table.words[rows]
        same_word = words == words[np.arange(len(rows)), targets][:, None]
        rows[same_word & draw.hidden[:, None]] = unknown
        return Contexts(rows, targets)
