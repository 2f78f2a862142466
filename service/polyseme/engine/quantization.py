"""8-bit quantized vectors: int8 rows, each with a float32 scale.

A row x is stored as q = rint(x / s). The scale s is max|x| / 127, rounded up to a float32, or 1 for
a zero row. The dequantized row is s·q, with an error of at most s/2. The value −128 does not occur.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats, Integers, require_finite

STEPS = 127
"""The largest quantized value."""
LARGEST_SCALE = np.nextafter(np.float32(np.finfo(np.float32).max / STEPS), np.float32(0))
"""The largest scale s for which 127·s is finite."""
_CHUNK = 1024
"""Number of rows quantized at once."""


@dataclass(frozen=True, eq=False)
class QuantizedRows:
    """A quantized table [V, d] that returns float32 vectors when indexed by row."""

    integers: NDArray[np.int8]
    """[V, d], from −127 to 127"""
    scales: NDArray[np.float32]
    """[V], positive"""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table: V and d."""
        return self.integers.shape

    @property
    def dtype(self) -> np.dtype[np.int8]:
        """The dtype of `integers`, int8; indexing returns float32."""
        return self.integers.dtype

    @property
    def nbytes(self) -> int:
        """The size of the integers and the scales in bytes."""
        return self.integers.nbytes + self.scales.nbytes

    def __len__(self) -> int:
        return len(self.integers)

    def __getitem__(self, rows: int | slice | Integers) -> NDArray[np.float32]:
        """Return the vectors of several rows, or of one. -> [n, d] or [d]"""
        vectors: NDArray[np.float32] = self.integers[rows] * self.scales[rows][..., None]
        return vectors

    def __setitem__(self, rows: slice, vectors: Floats) -> None:
        """Quantize vectors into a slice of rows. [n, d]

        Raises NonFiniteError if a vector is not finite in float32. Scales are rounded up, so that
        no quantized value exceeds 127 even if the scale is subnormal. A zero row has the scale 1.
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


Rows: TypeAlias = Floats | QuantizedRows
"""A table of vectors [V, d]: floating-point or quantized."""


def empty_rows(count: int, width: int, dtype: str) -> Rows:
    """Return an uninitialized table of a floating-point dtype or int8. -> [V, d]"""
    values: NDArray[Any] = np.empty((count, width), dtype)
    if values.dtype != np.int8:
        return values
    return QuantizedRows(values, np.empty(count, np.float32))


def quantize(vectors: Floats) -> QuantizedRows:
    """Quantize vectors; raise NonFiniteError if one is not finite in float32. [V, d] -> [V, d]"""
    rows = QuantizedRows(np.empty(vectors.shape, np.int8), np.empty(len(vectors), np.float32))
    for start in range(0, len(vectors), _CHUNK):
        rows[start : start + _CHUNK] = vectors[start : start + _CHUNK]
    return rows


def stored(rows: Rows) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """Return the stored values, and the scale of each row or None. -> [V, d], [V]

    Scales are positive, so the values alone suffice for cosines.
    """
    return (rows.integers, rows.scales) if isinstance(rows, QuantizedRows) else (rows, None)


def as_floats(rows: Rows) -> Floats:
    """Return the stored array, or a dequantized float32 copy of int8 rows. [V, d] -> [V, d]"""
    return rows[:] if isinstance(rows, QuantizedRows) else rows
