"""The second pass over a file: parse the rows with gensim, a million values at a time.

Parsing in chunks holds one copy of the table in memory instead of two, lets several processes parse
a large file, and allows progress reports.
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

from polyseme.engine.arrays import Floats
from polyseme.engine.quantization import Rows, empty_rows
from polyseme.errors import CommandError
from polyseme.importing.rows import SKIP_HINT, Row, Scan, not_finite, scan
from polyseme.progress import ProgressBar

CHANGED = "The file changed while it was read; import it again."
Chunk: TypeAlias = tuple[bytes, bool]
"""The content of a small word2vec file, and whether it is binary."""
_CHUNK_VALUES = 1_000_000
"""Maximum number of values in a chunk."""
_MIN_PARALLEL_VALUES = 4 * _CHUNK_VALUES
"""Number of values above which starting processes saves time."""


def load(found: Scan, bar: ProgressBar, dtype: str, processes: int) -> Rows:
    """Read the vectors of a scanned file with gensim, and store them as `dtype`. -> [V, d]

    `dtype` is `float32`, `float16` or `int8`. Raises CommandError if a value cannot be parsed or is
    not finite.
    """
    vectors = empty_rows(len(found.words), found.dimension, dtype)
    values = len(found.words) * found.dimension
    parallel = processes > 1 and values > _MIN_PARALLEL_VALUES
    start = 0
    with found.file.open() as file:
        chunks = _chunks(found, found.rows(file, bar))
        try:
            for rows in _load_in_processes(chunks, processes) if parallel else map(_load, chunks):
                end = start + len(rows)
                if end > len(vectors):
                    raise CommandError(CHANGED)
                vectors[start:end] = _finite(rows, found, start)
                start = end
        except ValueError:
            raise _unreadable(found, bar) from None
        bar.reach(file.size, start)
    if start != len(vectors):
        raise CommandError(CHANGED)
    return vectors


def _chunks(found: Scan, rows: Iterator[Row]) -> Iterator[Chunk]:
    """Yield the rows as small word2vec files, with row numbers instead of the words."""
    binary = found.file.format == "word2vec-binary"
    end = b"" if binary else b"\n"
    while chunk := list(islice(rows, max(_CHUNK_VALUES // found.dimension, 1))):
        header = b"%d %d\n" % (len(chunk), found.dimension)
        lines = (b"%d " % number + row.values + end for number, row in enumerate(chunk))
        yield b"".join([header, *lines]), binary


def _load(chunk: Chunk) -> NDArray[np.float32]:
    """Parse one chunk with gensim, which accepts a file descriptor. -> [n, d]"""
    from gensim.models import KeyedVectors

    data, binary = chunk
    # `load` checks for values that overflow.
    with tempfile.TemporaryFile() as file, np.errstate(over="ignore"):
        file.write(data)
        file.seek(0)
        read = KeyedVectors.load_word2vec_format(file.fileno(), binary=binary)
    vectors: NDArray[np.float32] = read.vectors
    return vectors


def _load_in_processes(chunks: Iterable[Chunk], processes: int) -> Iterator[NDArray[np.float32]]:
    """Yield the result of `_load` for each chunk, in order, computing a few chunks ahead."""
    context = get_context("spawn")  # a fork would copy locks that threads hold
    with _interruptions_blocked():
        pool = ProcessPoolExecutor(processes, context, _end_with_parent)
    with pool:
        ahead: deque[Future[NDArray[np.float32]]] = deque()
        try:
            for chunk in chunks:
                with _interruptions_blocked():
                    ahead.append(pool.submit(_load, chunk))
                if len(ahead) > processes + 1:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except BrokenProcessPool:
            raise CommandError(
                "A process that parsed vectors was killed, perhaps because memory ran out;"
                " --processes 1 uses the least memory."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _interruptions_blocked() -> Iterator[None]:
    """Block SIGINT and SIGHUP while child processes start.

    Child processes inherit the blocked signals, so that only this process handles them.
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
    """Return an error with the position of the value that gensim cannot parse.

    Scans the file again and parses each value.
    """
    try:
        scan(found.file, bar, encoding=found.encoding, dtype=found.dtype, parse_values=True)
    except CommandError as error:
        return error
    return CommandError("gensim cannot parse a number that Python can.")


def _finite(rows: NDArray[np.float32], found: Scan, start: int) -> Floats:
    """Return the rows in the floating-point type of the scan. [n, d] -> [n, d]

    Raises CommandError if a row is not finite in this type.
    """
    with np.errstate(over="ignore"):
        narrow: Floats = rows.astype(found.dtype, copy=False)
    finite = np.isfinite(narrow).all(axis=1)
    if not finite.all():
        row = start + int(finite.argmin())
        position = next(islice(found.words.values(), row, None))
        raise CommandError(
            f"{found.file.unit.capitalize()} {position} {not_finite(found.dtype)}; {SKIP_HINT}."
        )
    return narrow
