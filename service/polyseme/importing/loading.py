"""The second pass over a file: gensim converts the rows, some thousand at a time.

In pieces the table is in memory once and not twice, every processor takes part, and the work has a
course that can be shown.
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

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.quantization import Rows, empty_rows
from polyseme.importing.progress import Bar
from polyseme.importing.refusal import SKIP_HINT, VectorFileError
from polyseme.importing.rows import Row
from polyseme.importing.scan import Scan, not_finite, scan

CHANGED = "The file changed while it was read; import it again."
_PIECE = 1_000_000
"""Numbers in a piece."""
_FEW = 4 * _PIECE
"""Numbers up to which starting further processes takes longer than it saves."""


def load(found: Scan, bar: Bar, dtype: str, processes: int) -> Rows:
    """The vectors of a scanned file, as gensim reads them, to be kept in a dtype. -> [V, d]

    Raises VectorFileError where a number cannot be read or is not finite.
    """
    vectors = empty_rows(len(found.words), found.width, dtype)
    few = len(found.words) * found.width <= _FEW or processes == 1
    start = 0
    with found.file.open() as plain:
        pieces = _pieces(found, found.rows(plain, bar))
        try:
            for piece in map(_load, pieces) if few else _in_processes(pieces, processes):
                end = start + len(piece)
                if end > len(vectors):
                    raise VectorFileError(CHANGED)
                vectors[start:end] = _finite(piece, found, start)
                start = end
        except ValueError:
            raise _unreadable(found, bar) from None
        bar.reach(plain.size, start)
    if start != len(vectors):
        raise VectorFileError(CHANGED)
    return vectors


Piece = tuple[bytes, bool]
"""A small word2vec file, and whether it is a binary one."""


def _pieces(found: Scan, rows: Iterator[Row]) -> Iterator[Piece]:
    """Yield the rows as small files, as gensim takes them: with a header, a number for a word."""
    binary = found.file.format == "word2vec-binary"
    end = b"" if binary else b"\n"
    while piece := list(islice(rows, max(_PIECE // found.width, 1))):
        header = b"%d %d\n" % (len(piece), found.width)
        lines = (b"%d " % number + row.numbers + end for number, row in enumerate(piece))
        yield b"".join([header, *lines]), binary


def _load(piece: Piece) -> NDArray[np.float32]:
    """Have gensim read one piece, which it takes as an open file's number. -> [n, d]"""
    from gensim.models import KeyedVectors  # noqa: PLC0415 - a second, for importing alone

    data, binary = piece
    with tempfile.TemporaryFile() as file, np.errstate(over="ignore"):  # looked for when all is
        file.write(data)
        file.seek(0)
        read = KeyedVectors.load_word2vec_format(file.fileno(), binary=binary)
    vectors: NDArray[np.float32] = read.vectors
    return vectors


def _in_processes(pieces: Iterable[Piece], processes: int) -> Iterator[NDArray[np.float32]]:
    """Yield what `_load` gives for each piece, in order, a few pieces ahead."""
    context = get_context("spawn")  # a fork would copy locks that threads hold
    with _interruptions_held():
        pool = ProcessPoolExecutor(processes, context, _end_with_parent)
    with pool:
        ahead: deque[Future[NDArray[np.float32]]] = deque()
        try:
            for piece in pieces:
                with _interruptions_held():
                    ahead.append(pool.submit(_load, piece))
                if len(ahead) > processes + 1:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BrokenProcessPool:
            raise VectorFileError(
                "A process that converted numbers was ended, perhaps for lack of memory;"
                " --processes 1 takes the least."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _interruptions_held() -> Iterator[None]:
    """Start processes that leave interruptions to this one, from their first moment on.

    What is held here for a moment is held for good in a process that starts meanwhile.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, which nothing else would do."""
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _unreadable(found: Scan, bar: Bar) -> VectorFileError:
    """Find the number that gensim could not read."""
    try:
        scan(found.file, bar, encoding=found.encoding, dtype=found.dtype, numbers=True)
    except VectorFileError as error:
        return error
    return VectorFileError("gensim cannot read a number that Python can.")


def _finite(piece: NDArray[np.float32], found: Scan, start: int) -> Floats:
    """The rows of a piece in the dtype that all numbers have to be finite in. [n, d] -> [n, d]"""
    with np.errstate(over="ignore"):
        narrow: Floats = piece.astype(found.dtype, copy=False)
    finite = np.isfinite(narrow).all(axis=1)
    if not finite.all():
        row = start + int(finite.argmin())
        place = next(islice(found.words.values(), row, None))
        raise VectorFileError(
            f"{found.file.unit.capitalize()} {place} {not_finite(found.dtype)}; {SKIP_HINT}."
        )
    return narrow
