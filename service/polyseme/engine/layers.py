"""Layers: projections, attention, residual, and optional layer norm and feed-forward network.

A layer takes a sentence [n, d] or a stack of sentences of equal length [..., n, d].
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from polyseme.engine import SAFE_LENGTHS, Floats, Integers, require_finite, rescale, unit
from polyseme.engine.attention import (
    BLOCK,
    Scoring,
    SentenceArrays,
    attend,
    key_scale,
    masked_keys,
    sinusoids,
)

NormPlace: TypeAlias = Literal["none", "before", "after"]
"""The position of layer norm: `before` each sub-layer (pre-norm) or `after` it (post-norm)."""
Activation: TypeAlias = Literal["relu", "gelu"]
ResidualKind: TypeAlias = Literal["none", "add", "unit"]
Recorded: TypeAlias = Literal["queries", "keys", "values", "scores", "weights", "contributions"]
"""Intermediate arrays that `contextualize` returns on request."""
Term: TypeAlias = Literal["residual", "position", "bias"]
"""A term of a contextual vector besides the values of the tokens: the layer's input, the vector of
the position, and the bias of the output projection."""
_Part = TypeVar("_Part")
_SMALL, _COLUMNS = 100**3, 64
"""OpenBLAS computes a product of at most 100³ multiplications without copies of the matrices, which
is faster for sentences; the columns of such a part are a multiple of a vector register's."""


@dataclass(frozen=True)
class Projection:
    """Linear projection: x·W + b, or x + b without a weight."""

    weight: Floats | None = None
    """[in, out]"""
    bias: Floats | None = None
    """[out]"""

    def __call__(self, x: Floats) -> Floats:
        """Project each row. [..., n, in] -> [..., n, out]"""
        if self.weight is None:
            return x if self.bias is None else x + self.bias
        width = self.weight.shape[1]
        # The parts depend on n but not on the number of sentences, and so do the last bits.
        columns = _SMALL // max(math.prod(x.shape[-2:]), 1) // _COLUMNS * _COLUMNS
        y: Floats
        if 0 < columns < width:
            y = np.empty((*x.shape[:-1], width), np.result_type(x, self.weight))
            for first in range(0, width, columns):
                part = slice(first, first + columns)
                np.matmul(x, self.weight[:, part], out=y[..., part])
        else:
            y = x @ self.weight
        if self.bias is not None:
            y += self.bias
        return y


