"""Arrays on disk: memory-mapped `.npy` files.

The header is matched with a regular expression, because NumPy's reader parses a Python literal:
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
"""All versions of NumPy align the data to a multiple of this many bytes."""
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = (
    re.escape(_MAGIC) + rb"(..)\{'descr': '([^']{1,16})', 'fortran_order': (True|False),"
    rb" 'shape': \(%b\), \} *\n"
)
_HEADERS = {
    1: re.compile(_HEADER % rb"(\d{1,12}),", re.DOTALL),
    2: re.compile(_HEADER % rb"(\d{1,12}), (\d{1,12})", re.DOTALL),
}


class ValueType(NamedTuple):
    """The dtype and the valid values of an array."""

    dtype: np.dtype[Any]
    is_valid: Callable[[NDArray[Any]], Flags]
    problem: str
    """the verb phrase of the error message "vectors.npy … in row 3." for an invalid value"""


VALUE_TYPES: Final[dict[Dtype, ValueType]] = {
    "float16": ValueType(np.dtype("<f2"), np.isfinite, "is not finite"),
    "float32": ValueType(np.dtype("<f4"), np.isfinite, "is not finite"),
    "int8": ValueType(np.dtype("i1"), lambda values: values >= -STEPS, "has -128"),
}
SCALE: Final = ValueType(
    np.dtype("<f4"),
    lambda scales: (scales > 0) & (scales <= LARGEST_SCALE),
    "has a scale that is not positive or is too large",
)

HASH: Final = ValueType(np.dtype("<u4"), np.isfinite, "is not finite")


class NpyHeader(NamedTuple):
    """The header of an `.npy` file."""

    shape: tuple[int, ...]
    end: int
    """offset of the data in the file"""


def read_header(file: BufferedReader, name: str, dtype: np.dtype[Any], axes: int) -> NpyHeader:
    """Read a header; raise ModelFolderError unless the file is a C-ordered array of this dtype."""
    file.seek(0)
    match = _HEADERS[axes].match(file.read(_MAX_HEADER_BYTES))
    end = match.end() if match else 0
    if not match or end != len(_MAGIC) + 2 + int.from_bytes(match[1], "little") or end % _ALIGNMENT:
        raise ModelFolderError(f"{name} is not an array that can be memory-mapped.")
    if match[2].decode("latin1") != dtype.str:
        raise ModelFolderError(f"{name} does not have the dtype {dtype.name}.")
    if match[3] == b"True":
        raise ModelFolderError(f"{name} is not in C order.")
    shape = tuple(map(int, match.groups()[3:]))
    size = end + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if os.fstat(file.fileno()).st_size != size:
        raise ModelFolderError(f"{name} has more or less data than its header declares.")
    return NpyHeader(shape, end)


def map_array(file: BufferedReader, dtype: np.dtype[Any], header: NpyHeader) -> NDArray[Any]:
    """Map the data of an `.npy` file, read-only."""
    # Indexing a plain view is ten times as fast as indexing a memmap.
    return np.memmap(file, dtype, "r", header.end, header.shape).view(np.ndarray)


class InvalidValueFinder:
    """A search for the first invalid value of an array in the chunks of its file."""

    def __init__(self, value_type: ValueType, header: NpyHeader) -> None:
        self.value_type, self.header = value_type, header
        self.index: int | None = None

    def __call__(self, offset: int, chunk: memoryview) -> None:
        """Check the chunk at an offset of the file."""
        if self.index is not None:
            return
        dtype, start = self.value_type.dtype, self.header.end
        skipped = max(start - offset, 0)
        valid = self.value_type.is_valid(np.frombuffer(chunk[skipped:], dtype))
        if not valid.all():
            self.index = (offset + skipped - start) // dtype.itemsize + int(valid.argmin())

    @property
    def row(self) -> int | None:
        """The row of the first invalid value, None if all are valid."""
        width = self.header.shape[1] if len(self.header.shape) > 1 else 1
        return None if self.index is None else self.index // width
