"""Which attention an imported model gets: the closed form, stored weights, or none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from service.engine.arrays import Floats
from service.engine.layer import Layer
from service.engine.quantisation import Rows
from service.training.closed_form import (
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
    # The sum of counts that somebody made up may be more than int64 holds.
    told = frequencies_by_rank(v) if counts is None else counts / counts.sum(dtype=np.float64)
    layer = closed_form(vectors, attraction(vectors, told), informative=True)
    origin = "rank in the file" if counts is None else "counts in the file"
    return Attention((layer,), informativeness(told), _facts(origin))


def _facts(origin: str) -> dict[str, Any]:
    return {"attention": "closed form", "informativeness": origin}
