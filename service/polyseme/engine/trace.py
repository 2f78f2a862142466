"""Every step of attention, in float64, for readers who check the arithmetic by hand."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine import Floats, require_finite
from polyseme.engine.attention import (
    Scoring,
    SentenceArrays,
    masked_keys,
    relative_bias,
    sinusoids,
    softmax,
)
from polyseme.engine.layers import Layer, Projection, Residual, contextualize, split_heads

StepKind: TypeAlias = Literal[
    "given",
    "copy",
    "product",
    "dot_products",
    "scaling",
    "softmax",
    "weighting",
    "sum",
    "concatenation",
    "addition",
    "combination",
    "function",
]
"""How a step is computed from its operands.

`given` has no operands: the values are in the request or in the model. `copy` and `product` take
the rows of the first operand, `product` times the second, which is a weight of the request; the
weights of a stored model are not in a trace, so that there is no second operand. In either case,
the values of unknown tokens are zero. `dot_products`
are those of rows. `scaling` divides by the square root of the width of the queries. `softmax` is
that of the sum of its operands where the operand `visible`, if there is one, is not 0. `weighting`
multiplies each value by each weight, `sum` adds the results, `concatenation` joins the heads,
`addition` adds the operands, and `combination` adds factors times unit vectors of the operands.
`function` is one that the formula names.
"""


@dataclass(frozen=True)
class Step:
    """One step of the arithmetic."""

    name: str
    formula: str
    values: Floats
    operation: StepKind
    operands: tuple[str, ...] = ()
    """names of steps, and of weights in the request, such as `query_weight`"""
    factors: tuple[float, ...] = ()
    """factors of the operands of a `combination`"""


Origin: TypeAlias = tuple[str, StepKind, *tuple[str, ...]]
"""A formula, an operation and its operands."""


@dataclass(frozen=True)
class Weights:
    """Projection weights for x·W. None is the identity; for `output`, None omits the step."""

    query: Floats | None = None
    """[d, h·k]"""
    key: Floats | None = None
    """[d, h·k]"""
    value: Floats | None = None
    """[d, h·v]"""
    output: Floats | None = None
    """[h·v, d]"""
    columns: bool = False
    """whether the request has weights for W·x, so that the formulas contain their transposes"""


class _Recorder:
    """A recorder of steps in the order of their computation."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(
        self,
        name: str,
        values: Floats,
        formula: str,
        operation: StepKind,
        *operands: str,
        factors: tuple[float, ...] = (),
    ) -> Floats:
        """Append a step and return its values; raise NonFiniteError if they are not finite."""
        self.steps.append(Step(name, formula, require_finite(values), operation, operands, factors))
        return values

    @property
    def last(self) -> str:
        """The name of the last step."""
        return self.steps[-1].name


def trace_layer(sentence: SentenceArrays, layers: Sequence[Layer], index: int) -> list[Step]:
    """Return every step of one layer of a stored model, after running the layers before it.

    Arrays of each head have a leading head axis if there is more than one head. Raises
    NonFiniteError if a step overflows float64.
    """
    wide = [layer.astype(np.float64) for layer in layers[: index + 1]]
    vectors = sentence.vectors.astype(np.float64)
    bias = None if sentence.word_bias is None else sentence.word_bias.astype(np.float64)
    sentence = SentenceArrays(vectors, sentence.known, sentence.words, bias)
    layer, step, letter = wide[-1], _Recorder(), "X"
    norm = layer.attention_norm
    with np.errstate(all="ignore"):
        x = step("embeddings", contextualize(sentence, wide[:-1]).contextual, "X", "given")
        if norm and layer.norm == "before":
            step("attention_norm", norm(x), "X̂ = LayerNorm(X)", "function", "embeddings")
            letter = "X̂"
        projections = {"q": layer.query, "k": layer.key, "v": layer.value}
        origins = [_origin(one, name, letter, step.last) for name, one in projections.items()]
        joined = _attend(layer.project(x, sentence), origins, sentence, layer.scoring, step)
        letter = "concat(C)" if layer.heads > 1 else "C"
        output = layer.output(joined)
        step("output", output, *_origin(layer.output, "o", letter, step.last))
        x, letter = _trace_residual(layer.residual, x, output, step), "R"
        if norm and layer.norm == "after":
            x = step("attention_norm", norm(x), "X̂ = LayerNorm(R)", "function", step.last)
            letter = "X̂"
        x, terms = _trace_feed_forward(layer, x, letter, step)
        operation: StepKind = "addition" if len(terms) > 1 else "copy"
        formula = _product("Y", layer.final, "f") + ("" if layer.skip is None else " + X₀·Ws")
        if formula != "Y":
            x = layer.finish(step("layer_output", x, "Y", operation, *terms), sentence)
            operation, terms = "function", ("layer_output",)
        step(
            "contextual",
            x,
            formula if formula != "Y" else "the output of the layer",
            operation,
            *terms,
        )
    return step.steps


