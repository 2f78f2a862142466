"""fastText's own `.bin`: walked through and checked, then read by gensim.

gensim's reader trusts the file (it waits for ever for the end of a word that is cut off), so each
length is followed first. The format is that of fastText's `FastText::saveModel`.
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

from service.engine.subwords import Subwords
from service.importing.compression import Plain, open_plain
from service.importing.formats import FASTTEXT_MAGIC
from service.importing.progress import Bar
from service.importing.refusal import SKIP_HINT, VectorFileError
from service.importing.rows import WIDEST

_BLOCK = 1 << 20
_LONGEST_WORD = 4096
_MOST_WORDS = 100_000_000
_MOST_BUCKETS = 1 << 30
_LONGEST_GRAM = 64
_SUPERVISED, _NEWEST = 3, 12


@dataclass(frozen=True)
class Header:
    """What a file says of itself before its words."""

    new: bool
    """it has a version, and says whether it is quantised"""
    dim: int
    bucket: int
    min_n: int
    max_n: int
    words: int
    pruned: int


@dataclass(frozen=True)
class Walked:
    """What a file was found to have."""

    header: Header
    left_out: set[int]
    """the words, by number, that cannot be used"""


class _Walk:
    """Takes a file apart in order, knowing at which byte it is."""

    def __init__(self, plain: Plain, bar: Bar) -> None:
        self._plain, self._bar, self._buffer, self._at = plain, bar, b"", 0

    @property
    def place(self) -> int:
        """The byte that comes next."""
        return self._plain.given - len(self._buffer) + self._at

    def take(self, count: int) -> bytes:
        """Take some bytes; refuse the file where it ends before."""
        while len(self._buffer) - self._at < count:
            self._more()
        self._at += count
        return self._buffer[self._at - count : self._at]

    def numbers(self, kinds: str) -> tuple[int, ...]:
        """Take little-endian numbers, as `struct` names them."""
        layout = struct.Struct(f"<{kinds}")
        return layout.unpack(self.take(layout.size))

    def word(self) -> bytes:
        """Take what stands before the next zero byte, and that byte."""
        while (end := self._buffer.find(b"\0", self._at)) < 0:
            if len(self._buffer) - self._at > _LONGEST_WORD:
                self.refuse(f"has no end of a word within {_LONGEST_WORD} bytes")
            self._more()
        word = self._buffer[self._at : end]
        self._at = end + 1
        return word

    def refuse(self, why: str, place: int | None = None) -> NoReturn:
        """Refuse the file."""
        at = self.place if place is None else place
        raise VectorFileError(f"At byte {at} the fastText file {why}.")

    def _more(self) -> None:
        more = self._plain.read(_BLOCK)
        if not more:
            raise VectorFileError(f"The fastText file ends too early, at byte {self._plain.given}.")
        self._buffer, self._at = self._buffer[self._at :] + more, 0
        self._bar.reach(self._plain.done)


def walk(plain: Plain, bar: Bar, encoding: str, *, skip: bool = False) -> Walked:
    """Follow a file to the end of its vectors; raise VectorFileError where it goes wrong.

    `skip` leaves out words that cannot be used.
    """
    walk = _Walk(plain, bar)
    header = _header(walk)
    left_out = _words(walk, header.words, encoding, skip=skip)
    if header.new and (header.pruned > 0 or any(walk.take(1))):
        walk.refuse("is quantised (.ftz; import the .bin it was made from)")
    rows, width = walk.numbers("qq")
    if (rows, width) != (header.words + header.bucket, header.dim):
        walk.refuse(f"has {rows} vectors of {width} numbers where its header says otherwise")
    for row in range(rows):
        numbers = np.frombuffer(walk.take(4 * width), "<f4")
        if not np.isfinite(numbers).all():
            walk.refuse(f"has a number that is not finite in vector {row}")
    return Walked(header, left_out)


def _header(walk: _Walk) -> Header:
    first, second = walk.numbers("ii")
    new = struct.pack("<i", first) == FASTTEXT_MAGIC
    if new and second > _NEWEST:
        walk.refuse(f"has version {second} where up to {_NEWEST} can be read", 4)
    dim = walk.numbers("ii")[0] if new else first
    _, _, _, _, _, model, bucket, min_n, max_n, _ = walk.numbers("10i")
    walk.numbers("d")
    entries, words, labels, _ = walk.numbers("iiiq")
    pruned = walk.numbers("q")[0] if new else 0
    if model == _SUPERVISED or labels:
        walk.refuse("is a classifier, not a model of words")
    good = 1 <= dim <= WIDEST and 1 <= words <= _MOST_WORDS and entries == words
    grams = 0 <= min_n <= max_n <= _LONGEST_GRAM and 0 <= bucket <= _MOST_BUCKETS
    if not (good and grams):
        walk.refuse("has a header that makes no sense")
    return Header(new, dim, bucket, min_n, max_n, words, pruned)


def _words(walk: _Walk, count: int, encoding: str, *, skip: bool) -> set[int]:
    """Follow the words; return the numbers of those that cannot be used."""
    seen: set[bytes] = set()
    left_out = set()
    for number in range(count):
        place, word = walk.place, walk.word()
        _, kind = walk.numbers("qb")
        if kind:
            walk.refuse("has a label among its words", place)
        if word in seen:
            walk.refuse("has a word twice", place)
        seen.add(word)
        problem = _problem(word, encoding)
        if problem and not skip:
            walk.refuse(f"has a word that {problem}; {SKIP_HINT}", place)
        if problem:
            left_out.add(number)
    if len(left_out) == count:
        walk.refuse("has no word that can be used")
    return left_out


def _problem(word: bytes, encoding: str) -> str | None:
    """Why a word cannot be used."""
    if not word.strip():
        return "is empty"
    try:
        text = word.decode(encoding)
    except UnicodeError:
        return f"is not {encoding.upper()}"
    return "has a line feed" if "\n" in text else None


@dataclass(frozen=True)
class FastText:
    """What a `.bin` holds."""

    words: list[str]
    vectors: NDArray[np.float32]
    """[V, d], each composed of the word's own vector and those of its n-grams"""
    counts: NDArray[np.int64]
    """[V], how often each word was seen"""
    subwords: Subwords | None


def read(path: Path, walked: Walked, encoding: str) -> FastText:
    """Have gensim read a file that was walked through."""
    from gensim.models.fasttext import load_facebook_vectors  # noqa: PLC0415 - for importing alone

    try:
        read = load_facebook_vectors(str(path), encoding=encoding)
    except (ValueError, AssertionError, NotImplementedError, struct.error, EOFError):
        raise VectorFileError("gensim cannot read the fastText file.") from None
    subwords, header = None, walked.header
    if header.bucket and header.max_n:
        subwords = Subwords(read.vectors_ngrams, max(header.min_n, 1), header.max_n)
    kept = np.setdiff1d(np.arange(header.words), list(walked.left_out))
    words = [read.index_to_key[row] for row in kept]
    vectors = read.vectors if len(kept) == header.words else read.vectors[kept]
    return FastText(words, vectors, read.expandos["count"][kept], subwords)


@contextmanager
def expanded(path: Path, member: str | None, bar: Bar) -> Iterator[Path]:
    """A file without its compression, for as long as gensim reads it: NumPy needs a real file."""
    with open_plain(path, member) as plain:
        if plain.stream is plain.raw:
            yield path
            return
        with tempfile.NamedTemporaryFile(prefix="polyseme-", suffix=".bin") as file:
            while block := plain.read(_BLOCK):
                file.write(block)
                bar.reach(plain.done)
            file.flush()
            yield Path(file.name)
