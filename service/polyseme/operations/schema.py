"""The base of all requests, the fields that several of them have, and the options of encoding.

A request is a pydantic model: the body of a route and the arguments of a client. A result is a
dataclass, which is not checked when it is made; clients check what they read. The docstrings of
their fields are the descriptions in the OpenAPI document (`docs/openapi.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Generic, Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np
import regex
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from polyseme.engine.layers import other_terms
from polyseme.errors import MAX_ERRORS, FieldError, InvalidError, did_you_mean, validation_message
from polyseme.models.manifest import MAX_LAYERS, MAX_WIDTH, NAME_PATTERN
from polyseme.models.model import Model
from polyseme.spellings import Case

Result = TypeVar("Result")
_OTHER_KIND = "other_kind"
_FACTS = ("title", "description", "default")
"""Members of a JSON schema that do not restrict the value."""
STRICT = ConfigDict(extra="forbid")
"""The `__pydantic_config__` of a dataclass in requests: an unknown field is an error."""
MAX_SHARE = 4.0
MAX_LISTED = 100
"""Maximum neighbors, keywords and examples of each occurrence or sense."""
_MAX_COUNTED_ERRORS = 1000
"""With more errors, none is described: pydantic would describe all of them."""
_FIELD = regex.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


def _let_be_null(schema: dict[str, Any]) -> None:
    """Let the optional fields of a request be null in its JSON schema."""
    for name, field in schema["properties"].items():
        kinds = field.get("anyOf", [])
        if name not in schema.get("required", ()) and {"type": "null"} not in kinds:
            facts = {key: field.pop(key) for key in _FACTS if key in field}
            schema["properties"][name] = {"anyOf": [*(kinds or [field]), {"type": "null"}], **facts}


class Request(BaseModel, Generic[Result]):
    """The base of a request for a `Result`; an unknown field is an error.

    Null is the default of every optional field, because many clients send their unset ones.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, json_schema_extra=_let_be_null
    )

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, data: Any) -> Any:
        """Remove the optional fields that are null."""
        if isinstance(data, dict) and None in data.values():
            optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
            return {n: v for n, v in data.items() if v is not None or n not in optional}
        return data

    def find_model(self, get_model: Callable[[str | None], Model]) -> Model | None:
        """Return the model of the request; `get_model` returns one by its name."""
        return get_model(getattr(self, "model", None))

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return a request with these fields. Raises InvalidError if one is invalid."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            invalid = invalid_fields(cls, error)
        raise invalid


