"""Request schemas; an unknown field is an error."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import regex
from pydantic import Field, Tag, model_validator

from polyseme.models.manifest import MAX_LAYERS
from polyseme.operations.options import (
    DEFAULT_PARTS,
    MAX_COMPARED,
    MAX_FORMS,
    MAX_LISTED,
    MAX_SENSES,
    Dtype,
    EncodeOptions,
    OovPolicy,
    Part,
)
from polyseme.operations.schema import (
    Input,
    ModelName,
    Phrases,
    Request,
    Share,
    one_of_kinds,
)
from polyseme.operations.serialize import Encoding
from polyseme.tokenizer import Case


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
    Field(description="layers of which attention, queries, … are returned, counted from 0"),
]


_NUMBER = regex.compile(r"-?[0-9]{1,9}")
_DECIMAL = regex.compile(r"[0-9]{1,9}(?:\.[0-9]{1,18})?")
_FLAGS = ("true", "false")


class EncodeRequest(Request[Any]):
    """Sentences, and what to return for them."""

    input: Input
    """a sentence, a list of sentences, or a list of lists of words"""
    model: ModelName = None
    include: list[Part] = Field(
        # A tuple, because pydantic would copy a list for each request.
        DEFAULT_PARTS,  # type: ignore[arg-type]
        fail_fast=True,
        description="the arrays to return",
    )
    layers: Layers = "all"
    heads: Literal["all", "mean"] = Field(
        "all", description="attention and scores of each head, or their mean over the heads"
    )
    oov: OovPolicy | None = Field(
        None,
        description="out-of-vocabulary words: a zero vector, a vector composed of subwords, or an"
        " error; by default `subword` if the model has subword vectors, else `zero`",
    )
    case: Case = "auto"
    phrases: Phrases = False
    truncate: bool = Field(
        False, description="truncate sentences that are too long instead of rejecting them"
    )
    encoding: Encoding = "float"
    dtype: Dtype = "float32"
    share: Share = None

    def options(self) -> EncodeOptions:
        """Return the options of the encoder."""
        return EncodeOptions(
            include=frozenset(self.include),
            layers=self.layers,
            mean_heads=self.heads == "mean",
            oov=self.oov,
            case=self.case,
            phrases=self.phrases,
            truncate=self.truncate,
            dtype=self.dtype,
            share=self.share,
        )


def parse_query_value(name: str, sent: Sequence[str]) -> Any:
    """Convert a query parameter of /v1/encode to its JSON value; commas separate list items.

    Invalid values are not rejected here but by validation.
    """
    if name in {"include", "layers"}:
        parts = [_number(part) for part in ",".join(sent).split(",")] if any(sent) else []
        named = name == "layers" and len(parts) == 1 and isinstance(parts[0], str)
        return parts[0] if named else parts
    value = sent[0] if len(sent) == 1 else list(sent)
    if name == "share" and isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    flag = name in {"phrases", "truncate"} and value in _FLAGS
    return value == "true" if flag else value


def _number(text: str) -> int | str:
    return int(text) if _NUMBER.fullmatch(text) else text


class OccurrenceRequest(Request[Any]):
    """An occurrence of a word in a text, given by the word or by its span."""

    text: str
    word: Annotated[str, Field(min_length=1)] | None = None
    nth: int = Field(0, ge=0, description="which occurrence of `word`, counted from 0")
    start: Annotated[int, Field(ge=0)] | None = Field(None, description="in Unicode code points")
    end: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _word_or_span(self) -> "OccurrenceRequest":
        placed = self.start is not None and self.end is not None
        if (self.word is None) != placed or (self.start is None) != (self.end is None):
            raise ValueError("give either `word` or both `start` and `end`")
        if placed and "nth" in self.model_fields_set:
            raise ValueError("`nth` requires `word` instead of `start` and `end`")
        if self.start is not None and not self.start < (self.end or 0) <= len(self.text):
            raise ValueError("`start` and `end` must be a non-empty span of the text")
        return self


class CompareRequest(Request[Any]):
    """Occurrences to compare."""

    occurrences: list[OccurrenceRequest] = Field(min_length=2, max_length=MAX_COMPARED)
    neighbors: int = Field(5, ge=0, le=MAX_LISTED, description="number of neighbors of each vector")
    map: bool = Field(False, description="add a 2D map of the occurrences and their neighbors")
    share: Share = None
    model: ModelName = None
    case: Case = "auto"
    phrases: Phrases = False


def _kind_of_senses(value: Any) -> str | None:
    if value == "auto":
        return "<name>"
    return "<number>" if type(value) is int and 1 <= value <= MAX_SENSES else None


class SensesRequest(Request[Any]):
    """A word and texts to find its senses in, or occurrences of the word."""

    word: Annotated[str, Field(min_length=1)] | None = None
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = None
    forms: Annotated[list[str], Field(max_length=MAX_FORMS, fail_fast=True)] = Field(
        [], description="other forms of the word, such as its plural"
    )
    case: Literal["any", "exact"] = Field(
        "any", description="match occurrences of the word in `any` case or in `exact` case"
    )
    occurrences: Annotated[list[OccurrenceRequest], Field(min_length=1, fail_fast=True)] | None = (
        None
    )
    senses: Annotated[
        Annotated[Literal["auto"], Tag("<name>")]
        | Annotated[int, Field(ge=1, le=MAX_SENSES), Tag("<number>")],
        one_of_kinds(_kind_of_senses, f'must be "auto" or an integer from 1 to {MAX_SENSES}'),
    ] = Field("auto", description="the maximum number of senses; `auto` estimates the number")
    keywords: int = Field(8, ge=0, le=MAX_LISTED, description="number of keywords of each sense")
    neighbors: int = Field(5, ge=0, le=MAX_LISTED, description="number of neighbors of each sense")
    examples: int = Field(3, ge=0, le=MAX_LISTED, description="number of examples of each sense")
    map: bool = Field(False, description="add a position in the plane to each occurrence")
    phrases: Phrases = False
    model: ModelName = None

    @model_validator(mode="after")
    def _texts_or_occurrences(self) -> "SensesRequest":
        if (self.texts is None) == (self.occurrences is None):
            raise ValueError("give either `word` and `texts`, or `occurrences`")
        if self.texts is not None and self.word is None:
            raise ValueError("`texts` requires `word`, the word whose senses are found")
        unused = {"word", "forms", "case"} & self.model_fields_set
        if self.occurrences is not None and unused:
            raise ValueError(f"{', '.join(sorted(unused))}: not used with `occurrences`")
        return self
