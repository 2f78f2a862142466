"""Occurrences: words at places in sentences, each to be given one vector."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats

Words: TypeAlias = tuple[str, ...]
"""A sentence that is already tokenised."""


class Occurrence(NamedTuple):
    """A word of a sentence, by its place counted from 0."""

    words: Words
    place: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.words[self.place]


Embedder: TypeAlias = Callable[[Sequence[Occurrence]], Floats]
"""What gives each occurrence a vector. -> [m, d]"""


class Table:
    """Vectors that are there already: what an Embedder needs that asks nobody.

    vectors [m, d], and which row is whose.
    """

    def __init__(self, rows: Mapping[Occurrence, int], vectors: Floats) -> None:
        self._rows, self._vectors = rows, vectors

    def __call__(self, occurrences: Sequence[Occurrence]) -> Floats:
        """Look the vectors up. -> [m, d]"""
        rows = np.array([self._rows[one] for one in occurrences], np.int64)
        return self._vectors[rows]


def numbered(occurrences: Iterable[Occurrence]) -> dict[Occurrence, int]:
    """Each occurrence once, with its row in a table."""
    return {one: number for number, one in enumerate(dict.fromkeys(occurrences))}


def by_sentence(rows: Mapping[Occurrence, int]) -> dict[Words, tuple[list[int], list[int]]]:
    """The places that are asked of each sentence, and their rows."""
    found: dict[Words, tuple[list[int], list[int]]] = {}
    for one, row in rows.items():
        places, numbers = found.setdefault(one.words, ([], []))
        places.append(one.place)
        numbers.append(row)
    return found
