"""Linear projections and the splitting of their result into heads."""

from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Floats


@dataclass(frozen=True)
class Projection:
    """x·W + b; without a weight, x itself."""

    weight: Floats | None = None
    """[in, out]"""
    bias: Floats | None = None
    """[out]"""

    def __call__(self, x: Floats) -> Floats:
        """Project each row. [n, in] -> [n, out]"""
        if self.weight is None:
            return x if self.bias is None else x + self.bias
        y: Floats = x @ self.weight
        if self.bias is not None:
            y += self.bias
        return y


IDENTITY = Projection()


def split_heads(x: Floats, heads: int) -> Floats:
    """Cut the columns into one block for each head: a view. [n, h·k] -> [h, n, k]"""
    n, width = x.shape
    return x.reshape(n, heads, width // heads).transpose(1, 0, 2)


def join_heads(x: Floats) -> Floats:
    """Lay the heads side by side again. [h, n, v] -> [n, h·v]"""
    heads, n, width = x.shape
    return np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(n, heads * width)