IDENTITY = Projection()


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalization (Ba et al. 2016): (x − mean) / √(variance + epsilon) · gain + shift."""

    gain: Floats
    """[d]"""
    shift: Floats
    """[d]"""
    epsilon: float = 1e-5

    def __call__(self, x: Floats) -> Floats:
        """Normalize each row; raise NonFiniteError if a variance overflows. [..., d] -> [..., d]"""
        centered = x - x.mean(axis=-1, keepdims=True)
        variance = require_finite((centered * centered).mean(axis=-1, keepdims=True))
        y: Floats = centered / np.sqrt(variance + self.epsilon) * self.gain + self.shift
        return y


@dataclass(frozen=True)
class FeedForward:
    """activation(x·W₁ + b₁)·W₂ + b₂ for each token (Vaswani et al. 2017, §3.3)."""

    inner: Projection
    outer: Projection
    activation: Activation = "gelu"

    def activate(self, x: Floats) -> Floats:
        """Return activation(x·W₁ + b₁), m hidden units for each token. [..., n, d] -> [..., n, m]

        `gelu` is the tanh approximation (Hendrycks & Gimpel 2016, §2).
        """
        z = self.inner(x)
        if self.activation == "relu":
            rectified: Floats = np.maximum(z, 0)
            return rectified
        tanh = np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z * z * z))
        y: Floats = 0.5 * z * (1 + tanh)
        return y

    def __call__(self, x: Floats) -> Floats:
        """Transform each row. [..., n, d] -> [..., n, d]"""
        return self.outer(self.activate(x))


@dataclass(frozen=True)
class Residual:
    """`none`: o. `add`: x + o. `unit`: unit(o) + share·unit(x) + position_share·p.

    x is the layer's input, o the output of attention, p a unit vector that depends only on the
    position (`sinusoids`). Because of p, two occurrences of a word in equal contexts get
    different vectors ("apple eats apple"). If the first two terms are zero, so is the result.
    """

    kind: ResidualKind = "none"
    share: float = 0.0
    position_share: float = 0.0

    def __call__(self, x: Floats, output: Floats, share: float | None = None) -> Floats:
        """Combine the layer's input and the output of attention. Both and the result: [..., n, d]

        `share` overrides `self.share`.
        """
        share = self.share if share is None else share
        if self.kind == "none":
            return output
        if self.kind == "add":
            return x + output
        *stack, n, d = x.shape
        norms = np.empty((2, *stack, n), x.dtype)
        np.vecdot(output, output, out=norms[0])
        np.vecdot(x, x, out=norms[1])
        np.sqrt(norms, out=norms)
        with np.errstate(all="ignore"):  # rows that are not safe are replaced below
            total: Floats = output / norms[0][..., None]
            total += x * (share / norms[1])[..., None]
        content: Any = True
        if n and not (SAFE_LENGTHS[0] <= norms.min() and norms.max() <= SAFE_LENGTHS[1]):
            safe = (norms >= SAFE_LENGTHS[0]) & (norms <= SAFE_LENGTHS[1])
            safe = np.asarray(safe.all(axis=(0, -1)))
            total[~safe] = rescale(output[~safe], 1) + rescale(x[~safe], share)
            content = safe[..., None, None] | total.any(axis=-1, keepdims=True)
        if self.position_share:
            position = sinusoids(n, d, self.position_share, x.dtype)
            np.add(total, position, out=total, where=content)
        return total


@dataclass(frozen=True)
class FeatureProjection:
    """The context part of `features`: columns for the context, the previous and the next token."""

    context: Floats
    """[d, t], applied to the output of attention"""
    neighbors: Projection
    """[d, m], [m], applied to the vectors of both adjacent tokens; t + 2m = d"""

    def __call__(self, attended: Floats, sentence: SentenceArrays) -> Floats:
        """Return unit(attended·C) beside both neighbors. [..., n, d] -> [..., n, d]

        A neighbor that is unknown, or outside the sentence, is zero.
        """
        with np.errstate(all="ignore"):  # the caller tests whether the result is finite
            context = unit(attended @ self.context)
            vectors = self.neighbors(sentence.vectors)
        vectors = np.where(sentence.known[..., None], vectors, vectors.dtype.type(0))
        previous, following = np.zeros_like(vectors), np.zeros_like(vectors)
        previous[..., 1:, :] = vectors[..., :-1, :]
        following[..., :-1, :] = vectors[..., 1:, :]
        return np.concatenate([context, previous, following], axis=-1)


@dataclass(frozen=True)
class Layer:
    """The weights and settings of a layer, by default parameter-free attention: Q = K = V = X."""

    heads: int = 1
    query: Projection = IDENTITY
    key: Projection = IDENTITY
    value: Projection = IDENTITY
    output: Projection = IDENTITY
    scoring: Scoring = Scoring()
    residual: Residual = Residual()
    norm: NormPlace = "none"
    attention_norm: LayerNorm | None = None
    feed_forward: FeedForward | None = None
    feed_forward_norm: LayerNorm | None = None
    final: Projection = IDENTITY
    """applied to the result of the layer, for example to whiten contextual vectors"""
    skip: Floats | None = None
    """[d, d], multiplied with the static vectors and added to the result"""
    features: FeatureProjection | None = None
    """for the last layer of a model with the residual `unit`; attention does not use it"""

    def astype(self, dtype: DTypeLike) -> "Layer":
        """Return the same layer with every weight in another floating-point type."""
        return _cast(self, np.dtype(dtype))

    @cached_property
    def _query_key(self) -> Projection | None:
        """The query and key projections as one; None if either has no weight.

        The queries contain the factor 1/√k if `scoring.scale` is set.
        """
        if self.query.weight is None or self.key.weight is None:
            return None
        width = self.query.weight.shape[1]
        dtype = self.query.weight.dtype
        scale = dtype.type(key_scale(width // self.heads) if self.scoring.scale else 1)
        weight = np.concatenate([self.query.weight * scale, self.key.weight], axis=1)
        if self.query.bias is None and self.key.bias is None:
            return Projection(weight)
        nothing = np.zeros(width, dtype)
        query_bias = nothing if self.query.bias is None else self.query.bias * scale
        key_bias = nothing if self.key.bias is None else self.key.bias
        return Projection(weight, np.concatenate([query_bias, key_bias]))

    def __call__(
        self,
        x: Floats,
        sentence: SentenceArrays,
        *,
        keep_weights: bool = False,
        share: float | None = None,
    ) -> "LayerResult":
        """Run the layer; `share` overrides the share of its residual. [..., n, d]"""
        start = self._start(x)
        if self._query_key is not None:
            both = split_heads(self._query_key(start), 2 * self.heads)
            queries, keys = both[..., : self.heads, :, :], both[..., self.heads :, :, :]
        else:
            queries = self._scaled(split_heads(self.query(start), self.heads))
            keys = split_heads(self.key(start), self.heads)
        values = self._values(start, sentence)
        context, weights = attend(
            queries, keys, values, sentence, self.scoring, keep_weights=keep_weights
        )
        attended = self.output(context)
        x = mixed = self.residual(x, attended, share)
        if self.attention_norm and self.norm == "after":
            x = self.attention_norm(x)
        if self.feed_forward:
            norm = self.feed_forward_norm
            change = self.feed_forward(norm(x) if norm and self.norm == "before" else x)
            x = norm(x + change) if norm and self.norm == "after" else x + change
        return LayerResult(self.finish(x, sentence), attended, mixed, weights)

    def finish(self, x: Floats, sentence: SentenceArrays) -> Floats:
        """Apply `final` to the layer's result and add the skip connection. [..., n, d]"""
        x = self.final(x)
        return x if self.skip is None else x + Projection(self.skip)(sentence.vectors)

    def attended_at(
        self, x: Floats, sentence: SentenceArrays, sentences: Integers, positions: Integers
    ) -> Floats:
        """Return the output of attention at p single tokens of a stack. [B, n, d] -> [p, d]

        The indices of the tokens are `sentences` and `positions`. In contrast to
        `LayerResult.attended`, nothing is computed for other queries; the last bits differ.
        """
        n = x.shape[1]
        start = self._start(x)
        # One product for each token, so that its bits do not depend on the others.
        rows = start[sentences, positions][:, None]
        queries = self._scaled(split_heads(self.query(rows), self.heads))
        keys, values = split_heads(self.key(start), self.heads), self._values(start, sentence)
        bias, word_bias = self.scoring.bias(range(n), n), sentence.word_bias
        masked = masked_keys(sentence.known, sentence.words, self.scoring.mask, range(n))
        weights = self.scoring.weights(
            queries,
            keys[sentences],
            None if bias is None else bias[:, positions].swapaxes(0, 1)[:, :, None],
            None if word_bias is None else word_bias[sentences],
            None if masked is None else masked[sentences, positions][:, None],
        )
        context = weights @ values[sentences]
        return self.output(context.reshape(len(sentences), 1, -1))[:, 0]

    def project(self, x: Floats, sentence: SentenceArrays) -> tuple[Floats, Floats, Floats]:
        """Return unscaled queries, keys and values.

        [..., n, d] -> [..., h, n, k], [..., h, n, k], [..., h, n, v]
        """
        start = self._start(x)
        queries, keys = (split_heads(p(start), self.heads) for p in (self.query, self.key))
        return queries, keys, self._values(start, sentence)

    def contributions(
        self,
        x: Floats,
        values: Floats,
        result: "LayerResult",
        terms: Sequence[Term],
        share: float | None = None,
    ) -> Floats:
        """Return the exact share of each token, and of each of `terms`, in `result.mixed`.

        A row c of `mixed` is a sum Σ_j w_j + …, where w_j is the weighted value of token j after
        the output projection, so that the shares ⟨w_j, c⟩ / ⟨c, c⟩ sum to 1. They are negative for
        what points away from c, and zero if c is. `values` are those of `project`, and `result` has
        the weights. [..., n, d], [..., h, n, v] -> [..., n, n + number of terms]
        """
        residual, output = self.residual, self.output
        wide, mixed = x.astype(np.float64), result.mixed.astype(np.float64)
        *stack, n, d = x.shape
        scale, input_scale = np.ones((*stack, n)), np.ones((*stack, n))
        if residual.kind == "unit":  # both vectors are scaled to a length
            scale = reciprocal_lengths(result.attended)
            input_scale = reciprocal_lengths(x)
            input_scale *= residual.share if share is None else share
        # ⟨(a·v)·W, c⟩ = a·⟨v, c·Wᵀ⟩ for each head.
        weight = output.weight
        whole = mixed if weight is None else mixed @ weight.astype(np.float64).T
        directions = split_heads(whole, self.heads)
        transposed = values.astype(np.float64).swapaxes(-2, -1)
        shares = np.zeros((*stack, n, n + len(terms)))
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            products = directions[..., rows, :] @ transposed
            products *= result.weights[..., rows, :]  # type: ignore[index]
            for head in range(self.heads):  # the order of `sum` depends on the strides
                shares[..., rows, :n] += products[..., head, :, :]
        shares[..., :n] *= scale[..., None]
        for column, term in enumerate(terms, n):
            if term == "residual" and residual.kind != "none":
                shares[..., column] = np.vecdot(wide, mixed) * input_scale
            elif term == "position" and residual.kind == "unit":
                position = sinusoids(n, d, residual.position_share, x.dtype)
                shares[..., column] = np.vecdot(position.astype(np.float64), mixed)
            elif term == "bias" and output.bias is not None:
                shares[..., column] = np.vecdot(output.bias.astype(np.float64), mixed) * scale
        squares = np.vecdot(mixed, mixed)[..., None]
        shares /= np.where(squares > 0, squares, 1)
        return shares.astype(x.dtype)

    def _start(self, x: Floats) -> Floats:
        """Return what attention projects: the layer's input or its layer norm. [..., n, d]"""
        return self.attention_norm(x) if self.attention_norm and self.norm == "before" else x

    def _scaled(self, queries: Floats) -> Floats:
        """Multiply queries by 1/√k if `scoring.scale` is set. [..., h, n, k]"""
        if not self.scoring.scale:
            return queries
        return queries * queries.dtype.type(key_scale(queries.shape[-1]))

    def _values(self, x: Floats, sentence: SentenceArrays) -> Floats:
        """Return the values, which are zero for unknown tokens. [..., n, d] -> [..., h, n, v]"""
        values = split_heads(self.value(x), self.heads)
        if not sentence.known.all():
            # Not in place: without a projection, the values are a view of `x`.
            known = sentence.known[..., None, :, None]
            values = np.where(known, values, values.dtype.type(0))
        return values


