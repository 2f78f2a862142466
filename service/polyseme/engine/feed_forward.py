"""The feed-forward network that may follow attention in a layer."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.projection import Projection
from polyseme.engine.record import NOTHING, Record

Activation: TypeAlias = Literal["relu", "gelu"]


def relu(x: Floats) -> Floats:
    """max(x, 0), entry by entry."""
    y: Floats = np.maximum(x, 0)
    return y


def gelu(x: Floats) -> Floats:
    """The tanh form of GELU (Hendrycks & Gimpel 2016, §2), entry by entry."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    y: Floats = 0.5 * x * (1 + np.tanh(inner))
    return y


_ACTIVATIONS = {"relu": relu, "gelu": gelu}


@dataclass(frozen=True)
class FeedForward:
    """W₂·activation(W₁·x + b₁) + b₂ for each token by itself (Vaswani et al. 2017, §3.3)."""

    inner: Projection
    outer: Projection
    activation: Activation = "gelu"

    def __call__(self, x: Floats, record: Record = NOTHING) -> Floats:
        """Transform each row. [n, d] -> [n, d]"""
        inner = _ACTIVATIONS[self.activation](self.inner(x))
        record.keep("feed_forward_inner", inner)
        return self.outer(inner)
