"""Validate fastText's `.bin` files, then read them with gensim.

gensim's reader does not validate: it loops forever on a truncated word. The format is that of
fastText's `FastText::saveModel`.
"""

import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.subwords import Subwords
from polyseme.errors import CommandError
from polyseme.importing.formats import FASTTEXT_MAGIC, Decompressed, open_decompressed
from polyseme.importing.rows import MAX_DIMENSION, MAX_WORD_BYTES, SKIP_HINT, decoded
from polyseme.progress import ProgressBar

_BLOCK = 1 << 20
_MAX_WORDS = 100_000_000
_MAX_BUCKETS = 1 << 30
_MAX_NGRAM = 64
_SUPERVISED, _MAX_VERSION = 3, 12
_GENSIM_ERRORS = (AssertionError, NotImplementedError, ValueError, struct.error)
"""Errors that gensim raises for an invalid file, such as one that was changed after the check."""


@dataclass(frozen=True)
class Header:
    """The header of a file."""

    new: bool
    """whether the file has a version and a flag for quantization"""
    dim: int
    bucket: int
    min_n: int
    max_n: int
    words: int
    pruned: int


class _Parser:
    """A reader of consecutive values that tracks the byte offset."""

    def __init__(self, file: Decompressed, bar: ProgressBar) -> None:
        self._file, self._bar, self._buffer, self._at = file, bar, b"", 0

    @property
    def position(self) -> int:
        return self._file.position - len(self._buffer) + self._at

    @property
    def ended(self) -> bool:
        if self._at == len(self._buffer):
            self._buffer, self._at = self._file.read(1), 0
        return not self._buffer

    def take(self, count: int) -> bytes:
        """Read `count` bytes; raise CommandError if the file has fewer."""
        while len(self._buffer) - self._at < count:
            self._fill()
        self._at += count
        return self._buffer[self._at - count : self._at]

    def numbers(self, codes: str) -> tuple[int, ...]:
        """Read little-endian numbers; `codes` are format characters of `struct`."""
        layout = struct.Struct(f"<{codes}")
        return layout.unpack(self.take(layout.size))

    def word(self) -> bytes:
        """Read a zero-terminated word."""
        while (end := self._buffer.find(b"\0", self._at, self._at + MAX_WORD_BYTES + 1)) < 0:
            if len(self._buffer) - self._at > MAX_WORD_BYTES:
                self.fail(f"has a word longer than {MAX_WORD_BYTES} bytes")
            self._fill()
        word = self._buffer[self._at : end]
        self._at = end + 1
        return word

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        offset = self.position if position is None else position
        raise CommandError(f"At byte {offset} the fastText file {problem}.")

    def _fill(self) -> None:
        block = self._file.read(_BLOCK)
        if not block:
            raise CommandError(f"The fastText file ends too early, at byte {self._file.position}.")
        self._buffer, self._at = self._buffer[self._at :] + block, 0
        self._bar.reach(self._file.done)


def check(
    file: Decompressed, bar: ProgressBar, encoding: str, *, skip: bool = False
) -> tuple[Header, set[int]]:
    """Parse a file to its end without storing its vectors; raise CommandError if it is invalid.

    Returns the header and the indices of the unusable words. Without `skip`, these raise.
    """
    parser = _Parser(file, bar)
    header = _header(parser)
    skipped = _check_words(parser, header.words, encoding, skip=skip)
    if header.new and (header.pruned > 0 or any(parser.take(1))):
        parser.fail("is quantized (.ftz); import the original .bin")
    rows, width = parser.numbers("qq")
    if (rows, width) != (header.words + header.bucket, header.dim):
        parser.fail(f"has {rows} vectors of dimension {width}, unlike its header")
    for row in range(rows):
        if not np.isfinite(np.frombuffer(parser.take(4 * width), "<f4")).all():
            parser.fail(f"has a value that is not finite in vector {row}")
    # Only training needs the second table, but a truncated file may end within it.
    if header.new:
        parser.take(1)
    rows, width = parser.numbers("qq")
    if rows < 0 or width < 0:
        parser.fail("has a second table of invalid size")
    for left in range(4 * rows * width, 0, -_BLOCK):
        parser.take(min(left, _BLOCK))
    if not parser.ended:
        parser.fail("continues after its last table")
    return header, skipped