class OneLine:
    """Gives a dataclass a `repr` of one line: shapes of arrays, lengths of lists, other values."""

    def __repr__(self) -> str:
        shown = []
        for one in fields(self):  # type: ignore[arg-type]  # each subclass is a dataclass
            value = getattr(self, one.name)
            if not one.repr:
                continue
            if isinstance(value, np.ndarray):
                shown.append(f"{one.name} {[*value.shape]}")
            elif isinstance(value, dict):
                shown += [f"{name} {[*array.shape]}" for name, array in value.items()]
            elif isinstance(value, list):
                name = one.name.removesuffix("s") if len(value) == 1 else one.name
                shown.append(f"{len(value)} {name}")
            elif value is not None:
                text = f"{value:.3g}" if isinstance(value, float) else repr(value)
                shown.append(f"{one.name} {text}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True)
class Neighbor:
    """A word and its cosine similarity."""

    word: str
    similarity: float

    def __iter__(self) -> Iterator[str | float]:
        """Yield the word and the similarity."""
        return iter((self.word, self.similarity))


ModelName: TypeAlias = Annotated[
    str | None,
    Field(pattern=NAME_PATTERN, description="name of a model; the default model if omitted"),
]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
# `fail_fast` limits the errors of a list to the first one; a list may have a million entries.
Vector: TypeAlias = Annotated[
    list[Number], Field(min_length=1, max_length=MAX_WIDTH, fail_fast=True)
]
Matrix: TypeAlias = Annotated[
    list[Vector], Field(min_length=1, max_length=MAX_WIDTH, fail_fast=True)
]
Strings: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
Share: TypeAlias = Annotated[
    Annotated[float, Field(ge=0, le=MAX_SHARE, allow_inf_nan=False)] | None,
    Field(
        description="factor of the unit static vector, which is added to the unit context in"
        " `contextual`; the model's share if omitted"
    ),
]


# The tag of a member of a union is in angle brackets, because pydantic adds it to the location of
# an error, where no field has such a name.


def _kind_of_text(value: Any) -> str | None:
    if isinstance(value, list):
        return "<words>"
    return "<text>" if isinstance(value, str) else None


def _kind_of_input(value: Any) -> str | None:
    if isinstance(value, list):
        return "<words>" if value and isinstance(value[0], list) else "<texts>"
    return "<text>" if isinstance(value, str) else None


def one_of_kinds(kind: Any, message: str) -> Discriminator:
    """Return the discriminator of a union: `kind` returns a tag, or None for an invalid value."""
    return Discriminator(kind, custom_error_type=_OTHER_KIND, custom_error_message=message)


TextOrWords: TypeAlias = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Strings, Tag("<words>")],
    one_of_kinds(_kind_of_text, "must be a string or a list of strings"),
]
"""A sentence: a string to tokenize, or a list of words."""
SentenceList: TypeAlias = Annotated[list[TextOrWords], Field(min_length=1, fail_fast=True)]
Input: TypeAlias = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], Field(min_length=1, fail_fast=True), Tag("<texts>")]
    | Annotated[list[Strings], Field(min_length=1, fail_fast=True), Tag("<words>")],
    one_of_kinds(
        _kind_of_input, "must be a string, a list of strings, or a list of lists of strings"
    ),
]


Part: TypeAlias = Literal[
    "static",
    "contextual",
    "features",
    "attention",
    "contributions",
    "queries",
    "keys",
    "values",
    "scores",
]
DEFAULT_PARTS: tuple[Part, ...] = ("static", "contextual", "attention")
PER_TOKEN: dict[Part, int] = {"static": 1, "contextual": 1, "features": 2}
"""The arrays with one row per token, with their widths as multiples of d."""
PER_LAYER: tuple[Part, ...] = tuple(part for part in get_args(Part) if part not in PER_TOKEN)
PER_PAIR: frozenset[Part] = frozenset({"attention", "scores"})
OovPolicy: TypeAlias = Literal["zero", "subword", "error"]
"""The vector of an out-of-vocabulary word: zero, composed of subwords, or an error instead."""
Dtype: TypeAlias = Literal["float32", "float16"]
ArrayEncoding: TypeAlias = Literal["float", "base64"]
"""How JSON has an array: as numbers, or as its bytes in base64."""


def missing_layer(count: int) -> str:
    """Return the message for a layer that a model of `count` layers does not have."""
    if count == 1:
        return "the model has one layer, 0"
    return f"the model's layers are 0 to {count - 1}"


def _kind_of_layers(value: Any) -> str | None:
    if isinstance(value, list):
        return "<numbers>"
    return "<name>" if value in ("all", "last") else None


LayerNumbers: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, max_length=MAX_LAYERS, fail_fast=True),
]
Layers: TypeAlias = Annotated[
    Annotated[Literal["all", "last"], Tag("<name>")] | Annotated[LayerNumbers, Tag("<numbers>")],
    one_of_kinds(_kind_of_layers, 'must be "all", "last" or a list of layer numbers'),
]
Phrases: TypeAlias = Annotated[
    bool,
    Field(
        description="make consecutive words one token if the vocabulary has them joined by `_`,"
        " `-` or a space, such as `New_York`; up to four words"
    ),
]


class SentenceOptions(Request[Any]):
    """How sentences are encoded, for /v1/encode and /v2."""

    layers: Layers = "all"
    """layers of which attention, contributions, queries, … are returned, counted from 0"""
    heads: Literal["all", "mean"] = "all"
    """attention and scores of each head, or their mean over the heads"""
    oov: OovPolicy | None = None
    """out-of-vocabulary words: a zero vector, a vector composed of subwords, or an error; by
    default `subword` if the model has subword vectors, else `zero`"""
    case: Case = "auto"
    truncate: bool = False
    """truncate sentences that are too long instead of rejecting them"""
    share: Share = None
    phrases: Phrases = False


