"""Read GloVe and word2vec files in two passes: check each row, then parse the values with gensim.

The second pass parses a million values at a time. This holds one copy of the table in memory
instead of two, lets several processes parse a large file, and allows progress reports. Errors name
the line, or the byte offset in a binary file.
"""

import itertools
import math
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.quantization import Rows, empty_rows
from polyseme.errors import CommandError
from polyseme.importing.formats import (
    HEADER,
    Decompressed,
    Format,
    is_number,
    open_decompressed,
)
from polyseme.progress import ProgressBar

MAX_DIMENSION = 65_536
MAX_WORD_BYTES = 4096
"""Longer words are rejected, so that a binary file without separators is not read to its end."""
OVERFLOW = {"float16": 65_520.0, "float32": 2.0**128 * (1 - 2.0**-25)}
"""The smallest value that each dtype rounds to infinity."""
SKIP_HINT = "--skip-bad-rows skips such rows"
CHANGED = "The file changed while it was read; import it again."
Chunk: TypeAlias = tuple[bytes, bool]
"""The content of a small word2vec file, and whether it is binary."""
_CHUNK_VALUES = 1_000_000
"""Maximum number of values in a chunk."""
_MIN_PARALLEL_VALUES = 4 * _CHUNK_VALUES
"""Number of values above which starting processes saves time."""
_MAX_LINE_BYTES = 2 << 20
_BLOCK = 1 << 20
_REPORT_INTERVAL = 2048
"""Rows between two progress reports."""
_EMPTY = "is empty"
_INVALID_NUMBER = "has an invalid number"
_NOT_FINITE = "has a value that is not finite as {}"
_FEW_ROWS = 100
"""Up to this number of rows may be skipped, even if fewer are usable."""


class Row(NamedTuple):
    """A word and its values, as bytes of the file."""

    position: int
    """the line, counted from 1, or the byte offset, counted from 0"""
    word: bytes
    values: bytes
    """text separated by spaces, or little-endian float32"""
    problem: str | None = None
    """why the row is unusable, or None"""


@dataclass(frozen=True)
class VectorFile:
    """A GloVe, word2vec text or word2vec binary file."""

    path: Path
    format: Format
    member: str | None = None
    limit: int | None = None
    """maximum number of rows to read"""

    @property
    def unit(self) -> str:
        """The unit of `Row.position`."""
        return "byte" if self.format == "word2vec-binary" else "line"

    def open(self) -> AbstractContextManager[Decompressed]:
        """Open the file."""
        return open_decompressed(self.path, self.member)

    def rows(self, file: Decompressed) -> Iterator[Row]:
        """Yield the rows of the opened file; raise CommandError if it cannot be parsed."""
        if self.format == "word2vec-binary":
            return _binary_rows(file, self.limit)
        return _text_rows(file, self.limit, has_header=self.format == "word2vec-text")


@dataclass
class Scan:
    """The result of checking a file."""

    file: VectorFile
    encoding: str
    dtype: str
    """the dtype in which all values must be finite"""
    dimension: int = 0
    words: dict[str, int] = field(default_factory=dict)
    """each word and the position of its row"""
    skipped: dict[int, str] = field(default_factory=dict)
    """the position of each unusable row, and the reason"""

    def rows(self, file: Decompressed, bar: ProgressBar) -> Iterator[Row]:
        """Yield the rows that are not in `skipped`; during the scan, also unusable ones."""
        for number, row in enumerate(self.file.rows(file), 1):
            if row.position not in self.skipped:
                yield row
            if not number % _REPORT_INTERVAL:
                bar.reach(file.done, number)


