"""How the output of attention meets the vector it started from."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.norm import unit
from polyseme.engine.positions import scaled_sinusoids, sinusoids
from polyseme.engine.record import NOTHING, Record

ResidualKind: TypeAlias = Literal["none", "add", "unit"]


@dataclass(frozen=True)
class Residual:
    """`none`: o. `add`: x + o. `unit`: unit(o) + share·unit(x) + position_share·p.

    p is a unit vector that depends on the token's place alone (`positions.sinusoids`). It is what
    tells two occurrences of a word apart where their contexts are the same words at the same
    distances ("apple eats apple"). A row with no content at all stays zero.
    """

    kind: ResidualKind = "none"
    share: float = 0.0
    position_share: float = 0.0

    def __call__(self, x: Floats, output: Floats, record: Record = NOTHING) -> Floats:
        """Combine start and output. [n, d], [n, d] -> [n, d]"""
        if self.kind == "none":
            return output
        if self.kind == "add":
            return x + output
        both = np.empty((2, *x.shape), x.dtype)  # one array takes half as many steps as two
        both[0], both[1] = output, x
        end, start = unit(both)
        start *= self.share
        sum_: Floats = end + start
        if self.position_share:
            n, d = x.shape
            if record.wants("position"):
                record.keep("position", sinusoids(n, d))
            place = scaled_sinusoids(n, d, self.position_share, x.dtype)
            # A row whose first number is not zero has content; the others are looked at whole.
            if np.count_nonzero(sum_[:, 0]) == n:
                sum_ += place
            else:
                np.add(sum_, place, out=sum_, where=sum_.any(axis=1, keepdims=True))
        return sum_