class EncodeOptions(SentenceOptions):
    """What to return for sentences, and how to look up their words."""

    # A tuple, because pydantic would copy a list for each request.
    include: Annotated[list[Part], Field(fail_fast=True)] = DEFAULT_PARTS  # type: ignore[assignment]
    """the arrays to return"""
    encoding: ArrayEncoding = "float"
    dtype: Dtype = "float32"

    def layer_numbers(self, model: Model) -> list[int]:
        """Return the numbers of the requested layers, in ascending order without duplicates.

        Raises InvalidError if the model has no such layer.
        """
        count = len(model.layers)
        if self.layers == "all":
            return list(range(count))
        if self.layers == "last":
            return [count - 1]
        wrong = [index for index, layer in enumerate(self.layers) if layer >= count]
        if wrong:
            message = missing_layer(count)
            raise InvalidError([FieldError(("layers", index), message) for index in wrong])
        return sorted(set(self.layers))

    def check(self, model: Model) -> None:
        """Raise InvalidError for a share or a policy that the model does not support."""
        if self.share is not None and model.layers[-1].residual.kind != "unit":
            message = "the last residual of this model is not `unit`, so it has no share"
            raise InvalidError([FieldError(("share",), message)], "Omit `share` for this model.")
        if self.oov == "subword" and model.subwords is None:
            hint = 'Omit `oov`, or use `oov: "zero"`.'
            raise InvalidError([FieldError(("oov",), "this model has no subword vectors")], hint)

    def size_coefficients(self, model: Model) -> tuple[int, int]:
        """Return (a, b), where n·a + n²·b is the number of values for n tokens."""
        heads = len(self.layer_numbers(model)) * model.manifest.heads
        per_token = per_pair = 0
        for part in set(self.include):
            if part in PER_TOKEN:
                per_token += PER_TOKEN[part] * model.manifest.dimension
            elif part == "contributions":
                layers = heads // model.manifest.heads
                per_pair += layers
                per_token += layers * len(other_terms(model.layers))
            elif part in PER_PAIR:
                per_pair += heads // model.manifest.heads if self.heads == "mean" else heads
            else:
                per_token += heads * (model.value_width if part == "values" else model.key_width)
        return per_token, per_pair


def invalid_fields(schema: type[BaseModel], error: ValidationError) -> InvalidError:
    """Return the InvalidError of pydantic's error for a schema.

    Messages contain allowed values, but no value of the request.
    """
    if error.error_count() > _MAX_COUNTED_ERRORS:
        message = f"has more than {_MAX_COUNTED_ERRORS} unknown or invalid fields"
        return InvalidError([FieldError((), message)])
    details = error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
    # A field with a wrong name explains one that is missing, so it comes first.
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    errors = []
    for detail in details:
        path: list[str | int] = []
        for part in detail["loc"]:
            if isinstance(part, int) or _FIELD.fullmatch(part):
                path.append(part)
            elif not part.startswith("<"):
                break  # the path ends before the first name that is not a valid field name
        errors.append(FieldError(tuple(path), _message(schema, detail)))
    surrogates = any(detail["type"] == "string_unicode" for detail in details)
    return InvalidError(errors, "Remove unpaired surrogates." if surrogates else None)


def _message(schema: type[BaseModel], error: Any) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        *parents, name = error["loc"]
        if not _FIELD.fullmatch(name):
            return "has an unknown field"
        question = "" if parents else did_you_mean(name, schema.model_fields)
        return f"is not a known field{question}"
    if kind == "json_invalid":  # the body is JSON, as `parsing` has found
        return "is nested too deeply"
    if kind == _OTHER_KIND:
        return str(error["msg"])
    if kind == "string_unicode":
        return "is not valid Unicode"
    return validation_message(error)