def scan(
    file: VectorFile,
    bar: ProgressBar,
    *,
    encoding: str = "utf-8",
    dtype: str = "float32",
    skip: bool = False,
    parse_values: bool = False,
) -> Scan:
    """Check every row and collect the words.

    Checks each word, the number of values, and that the values of a binary file are finite. The
    values of a text file are parsed only with `parse_values` or `skip`; otherwise the second pass
    parses them. Without `skip`, the first unusable row raises CommandError. With it, unusable rows
    are skipped; CommandError is raised if no row is usable, or if the unusable rows are more than
    _FEW_ROWS and more than the usable rows, not counting blank lines.
    """
    checked = Scan(file, encoding, dtype)
    words, skipped = checked.words, checked.skipped
    with file.open() as opened:
        for row in checked.rows(opened, bar):
            problem = row.problem or _add(checked, row, parse_text=parse_values or skip)
            if problem:
                if not skip:
                    position = f"{file.unit.capitalize()} {row.position}"
                    raise CommandError(f"{position} {problem}; {SKIP_HINT}.")
                skipped[row.position] = problem
        bar.reach(opened.done, len(words))
    if not words:
        vectors = "usable vectors: all rows were skipped" if skipped else "vectors"
        raise CommandError(f"The file has no {vectors}.")
    unusable = sum(problem != _EMPTY for problem in skipped.values())
    if unusable > max(len(words), _FEW_ROWS):
        place, why = next(iter(skipped.items()))
        raise CommandError(
            f"Most rows are unusable, {unusable:,} of {unusable + len(words):,}:"
            f" {file.unit} {place} {why}."
        )
    return checked


def _add(checked: Scan, row: Row, *, parse_text: bool) -> str | None:
    """Add a row to the scan; return why it is unusable, or None."""
    word = decoded(row.word, checked.encoding)
    if word is None:
        encoding = checked.encoding.upper()
        return f"has a word that is not {encoding} (--encoding names another encoding)"
    if "\n" in word:
        return "has a line feed in its word"
    if word in checked.words:
        return f"repeats the word of {checked.file.unit} {checked.words[word]}"
    values, limit, finite = row.values, OVERFLOW[checked.dtype], True
    if checked.file.format == "word2vec-binary":
        finite = float(np.abs(np.frombuffer(values, "<f4")).max()) < limit
        dimension = len(values) // 4
    else:
        if b"_" in values or not values.isascii():
            return _INVALID_NUMBER  # Python accepts `1_000` and digits of other scripts
        if parse_text:
            try:
                numbers = [float(value) for value in values.split(b" ")]
            except ValueError:
                return _INVALID_NUMBER
            finite = math.isfinite(sum(numbers)) and max(map(abs, numbers)) < limit
        dimension = values.count(b" ") + 1
    if not finite:
        return _NOT_FINITE.format(checked.dtype)
    checked.words[word] = row.position
    checked.dimension = checked.dimension or dimension
    return None


def decoded(word: bytes, encoding: str) -> str | None:
    """Return a word, None if it is not in the encoding or has a lone surrogate."""
    try:
        text = word.decode(encoding)
        text.encode()
    except UnicodeError:
        return None
    return text


def _header(file: Decompressed) -> tuple[int, int]:
    """Read the first line of a word2vec file: vocabulary size and dimension."""
    match = HEADER.fullmatch(file.line(MAX_WORD_BYTES))
    if not match:
        raise CommandError(
            "Line 1 is not a word2vec header. Expected two integers: vocabulary size and dimension."
        )
    count, dimension = int(match[1]), int(match[2])
    if count < 1:
        raise CommandError(f"Line 1 declares {count} words; there must be at least one.")
    _check_dimension(dimension)
    return count, dimension


def _check_dimension(dimension: int) -> None:
    if not 1 <= dimension <= MAX_DIMENSION:
        raise CommandError(
            f"Line 1 has vectors of dimension {dimension}; 1 to {MAX_DIMENSION} are supported."
        )


def _text_rows(file: Decompressed, limit: int | None, *, has_header: bool) -> Iterator[Row]:
    count, dimension = _header(file) if has_header else (None, None)
    rows = 0
    blank: list[int] = []
    for number in itertools.count(2 if has_header else 1):
        line = file.line(_MAX_LINE_BYTES)
        if not line:
            break
        if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise CommandError(f"Line {number} is longer than {_MAX_LINE_BYTES} bytes.")
        if rows == limit:
            return
        line = line.rstrip()  # as gensim does
        if not line:
            blank.append(number)
            continue
        while blank:  # A row follows, so these lines are not at the end, where they are allowed.
            yield Row(blank.pop(0), b"", b"", _EMPTY)
        if rows == count:
            raise CommandError(f"Line 1 declares {count} words, but line {number} has one more.")
        if dimension is None:
            dimension = line.count(b" ")
            _check_dimension(dimension)
        fields = line.rsplit(b" ", dimension)  # some words in GloVe's largest files contain spaces
        word, spaces = fields[0], line.count(b" ")
        if spaces < dimension or (spaces > dimension and any(map(is_number, word.split(b" ")[1:]))):
            verb = "declares" if has_header else "has"
            problem = f"has {spaces} values, but line 1 {verb} {dimension}"
            yield Row(number, b"", b"", problem)
        else:
            yield Row(number, word, b" ".join(fields[1:]), _word_problem(word))
        rows += 1
    if count is not None and rows < (count if limit is None else min(count, limit)):
        raise CommandError(f"Line 1 declares {count} words, but the file ends after {rows}.")


