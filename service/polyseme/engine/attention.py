"""Scaled dot-product attention (Vaswani et al. 2017, §3.2), a block of rows at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polyseme.engine.arrays import Flags, Floats, Integers
from polyseme.engine.positions import relative_bias
from polyseme.engine.record import Record
from polyseme.engine.softmax import softmax
from polyseme.engine.visibility import LooksAt, hidden_keys

BLOCK = 256
"""Rows done at once. The same for short and long sentences, with attention asked for or not:
another number of rows would give other last bits."""


@dataclass(frozen=True)
class Sentence:
    """The tokens of one sentence as the engine sees them."""

    vectors: Floats
    """[n, d], a zero row for an unknown token"""
    known: Flags
    """[n], whether the vocabulary has the token"""
    words: Integers
    """[n], equal where two tokens are occurrences of one word"""
    word_bias: Floats | None = None
    """[n], what is added to the scores of each token as a key"""

    @cached_property
    def all_known(self) -> bool:
        """Whether the vocabulary has every token."""
        return bool(np.count_nonzero(self.known) == len(self.known))


@dataclass(frozen=True)
class Scoring:
    """How scores are made from queries and keys, beyond their product."""

    scale: bool = True
    """divide by √k"""
    looks_at: LooksAt = "all"
    position_bias: Floats | None = None
    """[h, 2R+1], added by clamped distance j − i"""
    word_bias: bool = False
    """add the sentence's word bias to every score of that key"""
    word_bias_scale: Floats | None = None
    """[h], how much of the word bias each head adds; 1 where there is none"""


def row_blocks(n: int) -> Iterator[range]:
    """Yield the rows of n in blocks; of no rows, one empty block."""
    for start in range(0, max(n, 1), BLOCK):
        yield range(start, min(start + BLOCK, n))


def attention_weights(
    queries: Floats, keys: Floats, sentence: Sentence, scoring: Scoring, rows: range, record: Record
) -> Floats:
    """The weights of a block of rows. [h, n, k], [h, n, k] -> [h, b, n]

    softmax(Q·Kᵀ/√k + position bias + scale·word bias) over the keys that each row may look at.
    """
    n = keys.shape[1]
    scores: Floats = queries[:, rows.start : rows.stop] @ keys.transpose(0, 2, 1)
    record.keep_rows("scores", rows, n, scores)
    if scoring.scale:
        scores /= math.sqrt(queries.shape[2])
        record.keep_rows("scaled_scores", rows, n, scores)
    if scoring.position_bias is not None:
        bias = relative_bias(scoring.position_bias, rows, n)
        record.keep_rows("position_bias", rows, n, bias)
        scores += bias
    if scoring.word_bias and sentence.word_bias is not None:
        scores += _word_bias(sentence.word_bias, scoring.word_bias_scale, record)
    known = None if sentence.all_known else sentence.known
    hidden = hidden_keys(known, sentence.words, scoring.looks_at, rows)
    if hidden is not None and record.wants("visible"):
        record.keep_rows("visible", rows, n, (~hidden)[None].astype(scores.dtype))
    weights = softmax(scores, hidden)
    record.keep_rows("weights", rows, n, weights)
    return weights


def _word_bias(bias: Floats, scale: Floats | None, record: Record) -> Floats:
    """What is added to the scores of a key, by head where heads differ. [n] -> [n] or [h, 1, n]"""
    record.keep("word_bias", bias)
    if scale is None:
        return bias
    scaled: Floats = scale[:, None] * bias
    record.keep("scaled_word_bias", scaled)
    return scaled[:, None]


def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    sentence: Sentence,
    scoring: Scoring,
    record: Record,
) -> Floats:
    """The weighted sum of the values. [h, n, k], [h, n, k], [h, n, v] -> [h, n, v]

    Memory grows with n·b for the scores of one block, and with n² only for what `record` keeps.
    """
    heads, n, width = values.shape
    if n % BLOCK == 1 or values.dtype != np.float32:
        # The last bits depend on how a matrix is laid out: of a single row BLAS makes a vector, and
        # in float64, which only traces have, it has other edges.
        queries, keys, values = map(np.ascontiguousarray, (queries, keys, values))
    # Side by side for each token, as they will be joined; a product can be written there at once.
    context = np.empty((n, heads, width), values.dtype).transpose(1, 0, 2)
    for rows in row_blocks(n):
        weights = attention_weights(queries, keys, sentence, scoring, rows, record)
        if record.wants("weighted_values"):
            parts = weights[:, :, :, None] * values[:, None, :, :]
            record.keep_rows("weighted_values", rows, n, parts)
        np.matmul(weights, values, out=context[:, rows.start : rows.stop])
    record.keep("context", context)
    return context