class LayerResult(NamedTuple):
    """The result of one layer."""

    output: Floats
    """[..., n, d]"""
    attended: Floats
    """[..., n, d], the output of attention, before the residual"""
    mixed: Floats
    """[..., n, d], after the residual, before layer norm, feed-forward network and `finish`"""
    weights: Floats | None
    """[..., h, n, n], with `keep_weights`"""


def split_heads(x: Floats, heads: int) -> Floats:
    """Return a view with one block of columns for each head. [..., n, h·k] -> [..., h, n, k]"""
    *stack, n, width = x.shape
    return x.reshape(*stack, n, heads, width // heads).swapaxes(-3, -2)


def reciprocal_lengths(x: Floats) -> Floats:
    """Return 1 / ‖x‖ of each row in float64, 0 for a zero row. [..., d] -> [...]"""
    rows = x.astype(np.float64)
    lengths = np.sqrt(np.vecdot(rows, rows))
    reciprocals: Floats = (lengths > 0) / np.where(lengths > 0, lengths, 1)
    return reciprocals


def other_terms(layers: Sequence[Layer]) -> list[Term]:
    """Return the terms that belong to the sum of some layer; see `Layer.contributions`."""
    residuals = [layer.residual for layer in layers]
    present: dict[Term, bool] = {
        "residual": any(r.kind != "none" for r in residuals),
        "position": any(r.position_share for r in residuals if r.kind == "unit"),
        "bias": any(layer.output.bias is not None for layer in layers),
    }
    return [term for term, is_present in present.items() if is_present]


class Contextualized(NamedTuple):
    """The result of several layers."""

    contextual: Floats
    """[..., n, d]"""
    records: tuple[dict[Recorded, Floats], ...]
    """the requested intermediate arrays of each layer"""
    attended: Floats
    """[..., n, d], the output of the last layer's attention, before its residual; the static
    vectors if there are no layers; it may contain non-finite values"""


def contextualize(
    sentence: SentenceArrays,
    layers: Sequence[Layer],
    record: Collection[str] = (),
    of_layers: Collection[int] | None = None,
    *,
    share: float | None = None,
) -> Contextualized:
    """Run the layers over a sentence or a stack of sentences. -> [..., n, d]

    The bits of a sentence are the same alone and in a stack.

    `record` names the intermediate arrays to return (`queries`, `keys`, `values`, `scores`,
    `weights`, `contributions`) for the layers `of_layers`, or for all if None. `scores` are
    queries·keysᵀ, before scale, biases and softmax; the `contributions` of all layers have the
    columns `other_terms(layers)`. Recording does not change the other results. `share` overrides
    the share of the last layer's residual. Raises NonFiniteError if `contextual`, a record or the
    variance of a layer norm is not finite.
    """
    # BLAS selects a kernel by the strides, and kernels differ in the last bits of their results.
    x = sentence.vectors
    if not (x.flags.c_contiguous and x.flags.aligned):
        x = np.require(x, requirements=("C", "ALIGNED"))
        sentence = sentence._replace(vectors=x)
    attended = x
    last = len(layers) - 1
    records: list[dict[Recorded, Floats]] = []
    # `require_finite` detects an overflow, so NumPy's warnings are redundant.
    with np.errstate(all="ignore"):
        for index, layer in enumerate(layers):
            names = record if of_layers is None or index in of_layers else ()
            made: dict[str, Floats | None] = {}
            if not {"queries", "keys", "values", "scores", "contributions"}.isdisjoint(names):
                queries, keys, values = layer.project(x, sentence)
                made |= {"queries": queries, "keys": keys, "values": values}
            if "scores" in names:
                made["scores"] = queries @ keys.swapaxes(-2, -1)
            keep = "weights" in names or "contributions" in names
            own_share = share if index == last else None
            result = layer(x, sentence, keep_weights=keep, share=own_share)
            made["weights"] = result.weights
            if "contributions" in names:
                terms = other_terms(layers)
                made["contributions"] = layer.contributions(x, values, result, terms, own_share)
            x, attended = result.output, result.attended
            records.append({name: made[name] for name in names})  # type: ignore[misc]
    require_finite(x)
    for recorded in records:
        for array in recorded.values():
            require_finite(array)
    return Contextualized(x, tuple(records), attended)


def _cast(part: _Part, dtype: np.dtype[Any]) -> _Part:
    """Cast every array of nested dataclasses."""
    if isinstance(part, np.ndarray):
        return part.astype(dtype)  # type: ignore[return-value]
    if is_dataclass(part) and not isinstance(part, type):
        cast = {f.name: _cast(getattr(part, f.name), dtype) for f in fields(part)}
        return replace(part, **cast)
    return part
