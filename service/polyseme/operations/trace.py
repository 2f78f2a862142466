"""Traces: the steps of attention for a text and a stored model, or for given arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.trace import Step, Weights, trace_embeddings, trace_layer, trace_projected
from polyseme.errors import FieldError, FieldPath, InvalidError
from polyseme.models.model import Model
from polyseme.operations.encode import MAX_COUNTED, Tokenized, tokenize_text
from polyseme.operations.options import Limits, missing_layer
from polyseme.operations.work import REQUEST, TRACED_VALUE, admit
from polyseme.tokenizer import Case

FLOAT64_BYTES = 26
"""Upper bound of the bytes of a float64 and its comma in JSON."""

Rows = Sequence[Sequence[float]]


@dataclass(frozen=True)
class TraceArrays:
    """The arrays of a request: embeddings, or queries, keys and values, with a row per token."""

    tokens: Sequence[str]
    matrices: Mapping[str, Rows]
    """`embeddings`, or `queries`, `keys` and `values`"""
    weights: Mapping[str, Rows] = field(default_factory=dict)
    """`query`, `key`, `value` and `output` as in the request"""
    heads: int = 1
    scale: bool = True
    transposed: bool = False
    """whether the weights are for W·x instead of x·W"""


def trace_text(
    model: Model, text: str, layer: int = 0, case: Case = "auto", limits: Limits | None = None
) -> tuple[Tokenized, list[Step]]:
    """Return the tokens of a text and every step of one layer of a stored model.

    Raises InvalidError if there is no such layer or the text has no word, TooLargeError if the
    trace exceeds a limit, NonFiniteError if a step overflows.
    """
    limits = limits or Limits()
    if layer >= len(model.layers):
        raise InvalidError([FieldError(("layer",), missing_layer(len(model.layers)))])
    tokens, more = tokenize_text(text, model.tokenizer, case, limits.max_trace_tokens, MAX_COUNTED)
    limits.check_trace_tokens(len(tokens) + more)
    if not tokens:
        raise InvalidError([FieldError(("text",), "has no word")])
    manifest = model.manifest
    widths = (manifest.dimension, model.key_width, model.value_width)
    inner = _inner_width(model.layers[layer], manifest.dimension)
    _admit(_trace_bytes(len(tokens), manifest.heads, *widths, inner), limits)
    return Tokenized(tokens), trace_layer(model.sentence(tokens), model.layers, layer)


def trace_arrays(arrays: TraceArrays, limits: Limits) -> list[Step]:
    """Return every step for given arrays.

    Raises InvalidError if shapes do not match, TooLargeError if the trace exceeds a limit,
    NonFiniteError if a step overflows.
    """
    n, heads = len(arrays.tokens), arrays.heads
    limits.check_trace_tokens(n)
    matrices = {name: _matrix(rows, name) for name, rows in arrays.matrices.items()}
    for name, matrix in matrices.items():
        _require(len(matrix) == n, f"has {len(matrix)} rows for {n} tokens", name)
    if "embeddings" in matrices:
        x = matrices["embeddings"]
        weights = _weights(arrays, x.shape[1])
        query_width, key_width, value_width = (
            x.shape[1] if w is None else w.shape[1]
            for w in (weights.query, weights.key, weights.value)
        )
        keys_path = ("weights", "key" if weights.key is not None else "query")
        _check_widths(query_width, key_width, value_width, heads, keys_path)
        d = x.shape[1]
        fits = weights.output is None or weights.output.shape == (value_width, d)
        message = f"must be {value_width} by {d}: [h·v, d]"
        if arrays.transposed:
            message = f"must be {d} by {value_width}: [d, h·v]"
        _require(fits, message, "weights", "output")
        _admit(_trace_bytes(n, heads, d, key_width // heads, value_width // heads), limits)
        return trace_embeddings(x, weights, heads, arrays.scale)
    queries, keys, values = (matrices[name] for name in ("queries", "keys", "values"))
    query_width, key_width, value_width = (one.shape[1] for one in (queries, keys, values))
    _check_widths(query_width, key_width, value_width, heads, ("keys",))
    size = _trace_bytes(n, heads, value_width, key_width // heads, value_width // heads)
    _admit(size, limits)
    return trace_projected(queries, keys, values, heads, arrays.scale)


def _check_widths(query: int, key: int, value: int, heads: int, keys_path: FieldPath) -> None:
    _require(query == key, f"keys have {key} columns, but queries have {query}", *keys_path)
    for width in (query, value):
        _require(width % heads == 0, f"{heads} heads do not divide {width} columns", "heads")


def _weights(arrays: TraceArrays, d: int) -> Weights:
    found: dict[str, Floats] = {}
    for name, rows in arrays.weights.items():
        matrix = _matrix(rows, "weights", name)
        found[name] = matrix.T if arrays.transposed else matrix
        if name != "output":
            message = f"takes vectors of width {len(found[name])}, but the embeddings have {d}"
            _require(len(found[name]) == d, message, "weights", name)
    return Weights(**found, columns=arrays.transposed)


def _matrix(rows: Rows, *path: str) -> Floats:
    width = len(rows[0])
    for number, row in enumerate(rows):
        _require(len(row) == width, f"has {len(row)} numbers, not {width}", *path, number)
    return np.array(rows, np.float64)


def _require(condition: bool, message: str, *path: str | int) -> None:
    if not condition:
        raise InvalidError([FieldError(path, message)])


def _admit(size: int, limits: Limits) -> None:
    """Check the bytes and the work of a trace before it is computed."""
    limits.check_trace_bytes(size)
    admit(REQUEST + size / FLOAT64_BYTES * TRACED_VALUE)


def _inner_width(layer: Layer, d: int) -> int:
    """Return m, the number of hidden units of the feed-forward network; 0 without a network."""
    if layer.feed_forward is None:
        return 0
    weight = layer.feed_forward.inner.weight
    return d if weight is None else weight.shape[1]


def _trace_bytes(n: int, heads: int, d: int, k: int, v: int, m: int = 0) -> int:
    """Return an upper bound of the bytes of a trace's numbers; k and v are the widths of a head."""
    by_token = heads * (2 * k + 2 * v + 1) + 8 * d + m + 1
    return (heads * n * n * (v + 5) + n * by_token) * FLOAT64_BYTES


def trace_document(tokens: Sequence[str], steps: Sequence[Step]) -> dict[str, Any]:
    """Return the response of /v1/trace, with arrays that orjson serializes."""
    return {
        "tokens": list(tokens),
        "steps": [
            {
                "name": step.name,
                "formula": step.formula,
                "shape": list(step.values.shape),
                "values": np.ascontiguousarray(step.values),
            }
            for step in steps
        ],
    }
