"""The answer for many sentences as one `.npz`, which NumPy reads without pickle."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any
from zipfile import ZipFile

import numpy as np
import orjson
from numpy.lib.format import dtype_to_descr, write_array_header_1_0

from polyseme.encoding.choice import Part
from polyseme.encoding.chunks import chunks
from polyseme.encoding.documents import sentence_document
from polyseme.encoding.encoder import Batch

_BY_ROW: tuple[Part, ...] = ("static", "contextual")
_PIECE = 1 << 18
"""Bytes of an array that are written at a time."""


@dataclass(frozen=True)
class _Member:
    """An array of the archive: its shape first, its numbers when their turn comes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Iterable[Any]
    """bytes, or arrays of them"""


def npz_answer(batch: Batch) -> Iterator[bytes]:
    """Write sentences as `.npz`; rows of sentence i are `offsets[i]:offsets[i+1]`.

    `offsets` int64 [S+1]; `tokens` uint8, the UTF-8 JSON of what is not an array; `static`,
    `contextual` [N, d]; `attention_0`, … and the other arrays of each sentence by its number.
    One array comes after another, so that a large batch is gone through for each of them.
    """
    sink = _Sink()
    with ZipFile(sink, "w") as archive:  # type: ignore[call-overload]  # it only needs `write`
        for one in _members(batch):
            # As NumPy does, whether or not it will have been so large.
            with archive.open(f"{one.name}.npy", "w", force_zip64=True) as member:
                for chunk in chunks(chain([_header(one.dtype, one.shape)], one.data)):
                    member.write(chunk)
                    yield from sink.taken()
    yield from sink.taken()


class _Sink:
    """Where zipfile writes, and what was written is taken from."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep what is written until it is taken."""
        self._written.append(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits here for anything else."""

    def taken(self) -> Iterator[bytes]:
        """Yield what was written since."""
        written, self._written = self._written, []
        yield from written


@lru_cache(1024)
def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before the numbers in a `.npy`."""
    out = io.BytesIO()
    described = dtype_to_descr(np.dtype(dtype))
    facts = {"descr": described, "fortran_order": False, "shape": shape}
    write_array_header_1_0(out, facts)
    return out.getvalue()


def _members(batch: Batch) -> Iterator[_Member]:
    """Yield the arrays in their order."""
    offsets = np.cumsum([0, *batch.lengths], dtype=np.int64)
    yield _Member("offsets", "int64", offsets.shape, _pieces(offsets))
    # A small batch is written down once, a large one counted first.
    facts = _facts(batch) if batch.large else list(_facts(batch))
    size = sum(map(len, facts))
    yield _Member("tokens", "uint8", (size,), _facts(batch) if batch.large else facts)
    choice, shape = batch.choice, (int(offsets[-1]), batch.model.manifest.dimension)
    for part in _BY_ROW:
        if part in choice.include:
            rows = (one.arrays[part] for one in batch.through({part}))
            yield _Member(part, choice.dtype, shape, chain.from_iterable(map(_pieces, rows)))
    others = choice.include.difference(_BY_ROW)
    for number, one in enumerate(batch.through(others) if others else ()):
        for part, array in one.arrays.items():
            if part in others:
                yield _Member(f"{part}_{number}", choice.dtype, array.shape, _pieces(array))


def _facts(batch: Batch) -> Iterator[bytes]:
    """Write what is not an array as JSON."""
    yield b"["
    for number, one in enumerate(batch.through(())):
        if number:
            yield b","
        yield orjson.dumps(sentence_document(one))
    yield b"]"


def _pieces(array: Any) -> Iterator[Any]:
    """Yield the bytes of an array, in C order."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
