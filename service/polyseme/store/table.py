"""Arrays of numbers on disk: `.npy` files, mapped and never copied.

The header is matched, not evaluated as NumPy's reader does:
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import os
import re
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Flags
from polyseme.engine.quantization import LARGEST_SCALE, STEPS, QuantizedRows, Rows
from polyseme.errors import ModelFolderError
from polyseme.store.fingerprint import opened, require_checksum, require_said
from polyseme.store.manifest import SCALES_OF, FileEntry, FileName, Manifest

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


class _Kind(NamedTuple):
    """A kind of numbers that a file may hold."""

    dtype: np.dtype[Any]
    sound: Callable[[NDArray[Any]], Flags]
    """which of some numbers may be there"""
    problem: str
    """what a file is or has whose row has another number"""


def _finite(dtype: str) -> _Kind:
    return _Kind(np.dtype(dtype), np.isfinite, "is not finite")


_KINDS = {
    "float16": _finite("<f2"),
    "float32": _finite("<f4"),
    "int8": _Kind(np.dtype("i1"), lambda numbers: numbers >= -STEPS, "has -128"),
}
_SCALE = _Kind(
    np.dtype("<f4"),
    lambda scales: (scales > 0) & (scales <= LARGEST_SCALE),
    "has no scale above 0 and finite",
)


def read_rows(
    folder: Path, name: FileName, manifest: Manifest, count: int | None, *, verify: bool
) -> Rows:
    """Map a table of a model, with the scales of its rows where it is int8. -> [V, d]

    `count` None stands for any number of rows. `verify` also compares the checksums and looks at
    every number, in one pass. Raises ModelFolderError.
    """
    files, kind = manifest.files, _KINDS[manifest.dtype]
    path, shape = folder / name, (count, manifest.dimension)
    table = _read(path, files[name], kind, shape, verify=verify)
    if manifest.dtype != "int8":
        return table
    beside = SCALES_OF[name]
    scales = _read(folder / beside, files[beside], _SCALE, (len(table),), verify=verify)
    return QuantizedRows(table, scales)


def _read(
    path: Path, entry: FileEntry, kind: _Kind, shape: tuple[int | None, ...], *, verify: bool
) -> NDArray[Any]:
    """Map an array; None in the shape stands for any number but 0."""
    with opened(path, entry) as file:
        header = read_header(file, path.name, kind.dtype, len(shape))
        sizes = zip(shape, header.shape, strict=True)
        fits = all(size in {None, found} for size, found in sizes)
        require_said(fits and header.shape[0] > 0, path.name, "shape")
        if verify:
            check = _Check(kind, header.end)
            require_checksum(file, path.name, entry, check)
            if check.broken is not None:
                row = check.broken // (header.shape[1] if len(shape) > 1 else 1)
                raise ModelFolderError(f"{path.name} {kind.problem} in row {row}.")
        # A plain view: indexing a memmap costs ten times as much.
        return np.memmap(file, kind.dtype, "r", header.end, header.shape).view(np.ndarray)


class _Check:
    """Watches the bytes of an array for the first of its numbers that may not be there."""

    def __init__(self, kind: _Kind, start: int) -> None:
        self.kind, self.start = kind, start
        self.broken: int | None = None

    def __call__(self, position: int, chunk: memoryview) -> None:
        if self.broken is not None:
            return
        skipped = max(self.start - position, 0)
        sound = self.kind.sound(np.frombuffer(chunk[skipped:], self.kind.dtype))
        if not sound.all():
            before = (position + skipped - self.start) // self.kind.dtype.itemsize
            self.broken = before + int(sound.argmin())
