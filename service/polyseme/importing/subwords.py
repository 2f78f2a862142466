"""Fit vectors of character n-grams, from which unknown words are composed.

Ridge regression over the words of a file fits vectors of n-grams, so that the mean over a word's
n-grams predicts the direction of its vector. docs/decisions/0021 has the measurements.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats, unit
from polyseme.engine.quantization import Rows, quantize
from polyseme.engine.subwords import MAX_WORDS, MIN_WORDS, Subwords, distinct_ngrams, ngram_hashes
from polyseme.progress import SILENT, Progress

if TYPE_CHECKING:
    from scipy import sparse

LEAST_ROWS = 30_000
"""Maximum number of n-grams with a row, unless more words are fitted."""
NGRAMS = (2, 4)
"""The shortest and the longest n-gram, in code points, with `<` and `>` around the word."""
RIDGE = 0.1
MAX_ITERATIONS = 8
_HELD_OUT = 50
"""Every 50th word is held out to choose the number of iterations."""
_COLUMNS = 64
"""Number of columns to solve at once, which limits the memory."""
_WORDS_AT_ONCE = 4096
_LARGEST_NORM = 1e30


def fit_subwords(
    words: Sequence[str], vectors: Rows, most: int | None = None, progress: Progress = SILENT
) -> Subwords | None:
    """Fit int8 vectors of character n-grams to the vectors of words. [V, d] -> [B, d]

    Conjugate gradients (Hestenes & Stiefel 1952) approximate the table T that minimizes
    Σ_w ‖mean of T over the n-grams of w − (unit(x_w) − m)‖² + 0.1·‖T‖², where m is the mean of all
    unit(x_w). The number of iterations is the best one for held-out words and the first 64 columns.
    Then m is added to each row, and T is scaled by the median norm of the vectors. The less the
    n-grams of a word agree, the shorter its vector, and the less it influences attention.

    Each of the `most` most frequent n-grams has its own row; None stands for the number of fitted
    words, but at least 30,000. At most 200,000 words are fitted, at even intervals. The same words
    and vectors give the same table on one machine, also if the letters of all words are exchanged.
    Returns None if fewer than 1,000 words have a direction.
    """
    rows, targets, norm = _targets(words, vectors)
    if len(rows) < MIN_WORDS:
        return None
    fitted = [words[row] for row in rows.tolist()]
    ngrams = distinct_ngrams(fitted, *NGRAMS)[0][: most or max(len(rows), LEAST_ROWS)]
    design = _design(fitted, ngrams)
    mean = targets.mean(axis=0)
    targets -= mean
    table = np.empty((len(ngrams), targets.shape[1]), np.float32)
    with progress.stage(
        "composing", targets.shape[1] + min(_COLUMNS, targets.shape[1]), in_bytes=False
    ) as bar:
        # The number of iterations that predicts held-out words best.
        held, part = np.arange(len(targets)) % _HELD_OUT == 0, targets[:, :_COLUMNS]
        test, expected = design[held], unit(part[held])
        scores = [
            float(np.vecdot(unit(test @ solution), expected).mean())
            for solution in _solutions(design[~held], part[~held])
        ]
        iterations = 1 + int(np.argmax(scores))
        bar.advance(min(_COLUMNS, targets.shape[1]))
        for start in range(0, targets.shape[1], _COLUMNS):
            part = np.ascontiguousarray(targets[:, start : start + _COLUMNS])
            for number, solution in enumerate(_solutions(design, part), 1):
                if number == iterations:
                    table[:, start : start + _COLUMNS] = solution
                    break
            bar.advance(part.shape[1])
    table += mean
    table *= np.float32(norm)
    order = np.argsort(ngrams)
    subwords = Subwords(quantize(table[order]), *NGRAMS, ngrams[order], own_rows=True)
    return replace(subwords, coverage=subwords.least_coverage(fitted))


def _targets(
    words: Sequence[str], vectors: Rows
) -> tuple[NDArray[np.int64], NDArray[np.float32], float]:
    """Return the rows to fit, their unit vectors and the median norm. -> [w], [w, d]"""
    count = len(words)
    rows = np.arange(min(count, MAX_WORDS)) * count // min(count, MAX_WORDS)
    composable = Subwords(np.empty((0, 0)), *NGRAMS).composes
    rows = rows[[composable(words[row]) for row in rows.tolist()]]
    table = vectors[rows].astype(np.float32)
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.vecdot(table, table, dtype=np.float64))
    usable = norms > 0
    norm = float(np.median(norms[usable])) if usable.any() else 0.0
    return rows[usable], unit(table[usable]), min(norm, _LARGEST_NORM)


def _design(words: Sequence[str], ngrams: NDArray[np.uint32]) -> "sparse.csr_array":
    """Return the weights of the n-grams in each word: 1 / their number. [B] -> [w, B], sparse"""
    from scipy import sparse

    order = np.argsort(ngrams)
    known = ngrams[order]
    columns, counts = [], []
    for start in range(0, len(words), _WORDS_AT_ONCE):
        for hashes in ngram_hashes(words[start : start + _WORDS_AT_ONCE], *NGRAMS):
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            places = places[known[places] == hashes]
            columns.append(order[places].astype(np.int32))
            counts.append(len(places))
    sizes = np.array(counts)
    ends = np.concatenate([[0], np.cumsum(sizes)])
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
        image = transposed @ (design @ direction) + np.float32(RIDGE) * direction
        curvature = _dot(direction, image)
        step = product / np.where(curvature > 0, curvature, 1)
        solution += step * direction
        yield solution
        residual -= step * image
        scaled = residual / diagonal
        previous, product = product, _dot(residual, scaled)
        direction = scaled + product / np.where(previous > 0, previous, 1) * direction


def _dot(a: Floats, b: Floats) -> Floats:
    """Return the dot product of each pair of columns. [B, c], [B, c] -> [c]"""
    result: Floats = np.einsum("bc,bc->c", a, b)
    return result
