"""Which occurrences a step compares: those of a lemma, or of words made one pseudo-word."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.training.material import Occurrences, Sentences, Table

RANK_SPREAD = 0.05
"""A pseudo-word's words stand within this part of each other's rank of frequency."""
FEWEST_OF_WORD = 5
"""A word of the corpus is a target where it occurs so often."""
COMMONEST = 0.0005
"""A word that makes up more than this part of the corpus is no target: it is a function word."""


@dataclass(frozen=True)
class Draw:
    """What one step compares."""

    occurrences: Occurrences
    hidden: NDArray[np.bool_]
    """[m], whether the target itself is not to be seen"""


class Lemmas:
    """Draws occurrences of lemmas whose senses are told."""

    def __init__(self, occurrences: Occurrences) -> None:
        order = np.argsort(occurrences.groups, kind="stable")
        self._all = occurrences.chosen(order)
        groups, starts = np.unique(self._all.groups, return_index=True)
        parts = np.split(np.arange(len(self._all)), starts[1:]) if len(groups) else []
        self._parts = [part for part in parts if self._teaches(part)]
        weights = np.sqrt([len(part) for part in self._parts])
        self._weights = weights / weights.sum() if len(weights) else weights

    def __len__(self) -> int:
        return len(self._parts)

    def draw(self, rng: np.random.Generator, groups: int, most: int) -> Draw:
        """Draw occurrences of some lemmas, at most so many of each."""
        count = min(groups, len(self))
        chosen = rng.choice(len(self), count, replace=False, p=self._weights)
        which = np.concatenate([self._of(self._parts[part], rng, most) for part in chosen])
        return Draw(self._all.chosen(which), np.zeros(len(which), np.bool_))

    def _teaches(self, part: NDArray[np.int64]) -> bool:
        """Whether there are two senses, one of which occurs twice."""
        _, counts = np.unique(self._all.labels[part], return_counts=True)
        return len(counts) > 1 and int(counts.max()) > 1

    def _of(
        self, part: NDArray[np.int64], rng: np.random.Generator, most: int
    ) -> NDArray[np.int64]:
        """Some occurrences of a lemma, rare senses more often than they occur."""
        if len(part) <= most:
            return part
        _, inverse, counts = np.unique(
            self._all.labels[part], return_inverse=True, return_counts=True
        )
        weights = 1 / np.sqrt(counts[inverse])
        return rng.choice(part, most, replace=False, p=weights / weights.sum())


class PseudoWords:
    """Draws occurrences of words from the corpus; which word it was is what is to be told."""

    def __init__(
        self,
        table: Table,
        sentences: Sentences,
        left_out: Iterable[str],
        size: int,
        commonest: int | None = None,
    ) -> None:
        """Take the sentences of the corpus; `size` words make one pseudo-word.

        Of `commonest` words, if it is given; none of those that are left out.
        """
        words = table.words[sentences.entries]
        counts = np.bincount(words[words >= 0], minlength=int(table.words.max(initial=0)) + 1)
        fit = (counts >= FEWEST_OF_WORD) & (counts <= max(COMMONEST * len(words), 100))
        fit[[word for word, text in _spelled(table) if not _is_target(text, left_out)]] = False
        self.size = size
        self.by_frequency = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        self.by_frequency = self.by_frequency[fit[self.by_frequency]][:commonest]
        self._order = np.argsort(words, kind="stable")
        self._starts = np.searchsorted(words[self._order], np.arange(len(counts) + 1))

    def __len__(self) -> int:
        return len(self.by_frequency)

    def restricted(self, words: NDArray[np.int64]) -> "PseudoWords":
        """The same with some of the words only, which stay in the order of their frequency."""
        other = object.__new__(PseudoWords)
        other.size, other._order, other._starts = self.size, self._order, self._starts
        other.by_frequency = words
        return other

    def draw(self, rng: np.random.Generator, groups: int, each: int) -> Draw:
        """Draw some pseudo-words, and at most so many occurrences of each of their words."""
        positions, numbers, labels = [], [], []
        for group in range(groups):
            for word in self._like(rng):
                places = self._order[self._starts[word] : self._starts[word + 1]]
                found = rng.choice(places, min(each, len(places)), replace=False)
                positions.append(found)
                numbers.append(np.full(len(found), group))
                labels.append(np.full(len(found), group * len(self._starts) + word))
        occurrences = Occurrences(
            np.concatenate(positions), np.concatenate(numbers), np.concatenate(labels)
        )
        return Draw(occurrences, np.ones(len(occurrences), np.bool_))

    def _like(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Some words of similar frequency."""
        rank = int(rng.integers(len(self)))
        spread = min(len(self), max(10 * self.size, int(RANK_SPREAD * rank)))
        first = max(0, min(rank - spread // 2, len(self) - spread))
        near = self.by_frequency[first : first + spread]
        return rng.choice(near, min(self.size, len(near)), replace=False)


def _spelled(table: Table) -> Iterable[tuple[int, str]]:
    """The number of each word and how it is spelled."""
    return zip(table.words[:-1].tolist(), table.keys[:-1], strict=True)


def _is_target(text: str, left_out: Iterable[str]) -> bool:
    return text.isalpha() and text.casefold() not in left_out


def together(draws: Sequence[Draw]) -> Draw:
    """Several draws as one, whose groups stay apart."""
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


def word_of(lemma: str) -> str:
    """The word that a lemma such as bank/noun is a reading of."""
    return lemma.rsplit("/", 1)[0].casefold()


def is_lemma_held_out(lemma: str, part: float, seed: int) -> bool:
    """Whether a lemma is never trained on: all lemmas of one word, or none of them."""
    return is_held_out(word_of(lemma), part, seed)


def is_held_out(name: str, part: float, seed: int) -> bool:
    """Whether a lemma or word is never trained on: by its name, whatever else there is."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < part * 2**64
