"""Tables of numbers on disk: `.npy` files, mapped into memory and never copied.

The header is matched by a pattern, not evaluated as NumPy's reader does:
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import os
import re
from collections.abc import Callable
from io import BufferedReader
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Flags
from polyseme.engine.quantization import LARGEST_SCALE, STEPS
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import Dtype

_MAX_HEADER_BYTES = 4096
_ALIGNMENT = 16
"""NumPy's writers, old and new, start the numbers at a multiple of this."""
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = (
    re.escape(_MAGIC) + rb"(..)\{'descr': '([^']{1,16})', 'fortran_order': (True|False),"
    rb" 'shape': \(%b\), \} *\n"
)
_HEADERS = {
    1: re.compile(_HEADER % rb"(\d{1,12}),", re.DOTALL),
    2: re.compile(_HEADER % rb"(\d{1,12}), (\d{1,12})", re.DOTALL),
}


class NumberType(NamedTuple):
    """The numbers that an array may hold."""

    dtype: np.dtype[Any]
    is_valid: Callable[[NDArray[Any]], Flags]
    problem: str
    """completes "vectors.npy … in row 3" where a number is not valid"""


NUMBER_TYPES: Final[dict[Dtype, NumberType]] = {
    "float16": NumberType(np.dtype("<f2"), np.isfinite, "is not finite"),
    "float32": NumberType(np.dtype("<f4"), np.isfinite, "is not finite"),
    "int8": NumberType(np.dtype("i1"), lambda numbers: numbers >= -STEPS, "has -128"),
}
SCALE: Final = NumberType(
    np.dtype("<f4"),
    lambda scales: (scales > 0) & (scales <= LARGEST_SCALE),
    "has no scale above 0 and finite",
)


class NpyHeader(NamedTuple):
    """The shape in the header of an `.npy` file, and the position of its end."""

    shape: tuple[int, ...]
    end: int


def read_header(file: BufferedReader, name: str, dtype: np.dtype[Any], axes: int) -> NpyHeader:
    """Read a header; raise ModelFolderError unless the file is a C-ordered array of this dtype."""
    file.seek(0)
    match = _HEADERS[axes].match(file.read(_MAX_HEADER_BYTES))
    end = match.end() if match else 0
    if not match or end != len(_MAGIC) + 2 + int.from_bytes(match[1], "little") or end % _ALIGNMENT:
        raise ModelFolderError(f"{name} is not an array that can be mapped.")
    if match[2].decode("latin1") != dtype.str:
        raise ModelFolderError(f"{name} has not the dtype {dtype.name}.")
    if match[3] == b"True":
        raise ModelFolderError(f"{name} is not in C order.")
    shape = tuple(map(int, match.groups()[3:]))
    size = end + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if os.fstat(file.fileno()).st_size != size:
        raise ModelFolderError(f"{name} has another number of numbers than its header says.")
    return NpyHeader(shape, end)


def map_array(file: BufferedReader, dtype: np.dtype[Any], header: NpyHeader) -> NDArray[Any]:
    """Map the numbers of an `.npy` file, read-only."""
    # A plain view: indexing a memmap costs ten times as much.
    return np.memmap(file, dtype, "r", header.end, header.shape).view(np.ndarray)


class InvalidNumberFinder:
    """Finds the first number of an array that is not valid, from the chunks of its file."""

    def __init__(self, number_type: NumberType, header: NpyHeader) -> None:
        self.number_type, self.header = number_type, header
        self.place: int | None = None

    def __call__(self, position: int, chunk: memoryview) -> None:
        """Look at the chunk that starts at a position of the file."""
        if self.place is not None:
            return
        dtype, start = self.number_type.dtype, self.header.end
        skipped = max(start - position, 0)
        valid = self.number_type.is_valid(np.frombuffer(chunk[skipped:], dtype))
        if not valid.all():
            self.place = (position + skipped - start) // dtype.itemsize + int(valid.argmin())

    @property
    def row(self) -> int | None:
        """The row of the number that was found."""
        width = self.header.shape[1] if len(self.header.shape) > 1 else 1
        return None if self.place is None else self.place // width
