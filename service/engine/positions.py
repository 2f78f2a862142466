"""What position adds: a bias on the scores by distance, a small vector by place."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from service.engine.arrays import Floats
from service.engine.norm import unit


def relative_bias(table: Floats, rows: range, n: int) -> Floats:
    """The bias of each pair by its clamped distance. [h, 2R+1] -> [h, b, n]

    Entry (i, j) is `table[:, clip(j − i, −R, R) + R]`, as in the relative attention biases of
    T5 (Raffel et al. 2020, §2.1). The result is a read-only view of h·(b+n) numbers.
    """
    reach = table.shape[1] // 2
    distances = np.arange(-(rows.stop - 1), n - rows.start)
    line = np.ascontiguousarray(table[:, np.clip(distances, -reach, reach) + reach])
    head, step = line.strides
    start = line[:, len(rows) - 1 :]
    return as_strided(start, (len(table), len(rows), n), (head, -step, step), writeable=False)


def sinusoids(n: int, d: int) -> Floats:
    """Unit-length position vectors. -> [n, d], float64, read-only

    The sines and cosines of Vaswani et al. 2017, §3.5, interleaved, divided by their length.
    """
    return _sinusoid_table(_table_rows(n), d)[:n]


def scaled_sinusoids(n: int, d: int, length: float, dtype: np.dtype[Any]) -> Floats:
    """The same of another length and type. -> [n, d], read-only"""
    return _scaled_table(_table_rows(n), d, length, dtype)[:n]


def _table_rows(n: int) -> int:
    return max(512, 1 << (n - 1).bit_length()) if n else 512


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