def _product(x: str, projection: Projection, letter: str) -> str:
    """Return the formula of a projection, which is x without a weight and a bias."""
    weight = "" if projection.weight is None else f"·W{letter}"
    return f"{x}{weight}" if projection.bias is None else f"{x}{weight} + b{letter}"


def _origin(projection: Projection, letter: str, x: str, source: str) -> Origin:
    """Return the origin of a projection of a stored model."""
    product = _product(x, projection, letter)
    return f"{letter.upper()} = {product}", "copy" if product == x else "product", source


def _trace_residual(residual: Residual, x: Floats, output: Floats, step: _Recorder) -> Floats:
    """Record the position, if there is one, and the residual. [n, d], [n, d] -> [n, d]"""
    combined = residual(x, output)
    if residual.kind == "none":
        return step("residual", combined, "R = O", "copy", "output")
    if residual.kind == "add":
        return step("residual", combined, "R = X + O", "addition", "embeddings", "output")
    formula = f"R = O/|O| + {residual.share}·X/|X|"
    operands, factors = ["output", "embeddings"], [1.0, residual.share]
    if residual.position_share:
        # A vector that would be zero stays zero.
        content = np.hstack([x, output]).any(axis=1, keepdims=True)
        position = "p, a unit vector for the position of the token; 0 if O and X are"
        step("position", sinusoids(*x.shape) * content, position, "given")
        formula += f" + {residual.position_share}·p"
        operands.append("position")
        factors.append(residual.position_share)
    return step("residual", combined, formula, "combination", *operands, factors=tuple(factors))


def _trace_feed_forward(
    layer: Layer, x: Floats, letter: str, step: _Recorder
) -> tuple[Floats, tuple[str, ...]]:
    """Record the feed-forward network, if there is one; `letter` is that of x. [n, d] -> [n, d]

    Returns its result, and the steps whose sum it is.
    """
    network, norm, source = layer.feed_forward, layer.feed_forward_norm, step.last
    if network is None:
        return x, (source,)
    start, inner = x, letter
    if norm and layer.norm == "before":
        start = step("feed_forward_norm", norm(x), "x = LayerNorm(R)", "function", source)
        inner = "x"
    hidden = network.activate(start)
    formula = f"{'ReLU' if network.activation == 'relu' else 'GELU'}({inner}·W1 + b1)"
    step("feed_forward_inner", hidden, formula, "function", step.last)
    change = network.outer(hidden)
    x = x + step("feed_forward", change, f"F = {formula}·W2 + b2", "function", step.last)
    terms: tuple[str, ...] = (source, step.last)
    if norm and layer.norm == "after":
        x = step("feed_forward_norm", norm(x), f"LayerNorm({letter} + F)", "function", *terms)
        terms = (step.last,)
    return x, terms


def trace_embeddings(
    embeddings: Floats, weights: Weights, heads: int = 1, scale: bool = True
) -> list[Step]:
    """Return every step from embeddings [n, d] to the context, or to the output if Wo is given.

    The head axis and the errors are those of `trace_layer`.
    """
    x, step = embeddings.astype(np.float64), _Recorder()
    query, key, value, output = (
        Projection(None if weight is None else weight.astype(np.float64))
        for weight in (weights.query, weights.key, weights.value, weights.output)
    )
    layer = Layer(heads, query, key, value, output, scoring=Scoring(scale))
    sentence = _unmasked(x)
    with np.errstate(all="ignore"):
        step("embeddings", x, "X", "given")
        origins: list[Origin] = []
        for name, projection in (("query", query), ("key", key), ("value", value)):
            formula, operation, *operands = _origin(projection, name[0], "X", "embeddings")
            operands += [f"{name}_weight"] * (operation == "product")
            origins.append((formula, operation, *operands))
        joined = _attend(layer.project(x, sentence), origins, sentence, layer.scoring, step)
        if output.weight is not None:
            formula = f"O = {'concat(C)' if heads > 1 else 'C'}·Wo"
            step("output", joined @ output.weight, formula, "product", step.last, "output_weight")
    if not weights.columns:
        return step.steps
    return [replace(one, formula=_WEIGHT.sub(r"\1ᵀ", one.formula)) for one in step.steps]


