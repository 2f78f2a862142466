"""A stack of layers over the static vectors of one sentence."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Floats, require_finite
from polyseme.engine.attention import Sentence
from polyseme.engine.layer import Layer
from polyseme.engine.record import Record


@dataclass(frozen=True)
class Contextualised:
    """What a stack made of a sentence."""

    contextual: Floats
    """[n, d]"""
    records: tuple[dict[str, Floats], ...]
    """for each layer, what was asked for by name"""


def contextualise(
    sentence: Sentence,
    layers: Sequence[Layer],
    names: Collection[str] = (),
    of_layers: Collection[int] | None = None,
) -> Contextualised:
    """Run the layers over a sentence, keeping intermediates by name. -> [n, d]

    `names` are those of `Record` (`queries`, `scores`, `weights`, …), kept for the layers in
    `of_layers`, all when None. Raises NonFiniteError where the result is not finite.
    """
    # Other strides would take BLAS another way, to other last bits.
    x = sentence.vectors
    if not (x.flags.c_contiguous and x.flags.aligned):
        x = np.require(x, requirements=("C", "ALIGNED"))
    records = [
        Record(names if of_layers is None or number in of_layers else ())
        for number in range(len(layers))
    ]
    # An overflow is found by its result, below; NumPy's warning would only be printed.
    with np.errstate(all="ignore"):
        for layer, record in zip(layers, records, strict=True):
            x = layer(x, sentence, record)
    require_finite(x)
    for record in records:
        for array in record.arrays.values():
            require_finite(array)
    return Contextualised(x, tuple(record.arrays for record in records))
