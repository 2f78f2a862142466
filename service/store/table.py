"""Arrays of numbers on disk: `.npy` files, mapped and never copied.

The header is matched, not evaluated as NumPy's reader does:
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import os
import re
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from service.engine.arrays import Floats
from service.errors import ModelFolderError
from service.store.fingerprint import opened, require_checksum, require_said
from service.store.manifest import FileEntry

_LARGEST_HEADER = 4096
_ALIGNMENT = 16
"""The numbers start at a multiple of this in what NumPy writes, old and new."""
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = (
    re.escape(_MAGIC) + rb"(..)\{'descr': '([^']{1,16})', 'fortran_order': (True|False),"
    rb" 'shape': \(%b\), \} *\n"
)
_VECTOR = re.compile(_HEADER % rb"(\d{1,12}),", re.DOTALL)
_TABLE = re.compile(_HEADER % rb"(\d{1,12}), (\d{1,12})", re.DOTALL)


class Header(NamedTuple):
    """What the head of an `.npy` file says, and where it ends."""

    shape: tuple[int, ...]
    end: int


def read_header(file: BufferedReader, name: str, dtype: np.dtype[Any], axes: int) -> Header:
    """Read a header; raise ModelFolderError where the file is no array of this dtype."""
    file.seek(0)
    found = (_VECTOR if axes == 1 else _TABLE).match(file.read(_LARGEST_HEADER))
    end = found.end() if found else 0
    if not found or end != len(_MAGIC) + 2 + int.from_bytes(found[1], "little") or end % _ALIGNMENT:
        raise ModelFolderError(f"{name} is not an array that can be mapped.")
    if found[2].decode("latin1") != dtype.str:
        raise ModelFolderError(f"{name} has not the dtype {dtype.name}.")
    if found[3] == b"True":
        raise ModelFolderError(f"{name} is not in C order.")
    shape = tuple(map(int, found.groups()[3:]))
    size = end + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if os.fstat(file.fileno()).st_size != size:
        raise ModelFolderError(f"{name} has another number of numbers than its header says.")
    return Header(shape, end)


def read_table(
    path: Path, entry: FileEntry, dtype: str, shape: tuple[int | None, int], *, verify: bool
) -> Floats:
    """Map a table of floats; None stands for any number of rows. -> [V, d]

    `verify` also compares its checksum and looks for NaN and infinity, in one pass. Raises
    ModelFolderError.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    with opened(path, entry) as file:
        header = read_header(file, path.name, kind, len(shape))
        fits = header.shape[1] == shape[1] and shape[0] in {None, header.shape[0]}
        require_said(fits and header.shape[0] > 0, path.name, "shape")
        if verify:
            finite = _Finite(kind, header.end)
            require_checksum(file, path.name, entry, finite)
            if finite.broken is not None:
                row = finite.broken // header.shape[1]
                raise ModelFolderError(f"{path.name} is not finite in row {row}.")
        return np.memmap(file, kind, "r", header.end, header.shape)


class _Finite:
    """Watches the bytes of a table for the first of its numbers that is none."""

    def __init__(self, dtype: np.dtype[Any], start: int) -> None:
        self.dtype, self.start = dtype, start
        self.broken: int | None = None

    def __call__(self, position: int, chunk: memoryview) -> None:
        if self.broken is not None:
            return
        skipped = max(self.start - position, 0)
        finite = np.isfinite(np.frombuffer(chunk[skipped:], self.dtype))
        if not finite.all():
            before = (position + skipped - self.start) // self.dtype.itemsize
            self.broken = before + int(finite.argmin())
