"""Which attention an imported model gets: the closed form, stored weights, or none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.quantization import Rows
from polyseme.training.closed_form import (
    attraction,
    closed_form,
    frequencies_by_rank,
    informativeness,
)


@dataclass(frozen=True)
class Attention:
    """The layers of a model, and what its manifest says of them."""

    layers: Sequence[Layer]
    word_bias: Floats | None = None
    """[V]"""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lacks_word_bias(self) -> bool:
        """Whether a layer asks for a word bias that is not there."""
        return self.word_bias is None and any(layer.scoring.word_bias for layer in self.layers)


PARAMETER_FREE = Attention((Layer(),), facts={"attention": "parameter-free"})


def in_closed_form(rows: Rows, counts: NDArray[np.int64] | None, *, by_rank: bool) -> Attention:
    """The closed form of a file's own vectors, as they are kept. [V, d], [V]

    How informative a word is follows from its count, where the file has counts, else from its rank
    where it is sorted; without either every word counts the same.
    """
    v = len(rows)
    # What it takes of the vectors are some rows; of quantised ones there would be no whole array.
    vectors = cast("Floats", rows)
    if counts is None and not by_rank:
        layer = closed_form(vectors, attraction(vectors, np.full(v, 1 / v)), informative=False)
        return Attention((layer,), facts=_facts("none: the file is not sorted by frequency"))
    told, origin = _frequencies(v, counts)
    layer = closed_form(vectors, attraction(vectors, told), informative=True)
    return Attention((layer,), informativeness(told), _facts(origin))


def with_word_bias(stored: Attention, size: int, counts: NDArray[np.int64] | None) -> Attention:
    """Stored weights with the word bias that the closed form has: by counts, else by rank. [V]"""
    told, origin = _frequencies(size, counts)
    facts = {**stored.facts, "informativeness": origin}
    return replace(stored, word_bias=informativeness(told), facts=facts)


def _frequencies(size: int, counts: NDArray[np.int64] | None) -> tuple[Floats, str]:
    """How frequent each word is, and what tells it. -> [V]"""
    if counts is None:
        return frequencies_by_rank(size), "rank in the file"
    # The sum of counts that somebody made up may be more than int64 holds.
    return counts / counts.sum(dtype=np.float64), "counts in the file"


def _facts(origin: str) -> dict[str, Any]:
    return {"attention": "closed form", "informativeness": origin}
