"""Traces: the steps of attention for a text and a stored model, or for given arrays."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
import orjson
from pydantic import Field, PlainValidator, model_validator

from polyseme.engine import Floats
from polyseme.engine.trace import (
    Step,
    StepKind,
    Weights,
    trace_embeddings,
    trace_layer,
    trace_projected,
)
from polyseme.errors import FieldError, FieldPath, InvalidError
from polyseme.models.model import Model
from polyseme.operations.encode import MAX_COUNTED, record_token_counts, tokenize_text
from polyseme.operations.limits import Limits, current_budget, stage
from polyseme.operations.schema import Matrix, ModelName, OneLine, Request, Strings, missing_layer
from polyseme.operations.serialize import array_parts, json_parts
from polyseme.spellings import Case
from polyseme.tokenizer import Tokenized

MAX_TRACED = 1024
"""The largest value of the setting `max_trace_tokens`."""
FLOAT64_BYTES = 26
"""Upper bound of the bytes of a float64 and its comma in JSON."""


TokenRows: TypeAlias = Annotated[Matrix, Field(max_length=MAX_TRACED)]
"""A row for each token."""


@dataclass(frozen=True, repr=False)
class TraceStep(OneLine):
    """One step of the arithmetic."""

    name: str
    formula: str
    shape: list[int] = field(repr=False)
    values: Annotated[
        Floats,
        PlainValidator(
            lambda values, info: np.array(values, np.float64).reshape(info.data["shape"]),
            json_schema_input_type=list[Any],
        ),
    ]
    operation: StepKind = field(default="function", repr=False)
    operands: list[str] = field(default_factory=list, repr=False)
    """names of the steps that the step is computed from, and of weights of the request"""
    factors: list[float] = field(default_factory=list, repr=False)
    """factors of the operands of a `combination`"""


@dataclass(frozen=True, repr=False)
class Trace(OneLine):
    """Every step, in float64."""

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

    tokens: Annotated[Strings, Field(min_length=1, max_length=MAX_TRACED)] | None = None
    embeddings: TokenRows | None = None
    """[n, d]"""
    weights: WeightsRequest | None = None
    queries: TokenRows | None = None
    """[n, h·k]"""
    keys: TokenRows | None = None
    """[n, h·k]"""
    values: TokenRows | None = None
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
    def check_source(self) -> Self:
        """Raise ValueError unless there is one of the three inputs, with its own fields."""
        projected = [self.queries, self.keys, self.values]
        sources = (self.text is not None, self.embeddings is not None, any(projected))
        if sum(sources) != 1 or any(projected) != all(projected):
            raise ValueError("give one of: `embeddings`; `queries`, `keys` and `values`; or `text`")
        unused = {"model", "layer", "case"}
        if self.text is not None:
            unused = {"tokens", "weights", "heads", "scale", "convention"}
        elif any(projected):
            unused |= {"weights", "convention"}
        present = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if wrong := sorted(unused & present):
            raise ValueError(f"{', '.join(wrong)}: not used with these fields")
        if self.text is None and self.tokens is None:
            raise ValueError("`tokens` is required: one name for each row")
        return self

    def find_model(self, get_model: Callable[[str | None], Model]) -> Model | None:
        """Return the model of a text, None for given arrays."""
        return None if self.text is None else get_model(self.model)


def trace(model: Model | None, request: TraceRequest, limits: Limits | None = None) -> Trace:
    """Return every step of one layer of a stored model for a text, or of given arrays.

    Only a text needs a model. Raises InvalidError if there is no such layer, the text has no word
    or shapes do not match, TooLargeError if the trace exceeds a limit, NonFiniteError if a step
    overflows.
    """
    limits = limits or Limits()
    with stage("attention"):
        if model is None or request.text is None:
            tokens = request.tokens or []
            steps = _trace_arrays(request, limits)
        else:
            layer, manifest = request.layer, model.manifest
            if layer >= len(model.layers):
                raise InvalidError([FieldError(("layer",), missing_layer(len(model.layers)))])
            sentence = tokenize_text(
                request.text, model.tokenizer, request.case, limits.max_trace_tokens, MAX_COUNTED
            )
            words = sentence.tokens
            n = len(words)
            limits.check("max_trace_tokens", n + sentence.truncated)
            if not n:
                raise InvalidError([FieldError(("text",), "has no word")])
            inner = 0
            if network := model.layers[layer].feed_forward:
                weight = network.inner.weight
                inner = manifest.dimension if weight is None else weight.shape[1]
            widths = manifest.dimension, model.key_width, model.value_width
            _check_size(limits, n, manifest.heads, *widths, inner)
            steps = trace_layer(model.inputs(words), model.layers, layer)
            record_token_counts([Tokenized(words)])
            tokens = [word.text for word in words]
    return Trace(tokens, [*map(_as_result, steps)])


def _as_result(step: Step) -> TraceStep:
    array = np.ascontiguousarray(step.values)
    operands, factors = [*step.operands], [*step.factors]
    shape = [*array.shape]
    return TraceStep(step.name, step.formula, shape, array, step.operation, operands, factors)


def trace_parts(result: Trace) -> Iterator[bytes]:
    """Yield a trace in JSON."""
    return json_parts({"tokens": result.tokens}, "steps", map(_step_parts, result.steps), {})


def _step_parts(step: TraceStep) -> Iterator[bytes]:
    names = ("name", "formula", "operation", "operands", "factors", "shape")
    facts = {name: getattr(step, name) for name in names}
    yield orjson.dumps(facts)[:-1] + b',"values":'
    yield from array_parts(step.values)
    yield b"}"


def _trace_arrays(request: TraceRequest, limits: Limits) -> list[Step]:
    """Return every step for given arrays."""
    n, heads = len(request.tokens or ()), request.heads
    limits.check("max_trace_tokens", n)
    matrices: dict[str, Floats] = {}
    for name in ("embeddings", "queries", "keys", "values"):
        if (rows := getattr(request, name)) is not None:
            matrices[name] = _matrix(rows, name)
            _require(len(rows) == n, f"has {len(rows)} rows for {n} tokens", name)
    if "embeddings" not in matrices:
        queries, keys, values = (matrices[name] for name in ("queries", "keys", "values"))
        key_width, value_width = keys.shape[1], values.shape[1]
        _check_widths(queries.shape[1], key_width, value_width, heads, ("keys",))
        _check_size(limits, n, heads, value_width, key_width // heads, value_width // heads)
        return trace_projected(queries, keys, values, heads, request.scale)
    x, columns = matrices["embeddings"], request.convention == "column"
    d = x.shape[1]
    weights: dict[str, Floats] = {}
    sent = request.weights.model_dump(exclude_none=True) if request.weights else {}
    for name, rows in sent.items():
        matrix = _matrix(rows, "weights", name)
        weights[name] = matrix.T if columns else matrix
        if name != "output":
            width = len(weights[name])
            message = f"takes vectors of width {width}, but the embeddings have {d}"
            _require(width == d, message, "weights", name)
    query_width, key_width, value_width = (
        weights[name].shape[1] if name in weights else d for name in ("query", "key", "value")
    )
    keys_path = ("weights", "key" if "key" in weights else "query")
    _check_widths(query_width, key_width, value_width, heads, keys_path)
    if "output" in weights:
        message = f"must be {value_width} by {d}: [h·v, d]"
        if columns:
            message = f"must be {d} by {value_width}: [d, h·v]"
        _require(weights["output"].shape == (value_width, d), message, "weights", "output")
    _check_size(limits, n, heads, d, key_width // heads, value_width // heads)
    return trace_embeddings(x, Weights(**weights, columns=columns), heads, request.scale)


def _check_widths(query: int, key: int, value: int, heads: int, keys_path: FieldPath) -> None:
    _require(query == key, f"keys have {key} columns, but queries have {query}", *keys_path)
    for width in (query, value):
        _require(width % heads == 0, f"{heads} heads do not divide {width} columns", "heads")


def _matrix(rows: Sequence[Sequence[float]], *path: str) -> Floats:
    width = len(rows[0])
    for index, row in enumerate(rows):
        _require(len(row) == width, f"has {len(row)} numbers, not {width}", *path, index)
    return np.array(rows, np.float64)


def _require(condition: bool, message: str, *path: str | int) -> None:
    if not condition:
        raise InvalidError([FieldError(path, message)])


def _check_size(limits: Limits, n: int, heads: int, d: int, k: int, v: int, m: int = 0) -> None:
    """Check an upper bound of the bytes of a trace's numbers, and reserve memory for them.

    k and v are the widths of a head, m is the number of hidden units of the feed-forward network.
    """
    by_token = heads * (2 * k + 3 * v + 1) + 9 * d + m + 1
    count = heads * n * n * (v + 5) + n * by_token
    limits.check("max_trace_bytes", count * FLOAT64_BYTES)
    limits.check("max_answer_bytes", count * FLOAT64_BYTES)
    current_budget().check()
    current_budget().reserve(count * FLOAT64_BYTES)