def _word_problem(word: bytes) -> str | None:
    if not word.strip():
        return "has no word"
    return f"has a word of more than {MAX_WORD_BYTES} bytes" if len(word) > MAX_WORD_BYTES else None


def _binary_rows(file: Decompressed, limit: int | None) -> Iterator[Row]:
    count, dimension = _header(file)
    size, buffer, at = 4 * dimension, b"", 0
    for number in range(count if limit is None else min(count, limit)):
        while (space := buffer.find(b" ", at, at + MAX_WORD_BYTES + 1)) < 0 or (
            len(buffer) < space + 1 + size
        ):
            if space < 0 and len(buffer) - at > MAX_WORD_BYTES:
                position = file.position - len(buffer) + at
                raise CommandError(
                    f"The word at byte {position} is longer than {MAX_WORD_BYTES} bytes."
                )
            block = file.read(_BLOCK)
            if not block:
                raise CommandError(
                    f"Line 1 declares {count} words, but the file ends at byte {file.position} in"
                    f" word {number + 1}."
                )
            buffer, at, space = buffer[at:] + block, 0, 0
        word = buffer[at:space].lstrip(b"\n")
        position, at = file.position - len(buffer) + space - len(word), space + 1 + size
        yield Row(position, word, buffer[space + 1 : at], _word_problem(word))
    if limit is None or count <= limit:
        rest = buffer[at:] + file.read(2)
        if rest.strip(b"\n"):
            position = file.position - len(rest)
            raise CommandError(
                f"Line 1 declares {count} words, but more data follows at byte {position}."
            )


def load(checked: Scan, bar: ProgressBar, dtype: str, processes: int) -> Rows:
    """Read the vectors of a scanned file with gensim, and store them as `dtype`. -> [V, d]

    `dtype` is `float32`, `float16` or `int8`. Raises CommandError if a value cannot be parsed or is
    not finite.
    """
    count, width, file = len(checked.words), checked.dimension, checked.file
    vectors = empty_rows(count, width, dtype)
    parallel = processes > 1 and count * width > _MIN_PARALLEL_VALUES
    start = 0
    with file.open() as opened:
        chunks = _chunks(checked, checked.rows(opened, bar))
        try:
            for rows in _load_in_processes(chunks, processes) if parallel else map(_load, chunks):
                end = start + len(rows)
                if end > count:
                    raise CommandError(CHANGED)
                with np.errstate(over="ignore"):
                    narrow: Floats = rows.astype(checked.dtype, copy=False)
                finite = np.isfinite(narrow).all(axis=1)
                if not finite.all():
                    places = itertools.islice(
                        checked.words.values(), start + int(finite.argmin()), None
                    )
                    raise CommandError(
                        f"{file.unit.capitalize()} {next(places)}"
                        f" {_NOT_FINITE.format(checked.dtype)}; {SKIP_HINT}."
                    )
                vectors[start:end] = narrow
                start = end
        except ValueError:
            # Scan again and parse each value, for the position of the one that gensim rejects.
            scan(file, bar, encoding=checked.encoding, dtype=checked.dtype, parse_values=True)
            raise CommandError("gensim cannot parse a number that Python can.") from None
        bar.reach(opened.size, start)
    if start != count:
        raise CommandError(CHANGED)
    return vectors


def _chunks(checked: Scan, rows: Iterator[Row]) -> Iterator[Chunk]:
    """Yield the rows as small word2vec files, with row numbers instead of the words."""
    binary = checked.file.format == "word2vec-binary"
    end = b"" if binary else b"\n"
    while chunk := list(itertools.islice(rows, max(_CHUNK_VALUES // checked.dimension, 1))):
        header = b"%d %d\n" % (len(chunk), checked.dimension)
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
