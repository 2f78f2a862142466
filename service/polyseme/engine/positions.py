"""Position encodings: a bias of scores by distance, and a unit vector by position."""

from functools import lru_cache
from typing import Any

import numpy as np

from polyseme.engine.arrays import Floats, unit


def relative_bias(table: Floats, rows: range, n: int) -> Floats:
    """Return the bias of each pair of tokens by its clamped distance. [h, 2R+1] -> [h, b, n]

    The bias of query i in `rows` and key j is `table[:, clip(j − i, −R, R) + R]`: a number for each
    distance, as in T5 (Raffel et al. 2020, §2.1), but without buckets. The result is a read-only
    view of h·(b+n−1) numbers.
    """
    heads, width = table.shape
    b, reach = len(rows), width // 2
    if not n:
        return np.empty((heads, 0, 0), table.dtype)
    # One number for each distance, starting with the distance of the last row to the first key.
    line = np.empty((heads, b + n - 1), table.dtype)
    first = reach - (rows.stop - 1)
    low, high = max(0, -first), min(line.shape[1], width - first)
    line[:, :low], line[:, high:] = table[:, :1], table[:, -1:]
    line[:, low:high] = table[:, first + low : first + high]
    head, step = line.strides
    bias: Floats = np.ndarray(
        (heads, b, n), line.dtype, line.data, (b - 1) * step, (head, -step, step)
    )
    bias.setflags(write=False)
    return bias


def sinusoids(n: int, d: int) -> Floats:
    """Return a unit vector for each position. -> [n, d], float64, read-only

    Each vector has the interleaved sines and cosines of Vaswani et al. 2017, §3.5, normalized.
    """
    return _sinusoid_table(max(512, 1 << n.bit_length()), d)[:n]


@lru_cache(maxsize=512)
def scaled_sinusoids(n: int, d: int, length: float, dtype: np.dtype[Any]) -> Floats:
    """Return `sinusoids` multiplied by a length, in another dtype. -> [n, d], read-only"""
    return _scaled_table(max(512, 1 << n.bit_length()), d, length, dtype)[:n]


@lru_cache(maxsize=8)
def _scaled_table(rows: int, d: int, length: float, dtype: np.dtype[Any]) -> Floats:
    table: Floats = (length * _sinusoid_table(rows, d)).astype(dtype)
    table.setflags(write=False)
    return table


@lru_cache(maxsize=8)
def _sinusoid_table(rows: int, d: int) -> Floats:
    pairs = (d + 1) // 2
    rates = 10_000.0 ** (-2.0 * np.arange(pairs) / d)
    angles = np.arange(rows)[:, None] * rates
    table: Floats = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(rows, -1)[:, :d]
    table = unit(table)
    table.setflags(write=False)
    return table
