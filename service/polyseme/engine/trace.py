"""Every step of attention, in float64, for readers who check the arithmetic by hand."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats, require_finite
from polyseme.engine.attention import (
    Scoring,
    SentenceArrays,
    masked_keys,
    relative_bias,
    sinusoids,
    softmax,
)
from polyseme.engine.layers import Layer, Projection, contextualize, split_heads

FORMULAS = {
    "embeddings": "X",
    "scores": "S = Q·Kᵀ",
    "scaled_scores": "S/√k",
    "position_bias": "b[j−i], by the distance from the query i to the key j",
    "word_bias": "log s[j], where s[j] is the informativeness of word j",
    "scaled_word_bias": "f·log s[j], with a factor f for each head",
    "visible": "1 if query i attends to key j, else 0",
    "weighted_values": "A[i,j]·V[j]",
    "context": "C[i] = Σj A[i,j]·V[j]",
    "concatenation": "concat(C of all heads)",
    "position": "p, a unit vector for the position of the token; 0 if O and X are",
    "layer_output": "Y",
    "contextual": "the output of the layer",
}
"""The formulas that are the same for every layer."""


Operation: TypeAlias = Literal[
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
    operation: Operation
    operands: tuple[str, ...] = ()
    """names of steps, and of weights in the request, such as `query_weight`"""
    factors: tuple[float, ...] = ()
    """factors of the operands of a `combination`"""


Origin: TypeAlias = tuple[Operation, *tuple[str, ...]]
"""An operation and its operands."""


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

    def __init__(self, formulas: Mapping[str, str]) -> None:
        self._formulas = formulas
        self.steps: list[Step] = []

    def __call__(
        self,
        name: str,
        values: Floats,
        operation: Operation,
        *operands: str,
        factors: tuple[float, ...] = (),
    ) -> Floats:
        """Append a step and return its values; raise NonFiniteError if they are not finite."""
        formula = self._formulas[name]
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
    layer = wide[-1]
    step = _Recorder(_formulas(layer))
    with np.errstate(all="ignore"):
        x = step("embeddings", contextualize(sentence, wide[:-1]).contextual, "given")
        before = layer.norm == "before"
        source = "embeddings"
        if layer.attention_norm and before:
            step("attention_norm", layer.attention_norm(x), "function", source)
            source = "attention_norm"
        origins = [_origin(each, source) for each in (layer.query, layer.key, layer.value)]
        context = _attend(layer.project(x, sentence), origins, sentence, layer.scoring, step)
        joined = _join_heads(context, step)
        output = step("output", layer.output(joined), *_origin(layer.output, step.last))
        x = _trace_residual(layer, x, output, step)
        if layer.attention_norm and layer.norm == "after":
            x = step("attention_norm", layer.attention_norm(x), "function", step.last)
        if layer.feed_forward:
            norm, start, source = layer.feed_forward_norm, x, step.last
            if norm and before:
                start = step("feed_forward_norm", norm(x), "function", source)
            inner = layer.feed_forward.activate(start)
            step("feed_forward_inner", inner, "function", step.last)
            x = x + step("feed_forward", layer.feed_forward.outer(inner), "function", step.last)
            terms: tuple[str, ...] = (source, step.last)
            if norm and layer.norm == "after":
                x = step("feed_forward_norm", norm(x), "function", *terms)
                terms = (step.last,)
        else:
            terms = (step.last,)
        operation: Operation = "addition" if len(terms) > 1 else "copy"
        if _formula_of_final(layer):
            x = layer.finish(step("layer_output", x, operation, *terms), sentence)
            operation, terms = "function", ("layer_output",)
        step("contextual", x, operation, *terms)
    return step.steps


def _origin(projection: Projection, source: str) -> tuple[Operation, str]:
    """Return the operation and the operand of a projection of a stored model."""
    is_identity = projection.weight is None and projection.bias is None
    return ("copy" if is_identity else "product"), source


def _trace_residual(layer: Layer, x: Floats, output: Floats, step: _Recorder) -> Floats:
    """Record the position, if there is one, and the residual. [n, d], [n, d] -> [n, d]"""
    residual = layer.residual
    combined = residual(x, output)
    if residual.kind == "none":
        return step("residual", combined, "copy", "output")
    if residual.kind == "add":
        return step("residual", combined, "addition", "embeddings", "output")
    operands, factors = ["output", "embeddings"], [1.0, residual.share]
    if residual.position_share:
        # A vector that would be zero stays zero.
        content = np.hstack([x, output]).any(axis=1, keepdims=True)
        step("position", sinusoids(*x.shape) * content, "given")
        operands.append("position")
        factors.append(residual.position_share)
    return step("residual", combined, "combination", *operands, factors=tuple(factors))


def trace_embeddings(
    embeddings: Floats, weights: Weights, heads: int = 1, scale: bool = True
) -> list[Step]:
    """Return every step from embeddings [n, d] to the context, or to the output if Wo is given.

    The head axis and the errors are those of `trace_layer`.
    """
    x = embeddings.astype(np.float64)
    query, key, value, output = (
        Projection(None if weight is None else weight.astype(np.float64))
        for weight in (weights.query, weights.key, weights.value, weights.output)
    )
    layer = Layer(heads, query, key, value, output, scoring=Scoring(scale))
    formulas = _formulas(layer)
    if weights.columns:
        formulas = {name: _TRANSPOSED.sub(r"\1ᵀ", formula) for name, formula in formulas.items()}
    step, sentence = _Recorder(formulas), _unmasked(x)
    with np.errstate(all="ignore"):
        step("embeddings", x, "given")
        origins: list[Origin] = [
            ("copy", "embeddings")
            if getattr(weights, name) is None
            else ("product", "embeddings", f"{name}_weight")
            for name in ("query", "key", "value")
        ]
        context = _attend(layer.project(x, sentence), origins, sentence, layer.scoring, step)
        joined = _join_heads(context, step)
        if output.weight is not None:
            step("output", joined @ output.weight, "product", step.last, "output_weight")
    return step.steps


def trace_projected(
    queries: Floats, keys: Floats, values: Floats, heads: int = 1, scale: bool = True
) -> list[Step]:
    """Return every step from queries and keys [n, h·k] and values [n, h·v] to the context."""
    letters = {"queries": "Q", "keys": "K", "values": "V"}
    step = _Recorder(_formulas(Layer(heads, scoring=Scoring(scale))) | letters)
    projected = [split_heads(x.astype(np.float64), heads) for x in (queries, keys, values)]
    with np.errstate(all="ignore"):
        _join_heads(
            _attend(projected, [("given",)] * 3, _unmasked(values), Scoring(scale), step), step
        )
    return step.steps


def _attend(
    projected: Sequence[Floats],
    origins: Sequence[Origin],
    sentence: SentenceArrays,
    scoring: Scoring,
    record: _Recorder,
) -> Floats:
    """Record attention one operation at a time. 3 × [h, n, k or v] -> [h, n, v]

    `projected` has queries, keys and values, and `origins` their operations and operands.
    `attention.attend` is tested against this definition. A single head has no axis in the steps.
    """
    queries, keys, values = projected
    heads, n, k = queries.shape

    def step(name: str, by_head: Floats, operation: Operation, *operands: str) -> None:
        record(name, by_head[0] if heads == 1 else by_head, operation, *operands)

    for name, array, origin in zip(("queries", "keys", "values"), projected, origins, strict=True):
        step(name, array, *origin)
    scores: Floats = queries @ keys.transpose(0, 2, 1)
    step("scores", scores, "dot_products", "queries", "keys")
    if scoring.scale:
        scores = scores / math.sqrt(k)
        step("scaled_scores", scores, "scaling", "scores")
    terms = [record.last]
    if scoring.position_bias is not None:
        bias = relative_bias(scoring.position_bias, range(n), n)
        step("position_bias", bias, "given")
        terms.append("position_bias")
        scores = scores + bias
    if scoring.word_bias and sentence.word_bias is not None:
        word_bias = record("word_bias", sentence.word_bias, "given")
        if scoring.word_bias_scale is not None:
            scaled = scoring.word_bias_scale[:, None] * word_bias
            step("scaled_word_bias", scaled, "function", "word_bias")
            word_bias = scaled[:, None]
        terms.append(record.last)
        scores = scores + word_bias
    masked = masked_keys(sentence.known, sentence.words, scoring.mask, range(n))
    if masked is not None:
        record("visible", (~masked).astype(scores.dtype), "given")
        terms.append("visible")
    weights = softmax(scores.copy(), masked)
    step("weights", weights, "softmax", *terms)
    weighted = weights[:, :, :, None] * values[:, None, :, :]
    step("weighted_values", weighted, "weighting", "weights", "values")
    context: Floats = weights @ values
    step("context", context, "sum", "weighted_values")
    return context


_TRANSPOSED = re.compile(r"(W[qkvo])")


def _unmasked(x: Floats) -> SentenceArrays:
    """Return a sentence of known tokens that attend to all tokens. [n, …]"""
    n = len(x)
    return SentenceArrays(x, np.ones(n, np.bool_), np.arange(n))


def _join_heads(x: Floats, record: _Recorder) -> Floats:
    """Concatenate the heads, a step if there are several. [h, n, v] -> [n, h·v]"""
    heads, n, width = x.shape
    joined = np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(n, heads * width)
    if heads > 1:
        record("concatenation", joined, "concatenation", "context")
    return joined


def _formula_of_final(layer: Layer) -> str:
    """Return the end of the formula of `contextual`, after Y; X₀ are the static vectors."""
    final = "" if layer.final.weight is None else "·Wf"
    final += "" if layer.final.bias is None else " + bf"
    return final if layer.skip is None else f"{final} + X₀·Ws"


def _formulas(layer: Layer) -> dict[str, str]:
    """Return the formulas of a layer; a projection without a weight is X, or its layer norm X̂."""
    residual, scoring, before = layer.residual, layer.scoring, layer.norm == "before"
    position = f" + {residual.position_share}·p" if residual.position_share else ""
    combined = f"R = O/|O| + {residual.share}·X/|X|{position}"
    formulas = FORMULAS | {
        "attention_norm": f"X̂ = LayerNorm({'X' if before else 'R'})",
        "residual": {"none": "R = O", "add": "R = X + O", "unit": combined}[residual.kind],
    }
    x = "X̂" if layer.attention_norm is not None and before else "X"
    projections = {"queries": layer.query, "keys": layer.key, "values": layer.value}
    for name, projection in projections.items():
        letter = name[0]
        product = x if projection.weight is None else f"{x}·W{letter}"
        bias = "" if projection.bias is None else f" + b{letter}"
        formulas[name] = f"{letter.upper()} = {product}{bias}"
    weight = "" if layer.output.weight is None else "·Wo"
    bias = "" if layer.output.bias is None else " + bo"
    formulas["output"] = f"O = {'concat(C)' if layer.heads > 1 else 'C'}{weight}{bias}"
    if final := _formula_of_final(layer):
        formulas["contextual"] = f"Y{final}"
    scores = "scaled scores" if scoring.scale else "scores"
    formulas["weights"] = f"A = softmax of each row of the {scores}"
    if scoring.position_bias is not None or scoring.word_bias or scoring.mask != "all":
        formulas["weights"] += " plus biases, over the visible keys"
    # The feed-forward network starts from the residual, or from a norm of it.
    start = "X̂" if layer.attention_norm is not None and layer.norm == "after" else "R"
    x = "x" if layer.feed_forward_norm is not None and before else start
    relu = layer.feed_forward is not None and layer.feed_forward.activation == "relu"
    inner = f"{'ReLU' if relu else 'GELU'}({x}·W1 + b1)"
    return formulas | {
        "feed_forward_norm": "x = LayerNorm(R)" if before else f"LayerNorm({start} + F)",
        "feed_forward_inner": inner,
        "feed_forward": f"F = {inner}·W2 + b2",
    }