def trace_projected(
    queries: Floats, keys: Floats, values: Floats, heads: int = 1, scale: bool = True
) -> list[Step]:
    """Return every step from queries and keys [n, h·k] and values [n, h·v] to the context."""
    step = _Recorder()
    origins: list[Origin] = [(letter, "given") for letter in "QKV"]
    projected = [split_heads(x.astype(np.float64), heads) for x in (queries, keys, values)]
    with np.errstate(all="ignore"):
        _attend(projected, origins, _unmasked(values), Scoring(scale), step)
    return step.steps


def _attend(
    projected: Sequence[Floats],
    origins: Sequence[Origin],
    sentence: SentenceArrays,
    scoring: Scoring,
    record: _Recorder,
) -> Floats:
    """Record attention one operation at a time. 3 × [h, n, k or v] -> [n, h·v]

    `projected` has queries, keys and values, and `origins` theirs. `attention.attend` is tested
    against this definition. A single head has no axis in the steps.
    """
    queries, keys, values = projected
    heads, n, k = queries.shape

    def step(name: str, by_head: Floats, *origin: *Origin) -> None:
        record(name, by_head[0] if heads == 1 else by_head, *origin)

    for name, array, origin in zip(("queries", "keys", "values"), projected, origins, strict=True):
        step(name, array, *origin)
    scores: Floats = queries @ keys.transpose(0, 2, 1)
    step("scores", scores, "S = Q·Kᵀ", "dot_products", "queries", "keys")
    formula = "A = softmax of each row of the scores"
    if scoring.scale:
        scores = scores / math.sqrt(k)
        step("scaled_scores", scores, "S/√k", "scaling", "scores")
        formula = "A = softmax of each row of the scaled scores"
    if scoring.position_bias is not None or scoring.word_bias or scoring.mask != "all":
        formula += " plus biases, over the visible keys"
    terms = [record.last]
    if scoring.position_bias is not None:
        bias = relative_bias(scoring.position_bias, range(n), n)
        distance = "b[j−i], by the distance from the query i to the key j"
        step("position_bias", bias, distance, "given")
        terms.append("position_bias")
        scores = scores + bias
    if scoring.word_bias and sentence.word_bias is not None:
        informativeness = "log s[j], where s[j] is the informativeness of word j"
        word_bias = record("word_bias", sentence.word_bias, informativeness, "given")
        if scoring.word_bias_scale is not None:
            scaled = scoring.word_bias_scale[:, None] * word_bias
            factor = "f·log s[j], with a factor f for each head"
            step("scaled_word_bias", scaled, factor, "function", "word_bias")
            word_bias = scaled[:, None]
        terms.append(record.last)
        scores = scores + word_bias
    masked = masked_keys(sentence.known, sentence.words, scoring.mask, range(n))
    if masked is not None:
        visible = (~masked).astype(scores.dtype)
        record("visible", visible, "1 if query i attends to key j, else 0", "given")
        terms.append("visible")
    weights = softmax(scores.copy(), masked)
    step("weights", weights, formula, "softmax", *terms)
    weighted = weights[:, :, :, None] * values[:, None, :, :]
    step("weighted_values", weighted, "A[i,j]·V[j]", "weighting", "weights", "values")
    context: Floats = weights @ values
    step("context", context, "C[i] = Σj A[i,j]·V[j]", "sum", "weighted_values")
    joined = np.ascontiguousarray(context.transpose(1, 0, 2)).reshape(n, heads * values.shape[2])
    if heads > 1:
        record("concatenation", joined, "concat(C of all heads)", "concatenation", "context")
    return joined


_WEIGHT = re.compile(r"(W[qkvo])")


def _unmasked(x: Floats) -> SentenceArrays:
    """Return a sentence of known tokens that attend to all tokens. [n, …]"""
    n = len(x)
    return SentenceArrays(x, np.ones(n, np.bool_), np.arange(n))
