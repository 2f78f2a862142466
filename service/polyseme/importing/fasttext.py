"""fastText's `.bin` files, as `FastText::saveModel` writes them.

The vector of a word is the mean of its own vector and those of its n-grams. They are summed in
gensim's order, so the bits are gensim's.
"""

import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.subwords import Subwords, ngram_hashes
from polyseme.importing import ImportProblem
from polyseme.importing.files import Decompressed
from polyseme.importing.readers import (
    BATCH_VALUES,
    BLOCK,
    MAX_WORD_BYTES,
    REPEATED,
    Reader,
    VectorTable,
    convert,
)
from polyseme.models.manifest import MAX_WIDTH
from polyseme.terminal import ProgressBar

_MAGIC = struct.pack("<i", 793712314)
_OLD_FIELDS = struct.Struct("<12i")
"""dim, ws, epoch, minCount, neg, wordNgrams, loss, model, bucket, minn, maxn, lrUpdateRate"""
_MAX_WORDS, _MAX_BUCKETS, _MAX_NGRAM = 100_000_000, 1 << 30, 64
_SUPERVISED, _MAX_VERSION = 3, 12


class _Header(NamedTuple):
    new: bool
    """whether the file has a version and a flag for quantization"""
    dimension: int
    buckets: int
    min_n: int
    max_n: int
    words: int
    pruned: int


class FastTextReader(Reader):
    """A reader of a fastText `.bin`."""

    unit = "byte"

    @classmethod
    def recognizes(cls, head: bytes, _: bytes) -> bool:
        """Return whether there is a magic number or, before 2017, the fields of a header."""
        if head.startswith(_MAGIC) or len(head) < _OLD_FIELDS.size:
            return head.startswith(_MAGIC)
        dim, ws, _, _, neg, _, loss, model, bucket, min_n, max_n, _ = _OLD_FIELDS.unpack_from(head)
        sizes = 0 < dim <= 1 << 16 and 0 < ws < 1000 and 0 <= neg < 1000 and 0 <= bucket < 1 << 30
        kinds = 1 <= loss <= 4 and 1 <= model <= 3
        return bool(sizes and kinds and 0 <= min_n <= 100 and 0 <= max_n <= 100)

    def read(self, bar: ProgressBar) -> VectorTable:
        """Check the header and the words, and read the vectors of words and of n-grams."""
        with self.file.open() as file:
            stream = _Stream(file, bar)
            header = _read_header(stream)
            words: dict[str, None] = {}
            counts, usable, skipped = array("q"), bytearray(), array("q")
            for _ in range(header.words):
                position, raw = stream.position, stream.word()
                count, label = stream.unpack("qb")
                if label:
                    stream.fail("has a label among its words", position)
                if count < 1:
                    stream.fail(f"has a word with the count {count}", position)
                word, problem = self.decode(raw)
                problem = problem or (REPEATED if word in words else "")
                if problem and not self.options.skip:
                    raise self.fail(position, problem)
                usable.append(not problem and len(words) < (self.options.limit or header.words))
                if usable[-1]:
                    words[word] = None
                    counts.append(count)
                elif problem:
                    skipped.append(position)
            if header.new and (header.pruned > 0 or any(stream.take(1))):
                stream.fail("is quantized (.ftz); import the original .bin")
            if not words:
                stream.fail("has no usable word")
            shape = stream.unpack("qq")
            if shape != (header.words + header.buckets, header.dimension):
                stream.fail(f"has {shape[0]} vectors of dimension {shape[1]}, unlike its header")
            vectors = np.empty((len(words), header.dimension), np.float32)
            ngrams = np.empty((header.buckets, header.dimension), np.float32)
            stream.read_rows(vectors, np.frombuffer(usable, np.bool_))
            stream.read_rows(ngrams, np.ones(header.buckets, np.bool_), header.words)
            # Only training needs the second table, but a truncated file may end within it.
            if header.new:
                stream.take(1)
            count, width = stream.unpack("qq")
            if count < 0 or width < 0:
                stream.fail("has a second table of invalid size")
            for rest in range(4 * count * width, 0, -BLOCK):
                stream.take(min(rest, BLOCK))
            if not stream.ended:
                stream.fail("continues after its last table")
        shortest, subwords, dtype = max(header.min_n, 1), None, self.options.dtype
        if header.buckets and shortest <= header.max_n:
            _add_ngrams(vectors, [*words], Subwords(ngrams, shortest, header.max_n))
            subwords = Subwords(convert(ngrams, dtype), shortest, header.max_n)
        of_words = np.array(counts, np.int64)
        return VectorTable([*words], convert(vectors, dtype), of_words, subwords, skipped)


