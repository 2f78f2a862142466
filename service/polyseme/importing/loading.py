"""The second pass over a file: gensim converts the rows to numbers, a few thousand at a time.

In pieces, the table is in memory once instead of twice, all processors take part, and progress can
be shown.
"""

import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.command_error import CommandError
from polyseme.engine.arrays import Floats
from polyseme.engine.quantization import Rows, empty_rows
from polyseme.importing.rows import SKIP_HINT, Row, Scan, not_finite, scan
from polyseme.progress import ProgressBar

CHANGED = "The file changed while it was read; import it again."
Piece: TypeAlias = tuple[bytes, bool]
"""A small word2vec file, and whether it is binary."""
_PIECE = 1_000_000
"""Numbers in a piece."""
_FEW = 4 * _PIECE
"""Numbers below which starting processes takes longer than it saves."""


def load(found: Scan, bar: ProgressBar, dtype: str, processes: int) -> Rows:
    """Read the vectors of a scanned file with gensim, and keep them as `dtype`. -> [V, d]

    Raises CommandError if a number cannot be read or is not finite.
    """
    vectors = empty_rows(len(found.words), found.dimension, dtype)
    few = len(found.words) * found.dimension <= _FEW or processes == 1
    start = 0
    with found.file.open() as file:
        pieces = _pieces(found, found.rows(file, bar))
        try:
            for piece in map(_load, pieces) if few else _load_in_processes(pieces, processes):
                end = start + len(piece)
                if end > len(vectors):
                    raise CommandError(CHANGED)
                vectors[start:end] = _require_finite(piece, found, start)
                start = end
        except ValueError:
            raise _unreadable(found, bar) from None
        bar.reach(file.size, start)
    if start != len(vectors):
        raise CommandError(CHANGED)
    return vectors


def _pieces(found: Scan, rows: Iterator[Row]) -> Iterator[Piece]:
    """Yield the rows as small word2vec files, with numbers in place of the words."""
    binary = found.file.format == "word2vec-binary"
    end = b"" if binary else b"\n"
    while piece := list(islice(rows, max(_PIECE // found.dimension, 1))):
        header = b"%d %d\n" % (len(piece), found.dimension)
        lines = (b"%d " % number + row.values + end for number, row in enumerate(piece))
        yield b"".join([header, *lines]), binary


def _load(piece: Piece) -> NDArray[np.float32]:
    """Read one piece with gensim, which accepts a file descriptor. -> [n, d]"""
    from gensim.models import KeyedVectors  # noqa: PLC0415 - takes a second

    data, binary = piece
    with tempfile.TemporaryFile() as file, np.errstate(over="ignore"):  # `load` checks for it
        file.write(data)
        file.seek(0)
        read = KeyedVectors.load_word2vec_format(file.fileno(), binary=binary)
    vectors: NDArray[np.float32] = read.vectors
    return vectors


def _load_in_processes(pieces: Iterable[Piece], processes: int) -> Iterator[NDArray[np.float32]]:
    """Yield `_load` of each piece, in order, computed a few pieces ahead."""
    context = get_context("spawn")  # a fork would copy locks that threads hold
    with _interruptions_blocked():
        pool = ProcessPoolExecutor(processes, context, _end_with_parent)
    with pool:
        ahead: deque[Future[NDArray[np.float32]]] = deque()
        try:
            for piece in pieces:
                with _interruptions_blocked():
                    ahead.append(pool.submit(_load, piece))
                if len(ahead) > processes + 1:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BrokenProcessPool:
            raise CommandError(
                "A process that converted numbers was ended, perhaps for lack of memory;"
                " --processes 1 takes the least."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _interruptions_blocked() -> Iterator[None]:
    """Block SIGINT and SIGHUP while child processes start.

    Children inherit the blocked signals, which leaves handling them to this process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this child process when its parent ends."""
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _unreadable(found: Scan, bar: ProgressBar) -> CommandError:
    """Scan again with numbers, to find the one that gensim could not read."""
    try:
        scan(found.file, bar, encoding=found.encoding, dtype=found.dtype, parse_values=True)
    except CommandError as error:
        return error
    return CommandError("gensim cannot read a number that Python can.")


def _require_finite(piece: NDArray[np.float32], found: Scan, start: int) -> Floats:
    """The rows of a piece in the dtype they have to be finite in. [n, d] -> [n, d]"""
    with np.errstate(over="ignore"):
        narrow: Floats = piece.astype(found.dtype, copy=False)
    finite = np.isfinite(narrow).all(axis=1)
    if not finite.all():
        row = start + int(finite.argmin())
        position = next(islice(found.words.values(), row, None))
        raise CommandError(
            f"{found.file.unit.capitalize()} {position} {not_finite(found.dtype)}; {SKIP_HINT}."
        )
    return narrow
