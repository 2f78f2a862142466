"""Traces: the steps of attention for a text and a stored model, or for given arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.trace import Step, Weights, trace_embeddings, trace_layer, trace_projected
from polyseme.errors import FieldError, FieldPath, InvalidError
from polyseme.models.model import Model
from polyseme.operations.encode import MAX_COUNTED, Tokenized, count_tokens, tokenize_text
from polyseme.operations.options import Limits, missing_layer
from polyseme.operations.schema import Matrix, ModelName, OneLine, Request, Texts, response
from polyseme.operations.work import REQUEST, TRACED_VALUE, admit
from polyseme.stages import stage
from polyseme.tokenizer import Case

FLOAT64_BYTES = 26
"""Upper bound of the bytes of a float64 and its comma in JSON."""


def _shaped(values: Any, info: ValidationInfo) -> Floats:
    array: Floats = np.array(values, np.float64).reshape(info.data["shape"])
    return array


@dataclass(frozen=True, repr=False)
class TraceStep(OneLine):
    """One step of the arithmetic."""

    __pydantic_config__ = response("StepResponse")
    name: str
    formula: str
    shape: list[int] = field(repr=False)
    values: Annotated[Floats, PlainValidator(_shaped, json_schema_input_type=list[Any])]


@dataclass(frozen=True, repr=False)
class Trace(OneLine):
    """Every step, in float64."""

    __pydantic_config__ = response("TraceResponse")
    tokens: list[str]
    steps: list[TraceStep]

    def __getitem__(self, name: str) -> Floats:
        """Return the values of a step by its name. Raises KeyError for another name."""
        values = {step.name: step.values for step in self.steps}
        if name not in values:
            raise KeyError(f"The steps are {', '.join(values)}.")
        return values[name]


class WeightsRequest(Request[None]):
    """Projection weights.

    With `convention: "column"`, send their transposes. An absent weight is the identity.
    """

    query: Matrix | None = None
    """[d, h·k]"""
    key: Matrix | None = None
    """[d, h·k]"""
    value: Matrix | None = None
    """[d, h·v]"""
    output: Matrix | None = None
    """[h·v, d]"""


class TraceRequest(Request[Trace]):
    """The input of a trace: embeddings; queries, keys and values; or a text and a stored model."""

    tokens: Annotated[Texts, Field(min_length=1)] | None = None
    embeddings: Matrix | None = None
    """[n, d]"""
    weights: WeightsRequest | None = None
    queries: Matrix | None = None
    """[n, h·k]"""
    keys: Matrix | None = None
    """[n, h·k]"""
    values: Matrix | None = None
    """[n, h·v]"""
    heads: int = Field(1, ge=1, le=1024)
    scale: bool = True
    """divide the scores by √k"""
    convention: Literal["row", "column"] = "row"
    """weights as x·W or as W·x"""
    text: str | None = None
    model: ModelName = None
    layer: int = Field(0, ge=0)
    """counted from 0"""
    case: Case = "auto"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        projected = [self.queries, self.keys, self.values]
        some, whole = any(projected), all(projected)
        sources = (self.text is not None, self.embeddings is not None, some)
        if sum(sources) != 1 or some != whole:
            raise ValueError("give one of: `embeddings`; `queries`, `keys` and `values`; or `text`")
        of_numbers = {"tokens", "weights", "heads", "scale", "convention"}
        of_text = {"model", "layer", "case"}
        unused = of_text if self.text is None else of_numbers
        unused |= {"weights", "convention"} if some else set()
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if wrong := sorted(unused & given):
            raise ValueError(f"{', '.join(wrong)}: not used with these fields")
        if self.text is None and self.tokens is None:
            raise ValueError("`tokens` is required: one name for each row")
        return self


def trace(model: Model | None, request: TraceRequest, limits: Limits | None = None) -> Trace:
    """Return every step of one layer of a stored model for a text, or of given arrays.

    Only a text needs a model. Raises InvalidError if there is no such layer, the text has no word
    or shapes do not match, TooLargeError if the trace exceeds a limit, NonFiniteError if a step
    overflows.
    """
    limits = limits or Limits()
    with stage("attention"):
        if model is not None and request.text is not None:
            sentence, steps = _trace_text(model, request.text, request.layer, request.case, limits)
            count_tokens([sentence])
            tokens = [token.text for token in sentence.words]
        else:
            tokens = request.tokens or []
            steps = _trace_arrays(request, limits)
    values = ((step, np.ascontiguousarray(step.values)) for step in steps)
    return Trace(
        tokens,
        [TraceStep(step.name, step.formula, [*array.shape], array) for step, array in values],
    )


def _trace_text(
    model: Model, text: str, layer: int, case: Case, limits: Limits
) -> tuple[Tokenized, list[Step]]:
    """Return the tokens of a text and every step of one layer of a stored model."""
    if layer >= len(model.layers):
        raise InvalidError([FieldError(("layer",), missing_layer(len(model.layers)))])
    sentence = tokenize_text(text, model.tokenizer, case, limits.max_trace_tokens, MAX_COUNTED)
    words = sentence.words
    limits.check_trace_tokens(len(words) + sentence.truncated)
    if not words:
        raise InvalidError([FieldError(("text",), "has no word")])
    manifest = model.manifest
    widths = (manifest.dimension, model.key_width, model.value_width)
    inner = _inner_width(model.layers[layer], manifest.dimension)
    _admit(_trace_bytes(len(words), manifest.heads, *widths, inner), limits)
    return Tokenized(words), trace_layer(model.sentence(words), model.layers, layer)


def _trace_arrays(request: TraceRequest, limits: Limits) -> list[Step]:
    """Return every step for given arrays."""
    n, heads = len(request.tokens or ()), request.heads
    limits.check_trace_tokens(n)
    names = ("embeddings", "queries", "keys", "values")
    given = {name: rows for name in names if (rows := getattr(request, name)) is not None}
    matrices = {name: _matrix(rows, name) for name, rows in given.items()}
    for name, matrix in matrices.items():
        _require(len(matrix) == n, f"has {len(matrix)} rows for {n} tokens", name)
    if "embeddings" in matrices:
        x = matrices["embeddings"]
        weights = _weights(request, x.shape[1])
        query_width, key_width, value_width = (
            x.shape[1] if w is None else w.shape[1]
            for w in (weights.query, weights.key, weights.value)
        )
        keys_path = ("weights", "key" if weights.key is not None else "query")
        _check_widths(query_width, key_width, value_width, heads, keys_path)
        d = x.shape[1]
        fits = weights.output is None or weights.output.shape == (value_width, d)
        message = f"must be {value_width} by {d}: [h·v, d]"
        if request.convention == "column":
            message = f"must be {d} by {value_width}: [d, h·v]"
        _require(fits, message, "weights", "output")
        _admit(_trace_bytes(n, heads, d, key_width // heads, value_width // heads), limits)
        return trace_embeddings(x, weights, heads, request.scale)
    queries, keys, values = (matrices[name] for name in ("queries", "keys", "values"))
    query_width, key_width, value_width = (one.shape[1] for one in (queries, keys, values))
    _check_widths(query_width, key_width, value_width, heads, ("keys",))
    size = _trace_bytes(n, heads, value_width, key_width // heads, value_width // heads)
    _admit(size, limits)
    return trace_projected(queries, keys, values, heads, request.scale)


def _check_widths(query: int, key: int, value: int, heads: int, keys_path: FieldPath) -> None:
    _require(query == key, f"keys have {key} columns, but queries have {query}", *keys_path)
    for width in (query, value):
        _require(width % heads == 0, f"{heads} heads do not divide {width} columns", "heads")


def _weights(request: TraceRequest, d: int) -> Weights:
    found: dict[str, Floats] = {}
    columns = request.convention == "column"
    given = request.weights.model_dump(exclude_none=True) if request.weights else {}
    for name, rows in given.items():
        matrix = _matrix(rows, "weights", name)
        found[name] = matrix.T if columns else matrix
        if name != "output":
            message = f"takes vectors of width {len(found[name])}, but the embeddings have {d}"
            _require(len(found[name]) == d, message, "weights", name)
    return Weights(**found, columns=columns)


def _matrix(rows: Sequence[Sequence[float]], *path: str) -> Floats:
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