def _header(parser: _Parser) -> Header:
    """Parse the header and check its values."""
    first, second = parser.numbers("ii")
    begin = struct.pack("<ii", first, second)
    if begin.isascii() and begin.decode().replace("\n", " ").isprintable():
        parser.fail("begins with text, which no fastText .bin does", 0)
    new = struct.pack("<i", first) == FASTTEXT_MAGIC
    if new and not 1 <= second <= _MAX_VERSION:
        parser.fail(f"has version {second}; only versions up to {_MAX_VERSION} are supported", 4)
    dim = parser.numbers("ii")[0] if new else first
    _, _, _, _, _, model, bucket, min_n, max_n, _ = parser.numbers("10i")
    (sample,) = parser.numbers("d")
    entries, words, labels, _ = parser.numbers("iiiq")
    pruned = parser.numbers("q")[0] if new else 0
    if model == _SUPERVISED or labels:
        parser.fail("is a classifier, not a model of words")
    sizes_valid = 1 <= dim <= MAX_DIMENSION and 1 <= words <= _MAX_WORDS and entries == words
    # With `-maxn 0` the minimum keeps its default of 3, and the file has no n-grams.
    ngrams_valid = 0 <= min_n <= _MAX_NGRAM and 0 <= max_n <= _MAX_NGRAM
    buckets_valid = 0 <= bucket <= (_MAX_BUCKETS if min_n <= max_n else 0)
    if not (sizes_valid and ngrams_valid and buckets_valid and 0 <= sample <= _MAX_WORDS):
        parser.fail("has an invalid header")
    return Header(new, dim, bucket, min_n, max_n, words, pruned)


def _check_words(parser: _Parser, count: int, encoding: str, *, skip: bool) -> set[int]:
    """Parse the words; return the indices of the unusable ones."""
    seen: set[str] = set()
    skipped = set()
    for number in range(count):
        position, word = parser.position, parser.word()
        occurrences, entry_type = parser.numbers("qb")
        if entry_type:
            parser.fail("has a label among its words", position)
        if occurrences < 1:
            parser.fail(f"has a word with the count {occurrences}", position)
        text = word.decode(encoding, "backslashreplace")  # as gensim does
        if text in seen:
            parser.fail("has a word twice", position)
        seen.add(text)
        problem = None
        if not word.strip():
            problem = "is empty"
        elif decoded(word, encoding) is None:
            problem = f"is not {encoding.upper()}"
        elif "\n" in text:
            problem = "has a line feed"
        if problem and not skip:
            parser.fail(f"has a word that {problem}; {SKIP_HINT}", position)
        if problem:
            skipped.add(number)
    if len(skipped) == count:
        parser.fail("has no usable word")
    return skipped


@contextmanager
def open_descriptor(path: Path, member: str | None, bar: ProgressBar) -> Iterator[int]:
    """Open the decompressed file and yield its file descriptor.

    NumPy needs a regular file. The temporary file of a compressed one has no name: it disappears
    when the process ends, and gensim cannot infer a compression from a suffix.
    """
    with open_decompressed(path, member) as file:
        if file.stream is file.raw:
            with path.open("rb") as plain:
                yield plain.fileno()
            return
        with tempfile.TemporaryFile() as copy:
            while block := file.read(_BLOCK):
                copy.write(block)
                bar.reach(file.done)
            copy.seek(0)
            yield copy.fileno()


def read(
    descriptor: int, header: Header, skipped: set[int], encoding: str
) -> tuple[list[str], NDArray[np.float32], NDArray[np.int64], Subwords | None]:
    """Read a checked file with gensim: the words, vectors [V, d], counts [V] and subwords.

    Each vector is the mean of the word's own vector and those of its n-grams.
    """
    from gensim.models.fasttext import load_facebook_vectors

    try:
        with np.errstate(all="ignore"):  # the importer checks for non-finite numbers
            loaded = load_facebook_vectors(descriptor, encoding=encoding)
    except _GENSIM_ERRORS:
        raise CommandError("gensim cannot read the fastText file.") from None
    subwords = None
    shortest = max(header.min_n, 1)
    if header.bucket and shortest <= header.max_n:
        subwords = Subwords(loaded.vectors_ngrams, shortest, header.max_n)
    kept = np.setdiff1d(np.arange(header.words), list(skipped))
    words = [loaded.index_to_key[row] for row in kept]
    vectors = loaded.vectors if len(kept) == header.words else loaded.vectors[kept]
    return words, vectors, loaded.expandos["count"][kept], subwords
