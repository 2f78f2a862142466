"""Vectors in memory: gensim's, a mapping of words to arrays, or words and a matrix."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polyseme.engine import Floats
from polyseme.engine.subwords import Subwords
from polyseme.importing.importer import write_table
from polyseme.importing.options import ImportOptions
from polyseme.importing.readers.base import MAX_WORD_BYTES, VectorTable, convert
from polyseme.models.manifest import MAX_WIDTH
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.progress import SILENT, Progress


def model_of_vectors(
    vectors: Any,
    words: Iterable[str] | None,
    options: ImportOptions,
    name: str,
    progress: Progress = SILENT,
) -> Model:
    """Return the model that an import of the same vectors gives.

    Its arrays are mapped from files that have no name any more. Raises TypeError or ValueError for
    invalid words or vectors, ImportProblem or ModelFolderError for invalid options.
    """
    table = table_of(vectors, words, options)
    with TemporaryDirectory(prefix="polyseme-") as folder:
        path = Path(folder) / name
        write_table(table, path, options, progress)
        return read_model(path)


def table_of(vectors: Any, words: Iterable[str] | None, options: ImportOptions) -> VectorTable:
    """Return the words and vectors of an object of any supported type."""
    subwords, counts = None, None
    if words is None and hasattr(vectors, "index_to_key"):
        words, rows = vectors.index_to_key, vectors.vectors
        counts = getattr(vectors, "expandos", {}).get("count")
        if counts is not None:
            counts = np.asarray(counts, np.int64)
            # For a file without counts, gensim counts down from the number of words.
            if np.array_equal(counts, np.arange(len(counts), 0, -1)) or counts.min() < 1:
                counts = None
        if hasattr(vectors, "vectors_ngrams") and vectors.min_n <= vectors.max_n:
            ngrams = convert(_matrix(vectors.vectors_ngrams), options.dtype)
            subwords = Subwords(ngrams, max(vectors.min_n, 1), vectors.max_n)
    elif words is None and isinstance(vectors, Mapping):
        words, rows = list(vectors), list(vectors.values())
    elif words is None:
        raise TypeError(
            "vectors must be gensim's KeyedVectors, or a mapping of words to vectors; give a matrix"
            " together with words."
        )
    else:
        rows = vectors
    valid = _valid(words)[: options.limit]
    matrix = _matrix(rows)
    if options.limit is None and len(valid) != len(matrix):
        raise ValueError(f"{len(matrix)} vectors need as many words, not {len(valid)}.")
    matrix = matrix[: options.limit]
    counts = None if counts is None else counts[: options.limit]
    return VectorTable(valid, convert(matrix, options.dtype), counts, subwords=subwords)


def _valid(words: Iterable[str]) -> list[str]:
    """Return the words; raise TypeError or ValueError for those that no model can have."""
    indices: dict[str, int] = {}
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"Word {i} is not a string.")
        if not word.strip() or "\n" in word or len(word) > MAX_WORD_BYTES:
            raise ValueError(f"Word {i} is empty, too long or has a line feed.")
        if word in indices:
            raise ValueError(f"Word {i} repeats word {indices[word]}.")
        indices[word] = i
    if not indices:
        raise ValueError("There are no words.")
    return list(indices)


def _matrix(rows: ArrayLike | Sequence[ArrayLike]) -> Floats:
    """Return finite vectors as float32 or float16. [V, d]"""
    try:
        matrix = np.asarray(rows)
    except ValueError:
        raise ValueError("The vectors have different lengths.") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError("The vectors must be a two-dimensional array of numbers, [V, d].")
    if not 1 <= matrix.shape[1] <= MAX_WIDTH:
        raise ValueError(f"Vectors of 1 to {MAX_WIDTH} numbers are supported.")
    with np.errstate(over="ignore"):
        vectors: Floats = matrix.astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        raise ValueError("A vector has a number that is not finite as float32.")
    return vectors
