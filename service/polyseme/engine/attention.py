"""Scaled dot-product attention (Vaswani et al. 2017, §3.2) over the tokens of a sentence.

Every array may have leading axes, `...`: a stack of sentences of equal length. NumPy computes one
product for each sentence of a stack, so the bits are those of the sentence alone.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from polyseme.engine import Flags, Floats, Integers, unit

BLOCK = 256
"""Maximum rows of scores per matrix product. It is constant, because the last bits of a product
depend on its number of rows."""
_CACHED_LENGTH = 64
"""Position biases are cached up to this sentence length: 64 kB a layer of four heads."""
_FLOAT64: np.dtype[Any] = np.dtype(np.float64)
_SAFE_TOTALS = (1e-26, 1e30)
"""The range of sums of exponentials in which float32 loses no significant term."""

Mask: TypeAlias = Literal["all", "others", "other-words"]
"""The keys that a query attends to: `all`; `others`: all but its own token; `other-words`: all but
the occurrences of its own word."""


class SentenceArrays(NamedTuple):
    """The tokens of one sentence, or of a stack of sentences of equal length, as arrays."""

    vectors: Floats
    """[..., n, d], a zero row for an unknown token"""
    known: Flags
    """[..., n], whether the token has a vector"""
    words: Integers
    """[..., n], the same number for every occurrence of a word in a sentence"""
    word_bias: Floats | None = None
    """[..., n], added to the scores of each token as a key"""

    def stack(self, start: int, count: int, n: int) -> "SentenceArrays":
        """Return B consecutive sentences of n tokens as a stack of views. [N] -> [B, n]"""
        parts = (x if x is None else x[start : start + count * n] for x in self)
        stack: list[Any] = [x if x is None else x.reshape(count, n, *x.shape[1:]) for x in parts]
        return SentenceArrays(*stack)


@dataclass(frozen=True)
class Scoring:
    """How attention scores are computed from queries·keysᵀ."""

    scale: bool = True
    """divide by √k"""
    mask: Mask = "all"
    position_bias: Floats | None = None
    """[h, 2R+1], added to the score of query i and key j by the distance j − i, clamped to ±R"""
    word_bias: bool = False
    """add `SentenceArrays.word_bias` to the scores of each key"""
    word_bias_scale: Floats | None = None
    """[h], the factor of the word bias in each head; 1 if None"""

    @cached_property
    def _bias(self) -> Floats:
        """The position bias of a sentence of _CACHED_LENGTH tokens. [h, n, n]"""
        n, table = _CACHED_LENGTH, cast("Floats", self.position_bias)
        bias = np.ascontiguousarray(relative_bias(table, range(n), n))
        bias.setflags(write=False)
        return bias

    def bias(self, rows: range, n: int) -> Floats | None:
        """Return the position bias of b rows of scores, None without one. -> [h, b, n]"""
        if self.position_bias is None:
            return None
        if n > _CACHED_LENGTH:
            return relative_bias(self.position_bias, rows, n)
        return self._bias[:, rows.start : rows.stop, :n]

    def weights(
        self,
        queries: Floats,
        keys: Floats,
        position_bias: Floats | None,
        word_bias: Floats | None,
        masked: Flags | None,
    ) -> Floats:
        """Return softmax(Q·Kᵀ + position bias + factor·word bias) over the unmasked keys.

        [..., h, b, k], [..., h, n, k], [..., h, b, n], [..., n], [..., b, n] -> [..., h, b, n]
        """
        scores: Floats = queries @ keys.swapaxes(-2, -1)
        if position_bias is not None:
            scores += position_bias
        if self.word_bias and word_bias is not None:
            bias, scale = word_bias[..., None, None, :], self.word_bias_scale
            scores += bias if scale is None else scale[:, None, None] * bias
        return softmax(scores, None if masked is None else masked[..., None, :, :])


def masked_keys(known: Flags, words: Integers, mask: Mask, rows: range) -> Flags | None:
    """Return which keys are masked for each row. [..., n], [..., n] -> [..., b, n], or None

    The result is None if the mask is `all` and all tokens are known. Unknown tokens are masked. If
    all keys of a row are masked, it attends to its own token, so that its weights sum to 1.
    """
    all_known = known.all()
    if mask == "all" and all_known:
        return None
    own = words[..., rows.start : rows.stop, None]
    if mask == "other-words":
        masked: Flags = own == words[..., None, :]
    else:
        masked = np.zeros((*own.shape[:-1], words.shape[-1]), np.bool_)
        if mask == "others":
            masked[..., range(len(rows)), rows] = True
    if not all_known:
        masked |= ~known[..., None, :]
    # If all words are known and the first differs from the last, no row masks both of them.
    if not all_known or not words.size or (words[..., 0] == words[..., -1]).any():
        alone = masked.all(axis=-1)
        if alone.any():
            masked[..., range(len(rows)), rows] &= ~alone
    return masked


def softmax(scores: Floats, masked: Flags | None = None) -> Floats:
    """Return the softmax over the last axis; may overwrite `scores`. [..., n] -> [..., n]

    exp(s_j) / Σ exp(s_j) over the unmasked entries; masked entries become exactly 0. Every row must
    have an unmasked entry, and the caller must disable NumPy's warnings.
    """
    if masked is not None:
        np.copyto(scores, -np.inf, where=masked)
    weights: Floats = np.exp(scores)
    totals = weights.sum(axis=-1, keepdims=True)
    # Subtracting the maximum of each row changes no quotient and takes longer than the exponential,
    # so it is done only if a sum of exponentials is too large or too small. The last three axes,
    # [h, b, n], are one sentence, which other sentences do not affect.
    if totals.size and not (_SAFE_TOTALS[0] < totals.min() and totals.max() < _SAFE_TOTALS[1]):
        safe = (_SAFE_TOTALS[0] < totals) & (totals < _SAFE_TOTALS[1])
        unsafe = ~safe.all(axis=tuple(range(-min(scores.ndim, 3), 0)))
        rest = scores[unsafe]
        rest -= rest.max(axis=-1, keepdims=True)
        weights[unsafe] = np.exp(rest)
        totals[unsafe] = weights[unsafe].sum(axis=-1, keepdims=True)
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
    """Return the weighted sums of the values, and the attention weights if `keep_weights`.

    [..., h, n, k], [..., h, n, k], [..., h, n, v] -> [..., n, h·v], [..., h, n, n]

    softmax(Q·Kᵀ + position bias + factor·word bias) · V over the unmasked keys. The caller divides
    the queries by √k if `scoring.scale` is set. Memory is proportional to n for the scores of a
    block, and to n² only if the weights are kept.
    """
    *stack, heads, n, width = values.shape
    context = np.empty((*stack, n, heads, width), values.dtype)
    by_head = context.swapaxes(-3, -2)
    in_blocks = keep_weights and not 0 < n <= BLOCK
    whole = np.empty((*stack, heads, n, n), values.dtype) if in_blocks else None
    weights = None
    for start in range(0, n, BLOCK):
        rows = range(start, min(start + BLOCK, n))
        masked = masked_keys(sentence.known, sentence.words, scoring.mask, rows)
        block, bias = queries[..., rows.start : rows.stop, :], scoring.bias(rows, n)
        weights = scoring.weights(block, keys, bias, sentence.word_bias, masked)
        if whole is not None:
            whole[..., rows.start : rows.stop, :] = weights
        np.matmul(weights, values, out=by_head[..., rows.start : rows.stop, :])
    if whole is not None:
        weights = whole
    return context.reshape(*stack, n, heads * width), weights if keep_weights else None


def key_scale(k: int) -> float:
    """Return 1/√k, the scale of scaled dot-product attention."""
    return 1 / math.sqrt(k)


def relative_bias(table: Floats, rows: range, n: int) -> Floats:
    """Return the bias of each pair of tokens by its clamped distance. [h, 2R+1] -> [h, b, n]

    The bias of query i in `rows` and key j is `table[:, clip(j − i, −R, R) + R]`: a number for each
    distance, as in T5 (Raffel et al. 2020, §2.1), but without buckets. The result is a read-only
    view of h·(b+n−1) numbers.
    """
    reach = table.shape[1] // 2
    # The distances of the last row come first.
    distances = np.arange(1 - rows.stop, n - rows.start).clip(-reach, reach)
    line = table.take(distances + reach, axis=1)
    return np.lib.stride_tricks.sliding_window_view(line, n, axis=1)[:, ::-1]


@lru_cache(maxsize=512)
def sinusoids(n: int, d: int, length: float = 1, dtype: np.dtype[Any] = _FLOAT64) -> Floats:
    """Return a vector of the same length for each position. -> [n, d], read-only

    Each vector has the interleaved sines and cosines of Vaswani et al. 2017, §3.5.
    """
    return _sinusoid_table(max(512, 1 << n.bit_length()), d, length, dtype)[:n]


@lru_cache(maxsize=16)
def _sinusoid_table(rows: int, d: int, length: float, dtype: np.dtype[Any]) -> Floats:
    rates = 10_000.0 ** (-2.0 * np.arange((d + 1) // 2) / d)
    angles = np.arange(rows)[:, None] * rates
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    table: Floats = (length * unit(pairs.reshape(rows, -1)[:, :d])).astype(dtype)
    table.setflags(write=False)
    return table
