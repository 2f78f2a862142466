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

from polyseme.engine.subwords import Subwords
from polyseme.importing.compression import Plain, open_plain
from polyseme.importing.formats import FASTTEXT_MAGIC
from polyseme.importing.progress import Bar
from polyseme.importing.refusal import SKIP_HINT, VectorFileError
from polyseme.importing.rows import LONGEST_WORD, WIDEST

_BLOCK = 1 << 20
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
        while (end := self._buffer.find(b"\0", self._at, self._at + LONGEST_WORD + 1)) < 0:
            if len(self._buffer) - self._at > LONGEST_WORD:
                self.refuse(f"has no end of a word within {LONGEST_WORD} bytes")
            self._more()
        word = self._buffer[self._at : end]
        self._at = end + 1
        return word

    def pass_over(self, count: int) -> None:
        """Take bytes that nobody wants."""
        for left in range(count, 0, -_BLOCK):
            self.take(min(left, _BLOCK))

    @property
    def ended(self) -> bool:
        """Whether nothing comes next."""
        if self._at == len(self._buffer):
            self._buffer, self._at = self._plain.read(1), 0
        return not self._buffer

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
    """Follow a file to its end; raise VectorFileError where it goes wrong.

    `skip` leaves out words that cannot be used.
    """
    walk = _Walk(plain, bar)
    header = _header(walk)
    left_out = _words(walk, header.words, encoding, skip=skip)
    _vectors(walk, header)
    _output(walk, header)
    return Walked(header, left_out)


def _vectors(walk: _Walk, header: Header) -> None:
    if header.new and (header.pruned > 0 or any(walk.take(1))):
        walk.refuse("is quantised (.ftz; import the .bin it was made from)")
    rows, width = walk.numbers("qq")
    if (rows, width) != (header.words + header.bucket, header.dim):
        walk.refuse(f"has {rows} vectors of {width} numbers where its header says otherwise")
    for row in range(rows):
        numbers = np.frombuffer(walk.take(4 * width), "<f4")
        if not np.isfinite(numbers).all():
            walk.refuse(f"has a number that is not finite in vector {row}")


def _output(walk: _Walk, header: Header) -> None:
    """Pass over what only training needs; a file that was cut off may be cut off there."""
    if header.new:
        walk.take(1)
    rows, width = walk.numbers("qq")
    if rows < 0 or width < 0:
        walk.refuse("has a second table of no size")
    walk.pass_over(4 * rows * width)
    if not walk.ended:
        walk.refuse("goes on after its last table")


def _header(walk: _Walk) -> Header:
    first, second = walk.numbers("ii")
    new = struct.pack("<i", first) == FASTTEXT_MAGIC
    if new and not 1 <= second <= _NEWEST:
        walk.refuse(f"has version {second} where up to {_NEWEST} can be read", 4)
    dim = walk.numbers("ii")[0] if new else first
    _, _, _, _, _, model, bucket, min_n, max_n, _ = walk.numbers("10i")
    (sample,) = walk.numbers("d")
    entries, words, labels, _ = walk.numbers("iiiq")
    pruned = walk.numbers("q")[0] if new else 0
    if model == _SUPERVISED or labels:
        walk.refuse("is a classifier, not a model of words")
    good = 1 <= dim <= WIDEST and 1 <= words <= _MOST_WORDS and entries == words
    # `-maxn 0` leaves the shortest length at 3: no n-gram is as long as that.
    grams = 0 <= min_n <= _LONGEST_GRAM and 0 <= max_n <= _LONGEST_GRAM
    buckets = 0 <= bucket <= (_MOST_BUCKETS if min_n <= max_n else 0)
    if not (good and grams and buckets and 0 <= sample <= _MOST_WORDS):
        walk.refuse("has a header that makes no sense")
    return Header(new, dim, bucket, min_n, max_n, words, pruned)


def _words(walk: _Walk, count: int, encoding: str, *, skip: bool) -> set[int]:
    """Follow the words; return the numbers of those that cannot be used."""
    seen: set[str] = set()
    left_out = set()
    for number in range(count):
        place, word = walk.place, walk.word()
        times, kind = walk.numbers("qb")
        if kind:
            walk.refuse("has a label among its words", place)
        if times < 1:
            walk.refuse(f"says that a word was seen {times} times", place)
        text = word.decode(encoding, "backslashreplace")  # as gensim does where it has to
        if text in seen:
            walk.refuse("has a word twice", place)
        seen.add(text)
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
        text.encode()
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


_STUMBLES = (
    *(ArithmeticError, AssertionError, EOFError, LookupError, NotImplementedError, TypeError),
    *(ValueError, struct.error),
)
"""What gensim raises over a file that it does not understand."""


def read(file: int, walked: Walked, encoding: str) -> FastText:
    """Have gensim read a file that was walked through, by the number it is open under."""
    from gensim.models.fasttext import load_facebook_vectors  # noqa: PLC0415 - for importing alone

    try:
        with np.errstate(all="ignore"):  # what is not finite is looked for
            read = load_facebook_vectors(file, encoding=encoding)
    except _STUMBLES:
        raise VectorFileError("gensim cannot read the fastText file.") from None
    subwords, header = None, walked.header
    shortest = max(header.min_n, 1)
    if header.bucket and shortest <= header.max_n:
        subwords = Subwords(read.vectors_ngrams, shortest, header.max_n)
    kept = np.setdiff1d(np.arange(header.words), list(walked.left_out))
    words = [read.index_to_key[row] for row in kept]
    vectors = read.vectors if len(kept) == header.words else read.vectors[kept]
    return FastText(words, vectors, read.expandos["count"][kept], subwords)


@contextmanager
def expanded(path: Path, member: str | None, bar: Bar) -> Iterator[int]:
    """A file without its compression, by its number, for as long as gensim reads it.

    NumPy needs a real file. This one has no name, so that nothing is left of it, however this ends;
    and gensim, which would take a name's ending for a compression, sees none.
    """
    with open_plain(path, member) as plain:
        if plain.stream is plain.raw:
            with path.open("rb") as file:
                yield file.fileno()
            return
        with tempfile.TemporaryFile() as file:
            while block := plain.read(_BLOCK):
                file.write(block)
                bar.reach(plain.done)
            file.seek(0)
            yield file.fileno()
