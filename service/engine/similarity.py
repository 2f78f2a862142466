"""Cosines: between a few vectors, and against a whole table."""

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.engine.arrays import Floats, Integers
from service.engine.norm import unit

Table: TypeAlias = Floats | NDArray[np.int8]
"""Rows of any scale each: a cosine is the same, so that quantised rows do without theirs."""

_CHUNK = 8192
"""Rows of the table that are held as float32 at one time."""
_MARGIN = 1e-4
"""More than a cosine in float32 can be wrong by."""


def cosines(a: Floats, b: Floats) -> Floats:
    """The cosine of each pair; 0 where one of the two is a zero vector. [m, d], [p, d] -> [m, p]"""
    return np.clip(unit(a) @ unit(b).T, -1, 1)


def lengths(table: Table) -> Floats:
    """The length of each row, in float32, without a copy of the table. [V, d] -> [V]"""
    result = np.empty(len(table), np.float32)
    for start in range(0, len(table), _CHUNK):
        rows = table[start : start + _CHUNK].astype(np.float64)
        result[start : start + _CHUNK] = np.linalg.norm(rows, axis=1)
    return result


def nearest(
    vector: Floats, table: Table, table_lengths: Floats, k: int, without: Collection[int] = ()
) -> tuple[Integers, Floats]:
    """The k rows of the table with the largest cosine, best first. [d], [V, d] -> [k], [k]

    Exact: every row is compared in float32, and what may be among the best once more in float64,
    since BLAS gives equal rows other last bits in other places. Equal cosines are ordered by row.
    Zero rows, and the rows `without`, are left out.
    """
    query = unit(vector[None].astype(np.float64))[0]
    similarities = _first_pass(query.astype(np.float32), table, table_lengths)
    similarities[list(without)] = -np.inf
    k = min(k, int(np.isfinite(similarities).sum()))
    if not k:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    threshold = np.partition(similarities, -k)[-k] - _MARGIN
    candidates = np.flatnonzero(similarities >= threshold)
    exact = (unit(table[candidates].astype(np.float64)) * query).sum(axis=1)
    best = np.lexsort((candidates, -exact))[:k]
    return candidates[best], np.clip(exact[best], -1, 1).astype(np.float32)


def _first_pass(query: Floats, table: Table, table_lengths: Floats) -> Floats:
    """Every cosine, −infinity for a zero row. [d], [V, d], [V] -> [V]"""
    similarities = np.empty(len(table), np.float32)
    for start in range(0, len(table), _CHUNK):
        rows = table[start : start + _CHUNK].astype(np.float32)
        similarities[start : start + _CHUNK] = rows @ query
    similarities /= np.where(table_lengths > 0, table_lengths, 1)
    similarities[table_lengths == 0] = -np.inf
    return similarities
