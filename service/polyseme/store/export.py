"""A model's static vectors in formats that other programs read.

word2vec text (Mikolov's `word2vec.c`): a line with the number of words and of numbers, then a word
and its numbers in each. TensorBoard's Embedding Projector: a file of vectors and a file of labels,
their columns parted by tabs.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson

from polyseme.atomic_files import atomic_files
from polyseme.store.model import Model

_NUMPY = orjson.OPT_SERIALIZE_NUMPY


def export_word2vec(model: Model, file: Path, limit: int | None = None) -> int:
    """Write word2vec text; return how many words were left out.

    A word with white space in it has no place in the format.
    """
    rows = _rows(model, limit, str.isspace)
    with atomic_files(file) as (out,):
        out.write(b"%d %d\n" % (len(rows), model.manifest.dimension))
        for word, numbers in _lines(model, rows, b" "):
            out.write(b"%s %s\n" % (word, numbers))
    return _size(model, limit) - len(rows)


def export_projector(model: Model, vectors: Path, metadata: Path, limit: int | None = None) -> int:
    """Write the Embedding Projector's two files; return how many words were left out.

    A word with a line break or a tab in it has no place in the format.
    """
    rows = _rows(model, limit, lambda letter: letter in "\t\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
    with atomic_files(vectors, metadata) as (numbers_out, words_out):
        for word, numbers in _lines(model, rows, b"\t"):
            numbers_out.write(b"%s\n" % numbers)
            words_out.write(b"%s\n" % word)
    return _size(model, limit) - len(rows)


def _size(model: Model, limit: int | None) -> int:
    size = model.manifest.vocabulary_size
    return size if limit is None else min(size, limit)


def _rows(model: Model, limit: int | None, breaks: Callable[[str], bool]) -> list[int]:
    """The rows whose words have no letter that would break the format."""
    words = map(model.vocabulary.word, range(_size(model, limit)))
    return [row for row, word in enumerate(words) if not any(map(breaks, word))]


def _lines(model: Model, rows: list[int], separator: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield words and their numbers, each number in the fewest digits that give it back."""
    for row in rows:
        vector = np.asarray(model.rows[row], np.float32)
        numbers = orjson.dumps(np.ascontiguousarray(vector), option=_NUMPY)
        yield model.vocabulary.word(row).encode(), numbers[1:-1].replace(b",", separator)
