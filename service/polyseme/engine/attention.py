"""Scaled dot-product attention (Vaswani et al. 2017, §3.2) over the tokens of one sentence."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine.arrays import Flags, Floats, Integers
from polyseme.engine.positions import relative_bias

BLOCK = 256
"""Rows of scores computed at once, for short and long sentences alike: the number of rows of a
matrix product decides its last bits."""
_CACHED_LENGTH = 64
"""Position biases of sentences up to this length stay in memory: at most 1.4 MB for four heads."""
_SAFE_TOTALS = (1e-26, 1e30)
"""Sums of exponentials between which float32 holds every term that counts."""

Mask: TypeAlias = Literal["all", "others", "other-words"]
"""Which keys a query sees: `all`; `others`: not its own token; `other-words`: neither its own token
nor other occurrences of its word."""


@dataclass(frozen=True)
class SentenceArrays:
    """The tokens of one sentence as arrays."""

    vectors: Floats
    """[n, d], a zero row for an unknown token"""
    known: Flags
    """[n], whether the token has a vector"""
    words: Integers
    """[n], equal numbers for occurrences of one word"""
    word_bias: Floats | None = None
    """[n], added to the scores of each token as a key"""

    @cached_property
    def all_known(self) -> bool:
        """Whether every token has a vector."""
        return bool(np.count_nonzero(self.known) == len(self.known))


@dataclass(frozen=True)
class Scoring:
    """What is added to the product of queries and keys."""

    scale: bool = True
    """divide by √k"""
    mask: Mask = "all"
    position_bias: Floats | None = None
    """[h, 2R+1], added by the clamped distance j − i"""
    word_bias: bool = False
    """add the sentence's word bias to every score of that key"""
    word_bias_scale: Floats | None = None
    """[h], the factor of each head on the word bias; 1 if absent"""

    @cached_property
    def _biases(self) -> dict[int, Floats]:
        """The position biases of short sentences by their length."""
        return {}

    def bias(self, rows: range, n: int) -> Floats | None:
        """The position bias of some rows. -> [h, b, n]"""
        if self.position_bias is None:
            return None
        if n > _CACHED_LENGTH:
            return relative_bias(self.position_bias, rows, n)
        bias = self._biases.get(n)
        if bias is None:
            bias = np.ascontiguousarray(relative_bias(self.position_bias, range(n), n))
            bias.setflags(write=False)
            self._biases[n] = bias
        return bias


def masked_keys(known: Flags | None, words: Integers, mask: Mask, rows: range) -> Flags | None:
    """Which keys each row does not see, None if every row sees all. [n], [n] -> [b, n]

    `known` is None if all tokens are known. Unknown tokens are never seen. A row without any
    visible key sees its own token, so its weights still sum to 1.
    """
    if mask == "all" and known is None:
        return None
    if mask == "other-words":
        masked: Flags = words[rows.start : rows.stop, None] == words
    else:
        masked = np.zeros((len(rows), len(words)), np.bool_)
        if mask == "others":
            np.fill_diagonal(masked[:, rows.start :], True)
    if known is not None:
        masked |= ~known
    # If the first and the last word differ and all are known, every row sees one of the two.
    if known is not None or not len(words) or words[0] == words[-1]:
        alone = np.flatnonzero(masked.all(axis=1))
        masked[alone, alone + rows.start] = False
    return masked


def softmax(scores: Floats, masked: Flags | None = None) -> Floats:
    """Softmax over the last axis; `scores` is overwritten. [..., n] -> [..., n]

    exp(s_j) / Σ exp(s_j) over the visible entries; masked entries become exactly 0. Every row needs
    a visible entry (`masked_keys` leaves one). NumPy's warnings have to be off.
    """
    if masked is not None:
        np.copyto(scores, -np.inf, where=masked)
    weights: Floats = np.exp(scores)
    totals = weights.sum(axis=-1, keepdims=True)
    # Subtracting the maximum of each row changes no quotient and takes longer than the exponential,
    # so it is done only where an exponential overflowed or vanished.
    if totals.size and not (_SAFE_TOTALS[0] < totals.min() and totals.max() < _SAFE_TOTALS[1]):
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=weights)
        totals = weights.sum(axis=-1, keepdims=True)
    weights /= totals
    return weights


def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    sentence: SentenceArrays,
    scoring: Scoring,
    *,
    keep_weights: bool = False,
) -> tuple[Floats, Floats | None]:
    """Attention weights and the weighted sum of the values.

    [h, n, k], [h, n, k], [h, n, v] -> [n, h·v], [h, n, n] if `keep_weights`

    softmax(Q·Kᵀ + position bias + scale·word bias) · V over the keys each row sees. The queries
    come divided by √k already where the layer scales. Memory grows with n·b for the scores of a
    block, and with n² only if the weights are kept.
    """
    heads, n, width = values.shape
    context = np.empty((n, heads, width), values.dtype)
    by_head = context.transpose(1, 0, 2)
    keys = keys.transpose(0, 2, 1)
    word_bias = None
    if scoring.word_bias and sentence.word_bias is not None:
        word_bias = sentence.word_bias
        if scoring.word_bias_scale is not None:
            word_bias = (scoring.word_bias_scale[:, None] * word_bias)[:, None]
    known = None if sentence.all_known else sentence.known
    kept = np.empty((heads, n, n), values.dtype) if keep_weights and n > BLOCK else None
    weights = np.empty((heads, n, n), values.dtype) if keep_weights and not n else None
    for start in range(0, n, BLOCK):
        rows = range(start, min(start + BLOCK, n))
        weights = queries[:, rows.start : rows.stop] @ keys
        bias = scoring.bias(rows, n)
        if bias is not None:
            weights += bias
        if word_bias is not None:
            weights += word_bias
        weights = softmax(weights, masked_keys(known, sentence.words, scoring.mask, rows))
        if kept is not None:
            kept[:, rows.start : rows.stop] = weights
        np.matmul(weights, values, out=by_head[:, rows.start : rows.stop])
    if kept is not None:
        weights = kept
    return context.reshape(n, heads * width), weights if keep_weights else None


def key_scale(k: int) -> float:
    """1/√k, the factor of scaled dot-product attention."""
    return 1 / math.sqrt(k)
