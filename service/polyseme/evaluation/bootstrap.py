"""How far a figure may be off: percentiles of the bootstrap (Efron 1979)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polyseme.engine.arrays import Floats, Integers
from polyseme.evaluation.refusal import EvaluationError

RESAMPLES, SEED = 1000, 1
LEVEL = 95
"""The part of the resamples, in %, that the interval holds."""
MOST = 50_000
"""Items that are resampled: 400 MB."""


class Figure(NamedTuple):
    """A figure in %, and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, resampled: Floats) -> "Figure":
        """From a figure and what it was in each resample, both parts of 1. [B] -> figure"""
        tail = (100 - LEVEL) / 2
        low, high = np.percentile(resampled, [tail, 100 - tail])
        return cls(*(round(100 * float(one), 2) for one in (value, low, high)))


def draws(n: int, stream: int = 0) -> Integers:
    """How often each of n items is drawn in each resample. -> [B, n]

    The same numbers whatever is measured, so that two systems are resampled alike; another
    `stream` for each set that is resampled by itself. Raises EvaluationError where there are more
    items than memory is for.
    """
    if n > MOST:
        raise EvaluationError(
            f"A set of more than {MOST:,} items is not resampled; measure a part."
        )
    rng = np.random.default_rng([SEED, stream])
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)


def resampled(statistic: Callable[[Integers], float], n: int) -> Floats:
    """A statistic of the items that each resample draws, by their numbers. -> [B]"""
    rng = np.random.default_rng(SEED)
    return np.array([statistic(rng.integers(n, size=n)) for _ in range(RESAMPLES)])
