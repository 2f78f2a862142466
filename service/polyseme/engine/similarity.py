"""Cosines: between a few vectors, and against a whole table."""

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, Integers
from polyseme.engine.norm import unit

Table: TypeAlias = Floats | NDArray[np.int8]
"""Rows of any scale each: a cosine is the same, so that quantised rows do without theirs."""

_PIECE = 1 << 19
"""Numbers of a table that are converted at one time: they stay in the processor's cache."""
_COLUMNS = 1024
"""The best of each of so many columns say how good a row has to be."""
_LEAST, _MOST = np.float32(2.0**-50), np.float32(2.0**50)
"""Lengths between which float32 holds every square and every sum; other rows are few."""
_HALF = np.float32(2.0**112)
"""What the bits of a float16 are multiplied by where they stand in a float32."""


def cosines(a: Floats, b: Floats) -> Floats:
    """The cosine of each pair; 0 where one of the two is a zero vector. [m, d], [p, d] -> [m, p]"""
    return np.clip(unit(a) @ unit(b).T, -1, 1)


def lengths(table: Table) -> Floats:
    """The length of each row, in float32, without a copy of the table. [V, d] -> [V]

    Summed in float32, and in float64 where that would overflow or vanish.
    """
    result = np.empty(len(table), np.float32)
    with np.errstate(over="ignore"):
        for places, rows in _in_float32(table):
            if table.dtype == np.float16:
                np.multiply(rows, _HALF, out=rows)
            np.vecdot(rows, rows, out=result[places])
        np.sqrt(result, out=result)
        for some in _parts(_unsafe(result), table):
            result[some] = np.linalg.norm(table[some].astype(np.float64), axis=1)
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
    similarities = _first_pass(query, table, table_lengths)
    similarities[list(without)] = -np.inf
    candidates = _candidates(similarities, k, _margin(len(query)))
    exact = _exactly(query, table, candidates)
    best = np.lexsort((candidates, -exact))[:k]
    return candidates[best], np.clip(exact[best], -1, 1).astype(np.float32)


def _first_pass(query: Floats, table: Table, table_lengths: Floats) -> Floats:
    """Every cosine within half the margin, −infinity for a zero row. [d], [V, d], [V] -> [V]"""
    similarities = np.empty(len(table), np.float32)
    scaled = query.astype(np.float32) * _factor(table)
    # From memory, products row by row are the faster, from the cache those of a matrix.
    product = np.vecdot if table.dtype == np.float32 else np.matmul
    with np.errstate(over="ignore", invalid="ignore"):
        for places, rows in _in_float32(table):
            product(rows, scaled, out=similarities[places])
        similarities /= table_lengths
    unsafe = _unsafe(table_lengths)
    similarities[unsafe] = _exactly(query, table, unsafe)
    similarities[unsafe[table_lengths[unsafe] == 0]] = -np.inf
    return similarities


def _candidates(similarities: Floats, k: int, margin: float) -> Integers:
    """The rows that may be among the k best, where none is infinitely bad. [V] -> [c]

    The k-th best of all is at least the k-th best of any of them, such as the best of each column.
    """
    columns = max(_COLUMNS, 4 * k)
    even = len(similarities) // columns * columns
    heads = similarities[:even].reshape(-1, columns).max(axis=0, initial=-np.inf)
    heads = np.concatenate([heads, similarities[even:]])
    enough = np.partition(heads, -k)[-k] - margin
    found: Integers = np.flatnonzero(similarities >= max(enough, np.finfo(np.float32).min))
    return found


def _margin(d: int) -> float:
    """More than twice what a cosine in float32 can be wrong by.

    With u half of epsilon, and whatever the order of the sums: d·u the product, u the query,
    (d/2 + 1)·u the length, u the quotient (Higham 2002, Accuracy and Stability, 3.1).
    """
    return 2 * (d + 8) * float(np.finfo(np.float32).eps)


def _exactly(query: Floats, table: Table, rows: Integers) -> Floats:
    """The cosines of some rows in float64; 0 for a zero row. [d], [V, d], [c] -> [c]"""
    wide = (table[some].astype(np.float64) for some in _parts(rows, table))
    return np.concatenate([np.empty(0), *((unit(x) * query).sum(axis=1) for x in wide)])


def _unsafe(table_lengths: Floats) -> Integers:
    """The rows that float32 cannot be trusted with, those of zeros too. [V] -> [c]"""
    found: Integers = np.flatnonzero(~((table_lengths >= _LEAST) & (table_lengths <= _MOST)))
    return found


def _parts(rows: Integers, table: Table) -> Iterator[Integers]:
    """Cut the numbers of rows into parts of rows that may be copied at one time."""
    step = max(_PIECE // table.shape[1], 1)
    yield from (rows[start : start + step] for start in range(0, len(rows), step))


def _in_float32(table: Table) -> Iterator[tuple[slice, Floats]]:
    """Each part of a table, and its rows in float32, to be multiplied by the table's factor.

    A table in float32 is one part and is not copied. The others are overwritten by the next.
    """
    if table.dtype == np.float32:
        yield slice(None), np.asarray(table)
        return
    step = max(_PIECE // table.shape[1], 1)
    buffer = np.empty((step, table.shape[1]), np.float32)
    for start in range(0, len(table), step):
        rows = table[start : start + step]
        converted = buffer[: len(rows)]
        if table.dtype == np.float16:
            _widen(rows, converted)
        else:
            converted[:] = rows
        yield slice(start, start + step), converted


def _widen(halves: Table, wide: Floats) -> None:
    """Write the bits of float16 into float32, sign, exponent and fraction each in its place.

    That is exactly the number, smaller by the factor: NumPy's conversion takes five times as long.
    """
    bits = wide.view(np.int32)
    bits[:] = halves.view(np.int16)
    bits <<= 13
    bits &= ~0x70000000  # copies of the sign


def _factor(table: Table) -> np.float32:
    return _HALF if table.dtype == np.float16 else np.float32(1)
