"""Vectors in 8 bits a number: rows of integers, and a scale for each row.

A row x is kept as q = rint(x / s) with s = max|x| / 127, and read as s·q: no number is wrong by
more than s/2. The integers are as many above 0 as below: −128 is none of them.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, Integers, require_finite

STEPS = 127
"""The largest of the integers."""
LARGEST_SCALE = np.nextafter(np.float32(np.finfo(np.float32).max / STEPS), np.float32(0))
"""With a larger one, 127 times it would not be finite."""
_CHUNK = 1024
"""Rows of floats that are quantised at one time."""


@dataclass(frozen=True, eq=False)
class QuantisedRows:
    """A table of vectors [V, d]. It is indexed by rows, as an array is, and gives float32."""

    integers: NDArray[np.int8]
    """[V, d], from −127 to 127"""
    scales: NDArray[np.float32]
    """[V], above 0"""

    @property
    def shape(self) -> tuple[int, ...]:
        """V and d."""
        return self.integers.shape

    @property
    def dtype(self) -> np.dtype[np.int8]:
        """The dtype of what is kept."""
        return self.integers.dtype

    @property
    def nbytes(self) -> int:
        """How many bytes are kept."""
        return self.integers.nbytes + self.scales.nbytes

    def __len__(self) -> int:
        return len(self.integers)

    def __getitem__(self, rows: int | slice | Integers) -> NDArray[np.float32]:
        """The vectors of some rows, or of one. -> [n, d] or [d]"""
        vectors: NDArray[np.float32] = self.integers[rows] * self.scales[rows][..., None]
        return vectors

    def __setitem__(self, rows: slice, vectors: Floats) -> None:
        """Quantise vectors into some rows; raise NonFiniteError on overflow. [n, d]

        A scale is rounded upwards, so that the largest number of a row needs no more than 127
        steps, also where the scale is so small that float32 has few digits for it. A row of zeros
        has the scale 1.
        """
        with np.errstate(over="ignore"):
            wide = require_finite(vectors.astype(np.float32)).astype(np.float64)
        peaks = np.abs(wide).max(axis=1, initial=0)
        scales = (peaks / STEPS).astype(np.float32)
        short = scales.astype(np.float64) * STEPS < peaks
        scales = np.where(short, np.nextafter(scales, np.float32(np.inf)), scales)
        scales = np.where(peaks > 0, np.minimum(scales, LARGEST_SCALE), np.float32(1))
        self.integers[rows] = np.rint(wide / scales[:, None])
        self.scales[rows] = scales


Rows: TypeAlias = Floats | QuantisedRows
"""A table of vectors [V, d]: floating-point numbers, or quantised ones."""


def empty_rows(count: int, width: int, dtype: str) -> Rows:
    """A table to be filled, of a floating-point dtype or int8. -> [V, d]"""
    numbers: NDArray[Any] = np.empty((count, width), dtype)
    if numbers.dtype != np.int8:
        return numbers
    return QuantisedRows(numbers, np.empty(count, np.float32))


def quantised(vectors: Floats) -> QuantisedRows:
    """Quantise vectors; raise NonFiniteError where float32 cannot hold one. [V, d] -> [V, d]"""
    rows = QuantisedRows(np.empty(vectors.shape, np.int8), np.empty(len(vectors), np.float32))
    for start in range(0, len(vectors), _CHUNK):
        rows[start : start + _CHUNK] = vectors[start : start + _CHUNK]
    return rows


def kept(rows: Rows) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """The numbers that are kept, and the scale of each row where they have some. -> [V, d], [V]

    A scale is positive, so that the numbers alone have the directions of the vectors: for a
    cosine they are all that is needed.
    """
    return (rows.integers, rows.scales) if isinstance(rows, QuantisedRows) else (rows, None)


def floats(rows: Rows) -> Floats:
    """All vectors as an array: the one that is kept, else a copy in float32. [V, d] -> [V, d]"""
    return rows[:] if isinstance(rows, QuantisedRows) else rows


def row_bytes(width: int, dtype: str) -> int:
    """How many bytes a vector of some width takes."""
    return np.dtype(dtype).itemsize * width + (4 if dtype == "int8" else 0)
