"""Fit vectors of character n-grams, from which unknown words are composed.

Ridge regression over the words of a file fits vectors of n-grams, so that the mean over a word's
n-grams predicts the direction of its vector. docs/decisions/0021 has the measurements.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyseme.engine import Floats, unit
from polyseme.engine.quantization import Rows, empty_rows
from polyseme.engine.subwords import MAX_WORDS, MIN_WORDS, Subwords, distinct_ngrams, ngram_hashes
from polyseme.terminal import SILENT, Progress

if TYPE_CHECKING:
    from scipy import sparse

MIN_ROWS = 30_000
"""Maximum number of n-grams with a row, unless more words are fitted."""
NGRAMS = (2, 4)
"""The shortest and the longest n-gram, in code points, with `<` and `>` around the word."""
RIDGE = 0.1
MAX_ITERATIONS = 8
_HELD_OUT = 50
"""Every 50th word is held out to choose the number of iterations."""
_SCORED = 64
"""Number of columns from which the number of iterations is chosen."""
_COLUMNS = 16
"""Number of columns to solve at once, which limits the memory."""
_ROWS_AT_ONCE = 4096
_MAX_NORM = 1e30
_dot = partial(np.einsum, "bc,bc->c")
"""Return the dot product of each pair of columns. [B, c], [B, c] -> [c]"""


def fit_subwords(
    words: Sequence[str], vectors: Rows, max_rows: int | None = None, progress: Progress = SILENT
) -> Subwords | None:
    """Fit int8 vectors of character n-grams to the vectors of words. [V, d] -> [B, d]

    Conjugate gradients (Hestenes & Stiefel 1952) approximate the table T that minimizes
    Σ_w ‖mean of T over the n-grams of w − (unit(x_w) − m)‖² + 0.1·‖T‖², where m is the mean of all
    unit(x_w). The number of iterations is the best one for held-out words and the first 64 columns.
    Then m is added to each row, and T is scaled by the median norm of the vectors. The less the
    n-grams of a word agree, the shorter its vector, and the less it influences attention.

    Each of the `max_rows` most frequent n-grams has its own row; None stands for the number of
    fitted words, but at least 30,000. At most 200,000 words are fitted, at even intervals. The same
    words and vectors give the same table on one machine, also if the letters of all words are
    exchanged.
    Returns None if fewer than 1,000 words have a direction.
    """
    rows, norms = _usable_rows(words, vectors)
    if len(rows) < MIN_WORDS:
        return None
    fitted = [words[row] for row in rows.tolist()]
    ngrams = distinct_ngrams(fitted, *NGRAMS)[: max_rows or max(len(rows), MIN_ROWS)]
    design = _design(fitted, ngrams)
    # The columns of the solution replace those of the targets.
    table = np.empty((max(design.shape), vectors.shape[1]), np.float32)
    targets = table[: len(rows)]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        targets[start : start + len(some)] = unit(vectors[some].astype(np.float32))
    mean = targets.mean(axis=0)
    targets -= mean
    width = targets.shape[1]
    with progress.stage("composing", width + min(_SCORED, width), in_bytes=False) as bar:
        iterations = _best_iterations(design, targets[:, :_SCORED])
        bar.advance(min(_SCORED, width))
        for start in range(0, width, _COLUMNS):
            part = np.ascontiguousarray(targets[:, start : start + _COLUMNS])
            solution = next(islice(_solutions(design, part), iterations - 1, None))
            table[: len(ngrams), start : start + _COLUMNS] = solution
            bar.advance(part.shape[1])
    table = table[: len(ngrams)]
    table += mean
    table *= np.float32(min(float(np.median(norms)), _MAX_NORM))
    order = np.argsort(ngrams)
    quantized = empty_rows(len(table), width, "int8")
    for start in range(0, len(order), _ROWS_AT_ONCE):
        quantized[start : start + _ROWS_AT_ONCE] = table[order[start : start + _ROWS_AT_ONCE]]
    subwords = Subwords(quantized, *NGRAMS, ngrams[order], own_rows=True)
    return replace(subwords, coverage=subwords.least_coverage(fitted))


def _best_iterations(design: "sparse.csr_array", targets: Floats) -> int:
    """Return the number of iterations that predicts held-out words best. [w, B], [w, c]"""
    held = np.arange(len(targets)) % _HELD_OUT == 0
    test, rest = design[held], design[~held]
    predictions = [
        [test @ solution for solution in _solutions(rest, targets[~held, start : start + _COLUMNS])]
        for start in range(0, targets.shape[1], _COLUMNS)
    ]
    expected = unit(targets[held])
    scores = [
        float(np.vecdot(unit(np.hstack(parts)), expected).mean())
        for parts in zip(*predictions, strict=True)
    ]
    return 1 + int(np.argmax(scores))


def _usable_rows(words: Sequence[str], vectors: Rows) -> tuple[NDArray[np.int64], Floats]:
    """Return the rows to fit, which have a direction, and their norms. -> [w], [w]"""
    count = len(words)
    rows = np.arange(min(count, MAX_WORDS)) * count // min(count, MAX_WORDS)
    composable = Subwords(np.empty((0, 0)), *NGRAMS).composes
    rows = rows[[composable(words[row]) for row in rows.tolist()]]
    norms = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = vectors[rows[start : start + _ROWS_AT_ONCE]].astype(np.float32)
        with np.errstate(over="ignore"):
            norms[start : start + len(some)] = np.sqrt(np.vecdot(some, some, dtype=np.float64))
    return rows[norms > 0], norms[norms > 0]


def _design(words: Sequence[str], ngrams: NDArray[np.uint32]) -> "sparse.csr_array":
    """Return the weights of the n-grams in each word: 1 / their number. [B] -> [w, B], sparse"""
    from scipy import sparse

    order = np.argsort(ngrams)
    known = ngrams[order]
    columns, counts = [], []
    for start in range(0, len(words), _ROWS_AT_ONCE):
        of_words = ngram_hashes(words[start : start + _ROWS_AT_ONCE], *NGRAMS)
        hashes = np.concatenate(of_words)
        indices = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        present = known[indices] == hashes
        columns.append(order[indices[present]].astype(np.int32))
        ends = np.cumsum([len(one) for one in of_words])
        counts.append(np.diff(np.concatenate([[0], np.cumsum(present)])[ends], prepend=0))
    sizes = np.concatenate(counts)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)  # int64 takes more memory
    weights = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    shape = (len(words), len(ngrams))
    return sparse.csr_array((weights, np.concatenate(columns), ends), shape=shape)


def _solutions(design: "sparse.csr_array", targets: Floats) -> Iterator[Floats]:
    """Yield the table after each iteration of preconditioned conjugate gradients. -> [B, c]

    With the design A and a column y of the targets, each column t of the table independently
    solves (AᵀA + 0.1·I)·t = Aᵀy. All iterations yield the same array, which the next one updates.
    """
    transposed = design.T.tocsr()
    diagonal = np.asarray(design.multiply(design).sum(axis=0)).reshape(-1, 1) + RIDGE
    solution = np.zeros((design.shape[1], targets.shape[1]), np.float32)
    residual = transposed @ targets
    scaled = residual / diagonal
    direction = scaled.copy()
    product = _dot(residual, scaled)
    for _ in range(MAX_ITERATIONS):
        image = transposed @ (design @ direction)
        image += np.float32(RIDGE) * direction
        curvature = _dot(direction, image)
        step = product / np.where(curvature > 0, curvature, 1)
        solution += step * direction
        yield solution
        image *= step
        residual -= image
        np.divide(residual, diagonal, out=scaled)
        previous, product = product, _dot(residual, scaled)
        direction *= product / np.where(previous > 0, previous, 1)
        direction += scaled
