"""Export of a model's static vectors to the formats of other programs.

word2vec text (Mikolov's `word2vec.c`) has a line with the number of words and the dimension, then
a line per word with its values. TensorBoard's Embedding Projector reads a tab-separated file of
vectors and a file of labels.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson

from polyseme.atomic_files import atomic_files
from polyseme.models.model import Model


def export_word2vec(model: Model, file: Path, limit: int | None = None) -> int:
    """Write word2vec text; return the number of skipped words.

    The format cannot represent words that contain whitespace.
    """
    rows = _rows(model, limit, str.isspace)
    with atomic_files(file) as (out,):
        out.write(b"%d %d\n" % (len(rows), model.manifest.dimension))
        for word, values in _lines(model, rows, b" "):
            out.write(b"%s %s\n" % (word, values))
    return _count(model, limit) - len(rows)


def export_projector(model: Model, vectors: Path, metadata: Path, limit: int | None = None) -> int:
    """Write the Embedding Projector's two files; return the number of skipped words.

    The format cannot represent words that contain a line break or a tab.
    """
    # A word of the vocabulary cannot contain a line feed.
    rows = _rows(
        model, limit, lambda character: character in "\t\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
    )
    with atomic_files(vectors, metadata) as (vectors_out, words_out):
        for word, values in _lines(model, rows, b"\t"):
            vectors_out.write(b"%s\n" % values)
            words_out.write(b"%s\n" % word)
    return _count(model, limit) - len(rows)


def _count(model: Model, limit: int | None) -> int:
    size = model.manifest.vocabulary_size
    return size if limit is None else min(size, limit)


def _rows(model: Model, limit: int | None, is_separator: Callable[[str], bool]) -> list[int]:
    """Return the rows of the words without a separator of the format."""
    words = map(model.vocabulary.word, range(_count(model, limit)))
    return [row for row, word in enumerate(words) if not any(map(is_separator, word))]


def _lines(model: Model, rows: list[int], separator: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each word and its values, in the shortest decimal form that round-trips to float32."""
    for row in rows:
        vector = np.ascontiguousarray(model.rows[row], np.float32)
        values = orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY)
        yield model.vocabulary.word(row).encode(), values[1:-1].replace(b",", separator)