def _add_ngrams(vectors: NDArray[np.float32], words: Sequence[str], subwords: Subwords) -> None:
    """Replace the own vector of each word by its mean with those of its n-grams. [V, d]"""
    ngrams = np.asarray(subwords.table)
    count = max(BATCH_VALUES // ngrams.shape[1], 1)
    for start in range(0, len(words), count):
        some = vectors[start : start + count]
        lengths = subwords.min_n, subwords.max_n
        hashes = ngram_hashes(words[start : start + count], *lengths, by_start=True)
        counts = np.array([len(one) for one in hashes])
        rows = np.concatenate(hashes).astype(np.int64) % len(ngrams)
        firsts = np.cumsum(counts) - counts
        with np.errstate(all="ignore"):  # `convert` rejects values that are not finite
            for i in range(counts.max(initial=0)):
                indices = np.flatnonzero(counts > i)
                some[indices] += ngrams[rows[firsts[indices] + i]]
            some /= (counts + 1).astype(np.float32)[:, None]


def _read_header(stream: "_Stream") -> _Header:
    """Read the header, and check its values."""
    first, second = stream.unpack("ii")
    begin = struct.pack("<ii", first, second)
    if begin.isascii() and begin.decode().replace("\n", " ").isprintable():
        stream.fail("begins with text, which no fastText .bin does", 0)
    new = struct.pack("<i", first) == _MAGIC
    if new and not 1 <= second <= _MAX_VERSION:
        stream.fail(f"has version {second}; only versions up to {_MAX_VERSION} are supported", 4)
    dimension = stream.unpack("ii")[0] if new else first
    _, _, _, _, _, model, buckets, min_n, max_n, _ = stream.unpack("10i")
    (sample,) = stream.unpack("d")
    entries, words, labels, _ = stream.unpack("iiiq")
    pruned = stream.unpack("q")[0] if new else 0
    if model == _SUPERVISED or labels:
        stream.fail("is a classifier, not a model of words")
    sizes_valid = 1 <= dimension <= MAX_WIDTH and 1 <= words <= _MAX_WORDS and entries == words
    # With `-maxn 0` the minimum keeps its default of 3, and the file has no n-grams.
    ngrams_valid = 0 <= min_n <= _MAX_NGRAM and 0 <= max_n <= _MAX_NGRAM
    buckets_valid = 0 <= buckets <= (_MAX_BUCKETS if min_n <= max_n else 0)
    if not (sizes_valid and ngrams_valid and buckets_valid and 0 <= sample <= _MAX_WORDS):
        stream.fail("has an invalid header")
    return _Header(new, dimension, buckets, min_n, max_n, words, pruned)


class _Stream:
    """Consecutive values of a file, and their offset."""

    def __init__(self, file: Decompressed, bar: ProgressBar) -> None:
        self._file, self._bar, self._buffer, self._start = file, bar, b"", 0

    @property
    def position(self) -> int:
        return self._file.position - len(self._buffer) + self._start

    @property
    def ended(self) -> bool:
        return self._start == len(self._buffer) and not self._file.read(1)

    def take(self, count: int) -> bytes:
        """Read bytes; raise ImportProblem if the file has fewer."""
        while len(self._buffer) - self._start < count:
            self._fill()
        self._start += count
        return self._buffer[self._start - count : self._start]

    def unpack(self, codes: str) -> tuple[int, ...]:
        """Read little-endian numbers; `codes` are format characters of `struct`."""
        layout = struct.Struct(f"<{codes}")
        return layout.unpack(self.take(layout.size))

    def word(self) -> bytes:
        """Read a zero-terminated word."""
        while (end := self._buffer.find(b"\0", self._start, self._start + MAX_WORD_BYTES + 1)) < 0:
            if len(self._buffer) - self._start > MAX_WORD_BYTES:
                self.fail(f"has a word longer than {MAX_WORD_BYTES} bytes")
            self._fill()
        word = self._buffer[self._start : end]
        self._start = end + 1
        return word

    def read_rows(
        self, table: NDArray[np.float32], mask: NDArray[np.bool_], offset: int = 0
    ) -> None:
        """Read as many vectors as `mask` has elements, and store those that it selects. [V, d]"""
        width, end = table.shape[1], 0
        count = max(BATCH_VALUES // width, 1)
        for start in range(0, len(mask), count):
            some = mask[start : start + count]
            position = self.position
            rows = np.frombuffer(self.take(4 * width * len(some)), "<f4").reshape(-1, width)
            finite = np.isfinite(rows).all(axis=1)
            if not finite.all():
                i = int(finite.argmin())
                problem = f"has a value that is not finite in vector {offset + start + i}"
                self.fail(problem, position + 4 * width * i)
            table[end : end + some.sum()] = rows[some]
            end += some.sum()

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        offset = self.position if position is None else position
        raise ImportProblem(f"At byte {offset} the fastText file {problem}.")

    def _fill(self) -> None:
        block = self._file.read(BLOCK)
        if not block:
            raise ImportProblem(f"The fastText file ends too early, at byte {self._file.position}.")
        self._buffer, self._start = self._buffer[self._start :] + block, 0
        self._bar.reach(self._file.done)
