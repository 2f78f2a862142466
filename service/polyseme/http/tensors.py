"""Tensors of the Open Inference Protocol: values in JSON, and as bytes after it.

Bytes are little-endian and in C order; an element of a BYTES tensor is its length, in four bytes,
and what it holds (Triton's binary tensor data extension). Lengths that come from outside are
compared with what is there, and nothing is ever allocated by them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from polyseme.encoding.arrays import PIECE

Datatype: TypeAlias = Literal["BYTES", "FP32", "INT64"]
ITEM_SIZES: dict[Datatype, int] = {"FP32": 4, "INT64": 8}
"""Bytes of a number; an element of BYTES has as many as it has."""
Values: TypeAlias = NDArray[np.float32] | NDArray[np.int64] | Sequence[str]
"""Some values of a tensor, in a row."""
_LENGTH = 4
_STEP = 1 << 18
"""Bytes of numbers that are written at a time."""


class ElementsError(ValueError):
    """The bytes are not those of a tensor; the sentence says why, and quotes nothing."""


def elements(data: bytes, number: int) -> list[bytes]:
    """The elements of a BYTES tensor; raise ElementsError unless there are so many, and no more."""
    found: list[bytes] = []
    place = 0
    while place < len(data):
        if len(found) == number:
            raise ElementsError("has more bytes than the elements of its shape")
        start = place + _LENGTH
        place = start + int.from_bytes(data[place:start], "little")
        if place > len(data) or start > len(data):
            raise ElementsError(f"element {len(found)} goes over the end of the bytes")
        found.append(data[start:place])
    if len(found) < number:
        raise ElementsError("has fewer elements than its shape says")
    return found


def texts(data: bytes, number: int) -> list[str]:
    """The elements as texts in UTF-8; raise ElementsError where one of them is not."""
    found = []
    for place, element in enumerate(elements(data, number)):
        try:
            found.append(element.decode())
        except UnicodeDecodeError:
            raise ElementsError(f"element {place} is not UTF-8") from None
    return found


def element_bytes(values: Iterable[str]) -> int:
    """How many bytes texts take as elements."""
    return sum(_LENGTH + len(value.encode()) for value in values)


def json_pieces(runs: Iterable[Values]) -> Iterator[bytes]:
    """Write values as a flat JSON list, a bounded number of them in each piece."""
    opening = b"["
    for run in runs:
        for start in range(0, len(run), PIECE):
            some = run[start : start + PIECE]
            yield opening + orjson.dumps(some, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
            opening = b","
    yield b"[]" if opening == b"[" else b"]"


def binary_pieces(runs: Iterable[Values]) -> Iterator[Any]:
    """Write values as bytes, or what has a buffer of them."""
    for run in runs:
        if isinstance(run, np.ndarray):
            little = np.ascontiguousarray(run, run.dtype.newbyteorder("<")).view(np.uint8).data
            for start in range(0, len(little), _STEP):
                yield little[start : start + _STEP]
        else:
            held = [value.encode() for value in run]
            yield b"".join(len(one).to_bytes(_LENGTH, "little") + one for one in held)
