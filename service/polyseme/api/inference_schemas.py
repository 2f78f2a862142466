"""The bodies of the Open Inference Protocol: requests, and responses for OpenAPI."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from polyseme.api.responses import ProblemResponse
from polyseme.api.schemas import Layers, Texts, parse_query_value
from polyseme.encoding.options import EncodeOptions, OovPolicy, Part
from polyseme.tokenizer import Case

INPUT = "text"
VERSION = "1"
"""Of every model: a name has one model at a time."""
Datatype: TypeAlias = Literal["BYTES", "FP32", "INT64"]
OutputName: TypeAlias = Literal[
    "static", "contextual", "attention", "offsets", "attention_offsets", "tokens"
]
DATATYPES: dict[OutputName, Datatype] = {
    "static": "FP32",
    "contextual": "FP32",
    "attention": "FP32",
    "offsets": "INT64",
    "attention_offsets": "INT64",
    "tokens": "BYTES",
}
"""The outputs, in the order of a response to a request that names none."""
_PARTS: tuple[Part, ...] = ("static", "contextual", "attention")
_MOST = (1 << 31) - 1
_CONFIG = ConfigDict(extra="forbid", strict=True, frozen=True)


class InputParameters(BaseModel):
    """The binary tensor data extension of an input."""

    model_config = _CONFIG
    binary_data_size: Annotated[int, Field(ge=0)] | None = Field(
        None, description="the tensor's bytes after the JSON, in place of `data`"
    )


def _kind_of_data(value: Any) -> str:
    return "words" if isinstance(value, list) and value and isinstance(value[0], list) else "texts"


Data: TypeAlias = Annotated[
    Annotated[Texts, Tag("texts")] | Annotated[list[Texts], Field(fail_fast=True), Tag("words")],
    Discriminator(_kind_of_data),
    Field(description="the sentences, flat or as nested as the shape"),
]


class InputTensor(BaseModel):
    """The sentences."""

    model_config = _CONFIG
    name: Literal["text"]
    datatype: Literal["BYTES"]
    shape: list[Annotated[int, Field(ge=1, le=_MOST)]] = Field(
        min_length=1, max_length=2, fail_fast=True, description="[S] or [S, 1]"
    )
    data: Data | None = None
    parameters: InputParameters | None = None


class OutputParameters(BaseModel):
    """The binary tensor data extension of an output."""

    model_config = _CONFIG
    binary_data: bool | None = Field(None, description="as bytes after the JSON")


class OutputTensor(BaseModel):
    """A requested output."""

    model_config = _CONFIG
    name: OutputName
    parameters: OutputParameters | None = None


def _layers(value: Any) -> Any:
    """A parameter is a string or a number: `all`, `last`, `2` or `0,2`; a list is taken too."""
    if isinstance(value, str):
        return parse_query_value("layers", [value])
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


class InferParameters(BaseModel):
    """Options for all sentences: the fields of /v1/encode of the same names."""

    model_config = _CONFIG
    binary_data_output: bool = Field(
        False, description="every output as bytes after the JSON, unless the output says otherwise"
    )
    layers: Annotated[Layers, BeforeValidator(_layers)] = "all"
    heads: Literal["all", "mean"] = "all"
    oov: OovPolicy | None = None
    case: Case = "auto"
    truncate: bool = False


class InferRequest(BaseModel):
    """Sentences, and the requested tensors."""

    model_config = _CONFIG
    id: Annotated[str, Field(max_length=256)] | None = Field(
        None, description="returned in the response"
    )
    inputs: list[InputTensor] = Field(min_length=1, max_length=1)
    outputs: Annotated[list[OutputTensor], Field(max_length=16)] | None = Field(
        None, description="all if none is named"
    )
    parameters: InferParameters | None = None

    @property
    def given_parameters(self) -> InferParameters:
        """The parameters, with their defaults."""
        return self.parameters or InferParameters()

    def options(self, names: frozenset[OutputName]) -> EncodeOptions:
        """The options of the encoder for some outputs."""
        given = self.given_parameters
        return EncodeOptions(
            include=frozenset(part for part in _PARTS if part in names),
            layers=given.layers,
            mean_heads=given.heads == "mean",
            oov=given.oov,
            case=given.case,
            truncate=given.truncate,
        )


class _Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ServerResponse(_Response):
    """What this server is."""

    name: Literal["polyseme"]
    version: str
    extensions: list[str]


class ServerLiveResponse(_Response):
    """The process answers."""

    live: Literal[True]


class ServerReadyResponse(_Response):
    """The default model can answer."""

    ready: Literal[True]


class ModelReadyResponse(_Response):
    """The model can answer, or will be loaded at its first use."""

    name: str
    ready: Literal[True]


class TensorResponse(_Response):
    """A tensor; -1 is a variable length."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadataResponse(_Response):
    """The tensors of a model."""

    name: str
    versions: list[str]
    platform: Literal["polyseme"]
    inputs: list[TensorResponse]
    outputs: list[TensorResponse]


class InferOutputParameters(_Response):
    """The bytes of an output follow the JSON, in the order of the outputs."""

    binary_data_size: int


class InferOutputResponse(_Response):
    """A tensor: in `data`, flat and in C order, or after the JSON."""

    name: OutputName
    datatype: Datatype
    shape: list[int]
    data: list[Any] | None = None
    parameters: InferOutputParameters | None = None


class InferResponseParameters(_Response):
    """The shape of attention, and the usage."""

    layers: int = Field(description="of the attention of this answer")
    heads: int = Field(description="of the attention of this answer")
    tokens: int
    oov: int
    truncated: int


class InferResponse(_Response):
    """The tensors of the sentences."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: InferResponseParameters
    outputs: list[InferOutputResponse]


class InferenceProblemResponse(ProblemResponse):
    """An error (RFC 9457), and its text for clients of the Open Inference Protocol."""

    error: str
