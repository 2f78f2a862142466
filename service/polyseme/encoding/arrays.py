"""Arrays as JSON, in pieces of bounded size: nested lists, or the base64 of their bytes."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import orjson
import pybase64

from polyseme.engine.arrays import Floats

PIECE = 1 << 16
"""Numbers of one piece, but for a row of more columns in `number_pieces`."""
_LITTLE = {size: np.dtype(f"<f{size}") for size in (2, 4, 8)}
Write: TypeAlias = Callable[[Floats], Iterator[bytes]]


def as_numbers(array: Floats) -> Floats:
    """An array that orjson writes as nested lists; it takes C-contiguous ones alone."""
    return np.ascontiguousarray(array)


def number_pieces(array: Floats, most: int = PIECE) -> Iterator[bytes]:
    """Yield an array as nested lists, a number of rows in each piece."""
    array = as_numbers(array)
    if array.size <= most or array.ndim == 0:
        yield orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
        return
    rows = most // (array.size // len(array))
    yield b"["
    for start in range(0, len(array), max(1, rows)):
        if start:
            yield b","
        if rows:
            some = array[start : start + rows]
            yield orjson.dumps(some, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        else:
            yield from number_pieces(array[start], most)
    yield b"]"


def base64_pieces(array: Floats, most: int = PIECE) -> Iterator[bytes]:
    """Yield shape, dtype and the base64 of an array's bytes, little-endian, C order."""
    little = np.ascontiguousarray(array, _LITTLE[array.itemsize])
    head = {"shape": array.shape, "dtype": f"float{8 * array.itemsize}"}
    yield orjson.dumps(head)[:-1] + b',"data":"'
    data = little.reshape(-1).view(np.uint8).data
    # Base64 turns three bytes into four characters; only the last piece may need padding.
    step = 3 * most
    for start in range(0, len(data), step):
        yield pybase64.b64encode(data[start : start + step])
    yield b'"}'
