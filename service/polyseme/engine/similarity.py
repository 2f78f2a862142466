"""Cosine similarity between vectors and against a whole table, and principal components."""

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import SAFE_LENGTHS, Floats, Integers, unit

Table: TypeAlias = Floats | NDArray[np.int8]
"""A table of vectors [V, d]; int8 rows come without their scales, which do not change cosines."""

_PIECE = 1 << 19
"""Number of values of a table that are converted at once; they fit into the processor's cache."""
_COLUMNS = 1024
"""Minimum number of columns whose maxima give a lower bound of the k-th best similarity."""
_FLOAT16_DIVISOR = np.float32(2.0**112)
"""The factor by which `_widen` divides float16 values."""


def cosines(a: Floats, b: Floats) -> Floats:
    """Return the cosine of each pair; 0 if either is a zero vector. [m, d], [p, d] -> [m, p]"""
    return np.clip(unit(a) @ unit(b).T, -1, 1)


def norms(table: Table) -> Floats:
    """Return the L2 norm of each row, in float32, without a copy of the table. [V, d] -> [V]

    Squares are summed in float32, and in float64 if float32 would overflow or underflow.
    """
    result = np.empty(len(table), np.float32)
    with np.errstate(over="ignore"):
        for part, rows in _in_float32(table):
            if table.dtype == np.float16:
                np.multiply(rows, _FLOAT16_DIVISOR, out=rows)
            np.vecdot(rows, rows, out=result[part])
        np.sqrt(result, out=result)
        for some in _parts(_unsafe(result), table):
            result[some] = np.linalg.norm(table[some].astype(np.float64), axis=1)
    return result


def nearest(
    vector: Floats, table: Table, table_norms: Floats, k: int, exclude: Collection[int] = ()
) -> tuple[Integers, Floats]:
    """Return the k nearest table rows and their cosines, best first. [d], [V, d], [V] -> [k], [k]

    The result is exact: every row is compared in float32, then the rows that may be among the best
    in float64, because the last bits of BLAS results depend on the position of a row. Equal cosines
    are ordered by row. Zero rows and the rows in `exclude` are skipped, so fewer than k may remain.
    """
    query = unit(vector[None].astype(np.float64))[0]
    similarities = _first_pass(query, table, table_norms)
    similarities[list(exclude)] = -np.inf
    # The k-th largest similarity is at least the k-th largest column maximum.
    columns = max(_COLUMNS, 4 * k)
    even = len(similarities) // columns * columns
    maxima = similarities[:even].reshape(-1, columns).max(axis=0, initial=-np.inf)
    maxima = np.concatenate([maxima, similarities[even:]])
    threshold = np.partition(maxima, -k)[-k] - _margin(len(query))
    candidates = np.flatnonzero(similarities >= max(threshold, np.finfo(np.float32).min))
    exact = _exactly(query, table, candidates)
    best = np.lexsort((candidates, -exact))[:k]
    return candidates[best], np.clip(exact[best], -1, 1).astype(np.float32)


def _first_pass(query: Floats, table: Table, table_norms: Floats) -> Floats:
    """Return every cosine, with an error of at most half of `_margin`. [d], [V, d], [V] -> [V]

    The cosine of a zero row is −infinity.
    """
    similarities = np.empty(len(table), np.float32)
    scaled = query.astype(np.float32)
    if table.dtype == np.float16:
        scaled *= _FLOAT16_DIVISOR
    # Row-by-row products are faster from memory, matrix products from the cache.
    product = np.vecdot if table.dtype == np.float32 else np.matmul
    with np.errstate(over="ignore", invalid="ignore"):
        for part, rows in _in_float32(table):
            product(rows, scaled, out=similarities[part])
        similarities /= table_norms
    unsafe = _unsafe(table_norms)
    similarities[unsafe] = _exactly(query, table, unsafe)
    similarities[unsafe[table_norms[unsafe] == 0]] = -np.inf
    return similarities


def _margin(d: int) -> float:
    """Return more than twice the largest error of a cosine in float32.

    With u half of epsilon, and for any order of the sums: d·u for the product, u for the query,
    (d/2 + 1)·u for the norm, u for the quotient (Higham 2002, Accuracy and Stability, 3.1).
    """
    return 2 * (d + 8) * float(np.finfo(np.float32).eps)


def _exactly(query: Floats, table: Table, rows: Integers) -> Floats:
    """Return the cosines of some rows in float64; 0 for a zero row. [d], [V, d], [c] -> [c]"""
    wide = (table[some].astype(np.float64) for some in _parts(rows, table))
    return np.concatenate([np.empty(0), *((unit(x) * query).sum(axis=1) for x in wide)])


def _unsafe(table_norms: Floats) -> Integers:
    """Return the rows outside the range of float32 arithmetic, zero rows included. [V] -> [c]"""
    least, most = SAFE_LENGTHS
    rows: Integers = np.flatnonzero(~((table_norms >= least) & (table_norms <= most)))
    return rows


def _parts(rows: Integers, table: Table) -> Iterator[Integers]:
    """Yield the row numbers in parts small enough to copy."""
    step = max(_PIECE // table.shape[1], 1)
    yield from (rows[start : start + step] for start in range(0, len(rows), step))


def _in_float32(table: Table) -> Iterator[tuple[slice, Floats]]:
    """Yield each part of a table and its rows in float32; `_widen` divides float16 rows.

    A float32 table is one part and is not copied. The parts of other tables share one buffer.
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
    """Write float16 values, divided by `_FLOAT16_DIVISOR`, as float32, by shifting their bits.

    The result is exact, and takes a fifth of the time of NumPy's cast.
    """
    bits = wide.view(np.int32)
    bits[:] = halves.view(np.int16)
    bits <<= 13
    bits &= ~0x70000000  # clear the copies of the sign bit


def principal_components(points: Floats, count: int = 2) -> tuple[Floats, Floats]:
    """Return coordinates along the first principal components, and the variance ratio of each.

    [m, d] -> [m, count], [count]

    Both follow from the singular value decomposition of the centered points (Jolliffe 2002,
    Principal Component Analysis, 3.5). The sign of a component is arbitrary; the coordinate of the
    largest magnitude is made positive, so that the same points give the same coordinates. Results
    beyond min(m, d) components are 0.
    """
    centered = points - points.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    available = min(count, len(sizes))
    coordinates = np.zeros((len(points), count), points.dtype)
    coordinates[:, :available] = left[:, :available] * sizes[:available]
    largest = np.abs(coordinates).argmax(axis=0)
    coordinates *= np.where(coordinates[largest, np.arange(count)] < 0, -1, 1)
    ratios = np.zeros(count, points.dtype)
    if total := float((sizes * sizes).sum()):
        ratios[:available] = sizes[:available] ** 2 / total
    return coordinates, ratios
