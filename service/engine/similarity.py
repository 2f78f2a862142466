"""Cosines: between a few vectors, and against a whole table."""

from collections.abc import Collection

import numpy as np

from service.engine.arrays import Floats, Integers
from service.engine.norm import unit

_CHUNK = 8192
"""Rows of the table that are held as float32 at one time."""


def cosines(a: Floats, b: Floats) -> Floats:
    """The cosine of each pair; 0 where one of the two is a zero vector. [m, d], [p, d] -> [m, p]"""
    return np.clip(unit(a) @ unit(b).T, -1, 1)


def lengths(table: Floats) -> Floats:
    """The length of each row, in float32, without a copy of the table. [V, d] -> [V]"""
    result = np.empty(len(table), np.float32)
    for start in range(0, len(table), _CHUNK):
        rows = table[start : start + _CHUNK].astype(np.float32)
        result[start : start + _CHUNK] = np.linalg.norm(rows, axis=1)
    return result


def nearest(
    vector: Floats, table: Floats, table_lengths: Floats, k: int, without: Collection[int] = ()
) -> tuple[Integers, Floats]:
    """The k rows of the table with the largest cosine, best first. [d], [V, d] -> [k], [k]

    Exact: every row is compared. Equal cosines are ordered by row. Zero rows, and the rows
    `without`, are left out.
    """
    query = unit(vector[None].astype(np.float32))[0]
    similarities = np.empty(len(table), np.float32)
    for start in range(0, len(table), _CHUNK):
        rows = table[start : start + _CHUNK].astype(np.float32)
        similarities[start : start + _CHUNK] = rows @ query
    similarities /= np.where(table_lengths > 0, table_lengths, 1)
    similarities[table_lengths == 0] = -np.inf
    similarities[list(without)] = -np.inf
    k = min(k, int(np.isfinite(similarities).sum()))
    if not k:
        return np.empty(0, np.int64), similarities[:0]
    threshold = np.partition(similarities, -k)[-k]
    candidates = np.flatnonzero(similarities >= threshold)
    order = np.lexsort((candidates, -similarities[candidates]))[:k]
    rows_found = candidates[order]
    return rows_found, np.clip(similarities[rows_found], -1, 1)
