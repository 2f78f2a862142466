"""What a request may say. A field that is not here is refused."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import regex
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from polyseme.encoding.answers import Encoding
from polyseme.encoding.choice import Dtype, Part, Unlisted
from polyseme.encoding.pooling import Pooling
from polyseme.models.manifest import NAME_PATTERN
from polyseme.tokenizer import Case

ModelName: TypeAlias = Annotated[
    str | None,
    Field(pattern=NAME_PATTERN, description="a model's name; the default model when left out"),
]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
# A list ends at its first error: a list of a million wrong entries would make a million errors.
Vector: TypeAlias = Annotated[list[Number], Field(min_length=1, fail_fast=True)]
Matrix: TypeAlias = Annotated[list[Vector], Field(min_length=1, fail_fast=True)]
Texts: TypeAlias = Annotated[list[str], Field(fail_fast=True)]


def _kind_of_input(value: Any) -> str:
    if isinstance(value, list):
        return "words" if value and isinstance(value[0], list) else "texts"
    return "text"


def _kind_of_layers(value: Any) -> str:
    return "numbers" if isinstance(value, list) else "name"


TAGS = frozenset({"text", "texts", "words", "numbers", "name"})
"""The names of alternatives, which pydantic puts into the place of an error."""

Input: TypeAlias = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], Field(min_length=1, fail_fast=True), Tag("texts")]
    | Annotated[list[Texts], Field(min_length=1, fail_fast=True), Tag("words")],
    Discriminator(_kind_of_input),
    Field(description="a sentence, several, or several that are already cut into words"),
]
LayerNumbers: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=0)]], Field(min_length=1, fail_fast=True)
]
Layers: TypeAlias = Annotated[
    Annotated[Literal["all", "last"], Tag("name")] | Annotated[LayerNumbers, Tag("numbers")],
    Discriminator(_kind_of_layers),
    Field(description="which layers attention, queries, … are returned for; counted from 0"),
]


_NUMBER = regex.compile(r"-?[0-9]{1,9}")
_FLAGS = ("true", "false")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class EncodeRequest(_Body):
    """Sentences, and what is wanted of them."""

    input: Input
    model: ModelName = None
    include: list[Part] = Field(
        ["static", "contextual", "attention"],
        fail_fast=True,
        description="the arrays of the answer",
    )
    layers: Layers = "all"
    heads: Literal["all", "mean"] = Field(
        "all", description="attention and scores of each head, or their mean over the heads"
    )
    oov: Unlisted | None = Field(
        None,
        description="words the vocabulary lacks: a zero vector, one composed from their subwords,"
        " or refused; `subword` where the model has subword vectors and nothing is said, else"
        " `zero`",
    )
    case: Case = "auto"
    truncate: bool = Field(
        False, description="cut a sentence that is over the limit instead of refusing it"
    )
    encoding: Encoding = "float"
    dtype: Dtype = "float32"


def of_query(name: str, sent: Sequence[str]) -> Any:
    """What a field of the query of /v1/encode would be in JSON; lists have commas in them.

    What cannot be turned is left as it is, for the model to refuse.
    """
    if name in {"include", "layers"}:
        parts = [_number(part) for part in ",".join(sent).split(",")] if any(sent) else []
        named = name == "layers" and len(parts) == 1 and isinstance(parts[0], str)
        return parts[0] if named else parts
    value = sent[0] if len(sent) == 1 else list(sent)
    flag = name == "truncate" and value in _FLAGS
    return value == "true" if flag else value


def _number(text: str) -> int | str:
    return int(text) if _NUMBER.fullmatch(text) else text


class OccurrenceRequest(_Body):
    """A word in a text, by its spelling or by its place."""

    text: str
    word: Annotated[str, Field(min_length=1)] | None = None
    nth: int = Field(0, ge=0, description="which of several, counted from 0")
    start: Annotated[int, Field(ge=0)] | None = Field(None, description="in Unicode code points")
    end: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "OccurrenceRequest":
        placed = self.start is not None and self.end is not None
        if (self.word is None) != placed or (self.start is None) != (self.end is None):
            raise ValueError("give either `word` or both `start` and `end`")
        if placed and "nth" in self.model_fields_set:
            raise ValueError("`nth` goes with `word`, not with `start` and `end`")
        if self.start is not None and not self.start < (self.end or 0) <= len(self.text):
            raise ValueError("`start` and `end` are a span of the text, which is not empty")
        return self


class CompareRequest(_Body):
    """Occurrences to compare."""

    occurrences: list[OccurrenceRequest] = Field(min_length=2, max_length=64)
    neighbors: int = Field(5, ge=0, le=100, description="how many neighbours of each vector")
    map: bool = Field(False, description="add a flat map of the occurrences and their neighbours")
    model: ModelName = None
    case: Case = "auto"


class WeightsRequest(_Body):
    """Projection weights; one that is left out is the identity."""

    query: Matrix | None = Field(None, description="[d, h·k]")
    key: Matrix | None = Field(None, description="[d, h·k]")
    value: Matrix | None = Field(None, description="[d, h·v]")
    output: Matrix | None = Field(None, description="[h·v, d]")


class TraceRequest(_Body):
    """Numbers to follow: embeddings, or queries, keys and values, or the text of a stored model."""

    tokens: Annotated[Texts, Field(min_length=1)] | None = None
    embeddings: Matrix | None = Field(None, description="[n, d]")
    weights: WeightsRequest | None = None
    queries: Matrix | None = Field(None, description="[n, h·k]")
    keys: Matrix | None = Field(None, description="[n, h·k]")
    values: Matrix | None = Field(None, description="[n, h·v]")
    heads: int = Field(1, ge=1, le=1024)
    scale: bool = Field(True, description="divide the scores by √k")
    convention: Literal["row", "column"] = Field("row", description="weights as x·W or as W·x")
    text: str | None = None
    model: ModelName = None
    layer: int = Field(0, ge=0, description="counted from 0")
    case: Case = "auto"

    @model_validator(mode="after")
    def _one_source(self) -> "TraceRequest":
        projected = [self.queries, self.keys, self.values]
        some, whole = any(projected), all(projected)
        sources = (self.text is not None, self.embeddings is not None, some)
        if sum(sources) != 1 or some != whole:
            raise ValueError("give one of: `embeddings`; `queries`, `keys` and `values`; or `text`")
        brought = {"tokens", "weights", "heads", "scale", "convention"}
        stored = {"model", "layer", "case"}
        unused = stored if self.text is None else brought
        unused |= {"weights", "convention"} if some else set()
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if wrong := sorted(unused & given):
            raise ValueError(f"{', '.join(wrong)}: not used with these fields")
        if self.text is None and self.tokens is None:
            raise ValueError("`tokens` names the rows of the numbers")
        return self


class NeighborsRequest(_Body):
    """A word or a vector."""

    word: Annotated[str, Field(min_length=1)] | None = None
    vector: Vector | None = None
    k: int = Field(10, ge=1, le=1000)
    model: ModelName = None
    case: Case = "auto"

    @model_validator(mode="after")
    def _one_of(self) -> "NeighborsRequest":
        if (self.word is None) == (self.vector is None):
            raise ValueError("give either `word` or `vector`")
        return self


def _no_numbers(value: Any) -> Any:
    """Refuse the numbers of OpenAI's tokens: no vocabulary here has their order."""
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    numbers = isinstance(first, int)
    if numbers:
        raise ValueError(
            "send texts, not the numbers of tokens; LangChain's OpenAIEmbeddings does so with"
            " `check_embedding_ctx_length=False`"
        )
    return value


EmbeddingsInput: TypeAlias = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], Field(min_length=1, fail_fast=True), Tag("texts")]
    | Annotated[list[Texts], Field(min_length=1, fail_fast=True), Tag("words")],
    Discriminator(_kind_of_input),
    BeforeValidator(_no_numbers),
    Field(
        description="a text or several, or several cut into words (not OpenAI's); each with a word"
        " that the model has"
    ),
]


class EmbeddingsRequest(_Body):
    """Texts that become one vector each: OpenAI's embeddings API."""

    input: EmbeddingsInput
    # Any string: what is no name here is no model, as OpenAI has it.
    model: str | None = Field(None, description="a model's name; the default model when left out")
    encoding_format: Encoding = Field(
        "float", description="numbers, or the base64 of float32, little-endian"
    )
    dimensions: Annotated[int, Field(ge=1)] | None = Field(
        None, description="keep so many, and make the length 1 again; all when left out"
    )
    user: str | None = Field(None, description="taken, and used for nothing")
    pooling: Pooling | None = Field(
        None, description="not OpenAI's: how, where not as the service's settings say"
    )
    wordless: Literal["refuse", "zero"] = Field(
        "refuse", description="not OpenAI's: a text without a word is refused, or its vector zero"
    )
