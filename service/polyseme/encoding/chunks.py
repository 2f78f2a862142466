"""Pieces of an answer, joined into chunks that are worth a call to what takes them."""

from collections.abc import Iterable, Iterator
from typing import Any

CHUNK = 1 << 16
"""Bytes of a chunk, at least, but for the last."""


def chunks(pieces: Iterable[Any], least: int = CHUNK) -> Iterator[bytes]:
    """Join bytes, or what has a buffer of them; there is always a last chunk, which may be empty.

    A piece is gone when the next one is asked for: a chunk is a copy.
    """
    waiting: list[Any] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= least:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
