"""Batches: the contexts of some occurrences, cut and thinned out at random."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.training.groups import Draw
from polyseme.training.material import Sentences, Table
from polyseme.training.network import Batch
from polyseme.training.recipe import Recipe

SHORT = (2, 8)
"""Words on either side of a context that is cut short, at least and at most."""


@dataclass(frozen=True)
class Contexts:
    """Makes batches of a material."""

    table: Table
    sentences: Sentences

    def whole(self, draw: Draw, window: int) -> "Entries":
        """The contexts as they are, so many words on either side."""
        reach = np.full(len(draw.occurrences), window, np.int64)
        lowered = np.zeros(len(reach), np.bool_)
        return self._entries(draw, reach, lowered)

    def varied(self, draw: Draw, recipe: Recipe, rng: np.random.Generator) -> "Entries":
        """The contexts cut, in lower case and thinned out as the recipe says."""
        m = len(draw.occurrences)
        short = rng.integers(SHORT[0], SHORT[1] + 1, m)
        reach = np.where(rng.random(m) < recipe.cut, short, recipe.window)
        lowered = rng.random(m) < recipe.lower
        draw = Draw(draw.occurrences, draw.hidden | (rng.random(m) < recipe.hide))
        entries = self._entries(draw, reach, lowered)
        dropped = rng.random(entries.rows.shape) < recipe.key_dropout
        dropped[np.arange(m), entries.targets] = False
        entries.rows[dropped] = self.table.unknown
        return entries

    def _entries(
        self, draw: Draw, reach: NDArray[np.int64], lowered: NDArray[np.bool_]
    ) -> "Entries":
        positions, unknown = draw.occurrences.positions, self.table.unknown
        offsets = self.sentences.offsets
        sentence = np.searchsorted(offsets, positions, side="right") - 1
        first = np.maximum(offsets[sentence], positions - reach)
        end = np.minimum(offsets[sentence + 1], positions + reach + 1)
        places = first[:, None] + np.arange(int((end - first).max(initial=1)))
        inside = places < end[:, None]
        places = np.where(inside, places, first[:, None])
        rows = self.sentences.entries[places]
        if lowered.any():
            rows = np.where(lowered[:, None], self.sentences.lowered[places], rows)
        rows = np.where(inside, rows, unknown)
        targets = positions - first
        words = self.table.words[rows]
        own = words == words[np.arange(len(rows)), targets][:, None]
        rows[own & draw.hidden[:, None]] = unknown
        return Entries(rows, targets)


@dataclass(frozen=True)
class Entries:
    """Contexts as entries of the table. A hidden word is one that the model does not know."""

    rows: NDArray[np.int32]
    """[B, n]"""
    targets: NDArray[np.int64]
    """[B]"""


class Tensors:
    """The table as tensors, from which batches are taken."""

    def __init__(self, table: Table) -> None:
        self.vectors = torch.from_numpy(table.vectors)
        self._words = torch.from_numpy(table.words)
        bias = table.word_bias
        self._bias = None if bias is None else torch.from_numpy(bias)
        self._unknown = table.unknown

    def batch(self, entries: Entries, vectors: torch.Tensor | None = None) -> Batch:
        """The batch of some contexts; `vectors` [E, d] stand in for the table's."""
        rows = torch.from_numpy(entries.rows.astype(np.int64))
        source = self.vectors if vectors is None else vectors
        return Batch(
            # The unknown stays zero where vectors are learned.
            torch.nn.functional.embedding(rows, source, self._unknown, sparse=vectors is not None),
            rows != self._unknown,
            self._words[rows],
            None if self._bias is None else self._bias[rows],
            torch.from_numpy(entries.targets),
            rows,
        )
