"""The steps of attention one by one, in float64, for people who want to follow the arithmetic."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.engine.arrays import Floats, require_finite
from polyseme.engine.attention import Scoring, Sentence, attend
from polyseme.engine.layer import Layer
from polyseme.engine.projection import Projection, join_heads, split_heads
from polyseme.engine.record import Record
from polyseme.engine.stack import contextualise

FORMULAS = {
    "embeddings": "X",
    "attention_norm": "X̂ = LayerNorm(X)",
    "queries": "Q = X·Wq",
    "keys": "K = X·Wk",
    "values": "V = X·Wv",
    "scores": "S = Q·Kᵀ",
    "scaled_scores": "S/√k",
    "position_bias": "b[j−i], by the distance from the looking word i to the word j",
    "word_bias": "log s[j], how informative the word j is",
    "scaled_word_bias": "m·log s[j], with the head's own factor m",
    "visible": "1 where word i may look at word j, else 0",
    "weights": "A = softmax of the sum of the scores and biases, row by row, where visible",
    "weighted_values": "A[i,j]·V[j]",
    "context": "C[i] = Σj A[i,j]·V[j]",
    "output": "O = (C of all heads side by side)·Wo",
    "position": "p, of unit length, by the place of the word",
    "residual": "R, X and O combined",
    "feed_forward_norm": "LayerNorm",
    "feed_forward_inner": "activation(W1·x + b1)",
    "feed_forward": "F = W2·activation(W1·x + b1) + b2",
    "contextual": "the result of the layer",
}
"""The names of the steps, each with its formula."""


@dataclass(frozen=True)
class Step:
    """One step of the arithmetic."""

    name: str
    formula: str
    values: Floats


@dataclass(frozen=True)
class Weights:
    """Projection weights that a caller brings, as x·W; None stands for the identity."""

    query: Floats | None = None
    """[d, h·k]"""
    key: Floats | None = None
    """[d, h·k]"""
    value: Floats | None = None
    """[d, h·v]"""
    output: Floats | None = None
    """[h·v, d]"""
    columns: bool = False
    """whether they were brought as W·x, and are named so in the formulas"""


def trace_layer(sentence: Sentence, layers: Sequence[Layer], number: int) -> list[Step]:
    """Every step of one layer of a stored model; the layers before it are run first.

    Raises NonFiniteError where a step leaves the range of float64.
    """
    wide = [layer.astype(np.float64) for layer in layers[: number + 1]]
    start = sentence.vectors.astype(np.float64)
    bias = None if sentence.word_bias is None else sentence.word_bias.astype(np.float64)
    sentence = Sentence(start, sentence.known, sentence.words, bias)
    before = contextualise(sentence, wide[:-1]).contextual
    layer, record = wide[-1], Record(FORMULAS)
    record.keep("embeddings", before)
    with np.errstate(all="ignore"):
        record.keep("contextual", layer(before, sentence, record))
    return _steps(_without_lone_head(record.arrays, layer.heads), _formulas(layer))


def trace_embeddings(
    embeddings: Floats, weights: Weights, heads: int = 1, scale: bool = True
) -> list[Step]:
    """Every step from embeddings [n, d] to the context, and the output where Wo is given.

    A head axis leads where there is more than one head. Raises NonFiniteError on overflow.
    """
    x = embeddings.astype(np.float64)
    query, key, value = (_wide(w) for w in (weights.query, weights.key, weights.value))
    layer = Layer(heads, query, key, value, scoring=Scoring(scale))
    record = Record(FORMULAS)
    record.keep("embeddings", x)
    sentence = _plain(x)
    with np.errstate(all="ignore"):
        queries, keys, values = layer.project(x, sentence, record)
        context = attend(queries, keys, values, sentence, layer.scoring, record)
        if weights.output is not None:
            record.keep("output", join_heads(context) @ weights.output.astype(np.float64))
    formulas = _formulas(layer)
    if weights.columns:
        formulas = {name: _TRANSPOSED.sub(r"\1ᵀ", formula) for name, formula in formulas.items()}
    return _steps(_without_lone_head(record.arrays, heads), formulas)


def trace_projected(
    queries: Floats, keys: Floats, values: Floats, heads: int = 1, scale: bool = True
) -> list[Step]:
    """Every step from brought queries and keys [n, h·k] and values [n, h·v] to the context."""
    record = Record(FORMULAS)
    q, k, v = (split_heads(x.astype(np.float64), heads) for x in (queries, keys, values))
    for name, array in (("queries", q), ("keys", k), ("values", v)):
        record.keep(name, array)
    with np.errstate(all="ignore"):
        attend(q, k, v, _plain(values), Scoring(scale), record)
    given = {"queries": "Q", "keys": "K", "values": "V"}
    return _steps(_without_lone_head(record.arrays, heads), {**FORMULAS, **_PLAIN, **given})


_JOINED = "O = C of all heads side by side"
_TRANSPOSED = re.compile(r"(W[qkvo])")
_PLAIN = {"weights": "A = softmax of the scores, row by row"}


def _plain(x: Floats) -> Sentence:
    """A sentence in which every token is known and sees every other. [n, …]"""
    n = len(x)
    return Sentence(x, np.ones(n, np.bool_), np.arange(n))


def _wide(weight: Floats | None) -> Projection:
    return Projection(None if weight is None else weight.astype(np.float64))


_BY_HEAD = {
    *("queries", "keys", "values", "scores", "scaled_scores", "position_bias"),
    *("scaled_word_bias", "weights", "weighted_values", "context"),
}


def _without_lone_head(arrays: Mapping[str, Floats], heads: int) -> dict[str, Floats]:
    """Drop the head axis where there is one head only, or where the step is one for all heads."""
    lone = _BY_HEAD | {"visible"} if heads == 1 else {"visible"}
    return {name: array[0] if name in lone else array for name, array in arrays.items()}


def _formulas(layer: Layer) -> dict[str, str]:
    """The formulas as they are in this layer: without a weight, Q is X itself, or X normed."""
    residual = layer.residual
    place = f" + {residual.position_share}·p" if residual.position_share else ""
    combined = f"R = O/|O| + {residual.share}·X/|X|{place}"
    kinds = {"none": "R = O", "add": "R = X + O", "unit": combined}
    formulas = {**FORMULAS, "residual": kinds[residual.kind], **_normed(layer)}
    x = "X̂" if layer.attention_norm is not None and layer.norm == "before" else "X"
    for name, letter, projection in (
        ("queries", "q", layer.query),
        ("keys", "k", layer.key),
        ("values", "v", layer.value),
    ):
        product = x if projection.weight is None else f"{x}·W{letter}"
        bias = "" if projection.bias is None else f" + b{letter}"
        formulas[name] = f"{letter.upper()} = {product}{bias}"
    output = FORMULAS["output"] if layer.output.weight is not None else _JOINED
    formulas["output"] = output if layer.output.bias is None else f"{output} + bo"
    scoring = layer.scoring
    if scoring.position_bias is None and not scoring.word_bias and scoring.looks_at == "all":
        formulas |= _PLAIN
    return formulas


def _normed(layer: Layer) -> dict[str, str]:
    """The formulas of the norms and of the network, by what each of them works on."""
    before = layer.norm == "before"
    start = "X̂" if layer.attention_norm is not None and layer.norm == "after" else "R"
    x = "x" if layer.feed_forward_norm is not None and before else start
    inner = f"activation(W1·{x} + b1)"
    return {
        "attention_norm": f"X̂ = LayerNorm({'X' if before else 'R'})",
        "feed_forward_norm": "x = LayerNorm(R)" if before else f"LayerNorm({start} + F)",
        "feed_forward_inner": inner,
        "feed_forward": f"F = W2·{inner} + b2",
    }


def _steps(arrays: Mapping[str, Floats], formulas: Mapping[str, str]) -> list[Step]:
    """The kept arrays as steps, in the order in which they were computed."""
    return [Step(name, formulas[name], require_finite(array)) for name, array in arrays.items()]
