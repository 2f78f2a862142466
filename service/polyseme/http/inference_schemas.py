"""Schemas of the Open Inference Protocol.

Response schemas are for the OpenAPI document and tests; the routes do not use them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Tag

from polyseme.http.parsing import parse_query_value
from polyseme.http.responses import ProblemResponse
from polyseme.operations.options import EncodeOptions, Layers, Part, SentenceOptions
from polyseme.operations.schema import Texts, one_of_kinds

INPUT = "text"
VERSION = "1"
"""The version reported for every model; models are not versioned."""
Datatype: TypeAlias = Literal["BYTES", "FP32", "INT64"]
OutputName: TypeAlias = Literal[
    "static", "contextual", "features", "attention", "offsets", "attention_offsets", "tokens"
]
DATATYPES: dict[OutputName, Datatype] = {
    "static": "FP32",
    "contextual": "FP32",
    "features": "FP32",
    "attention": "FP32",
    "offsets": "INT64",
    "attention_offsets": "INT64",
    "tokens": "BYTES",
}
DEFAULT_OUTPUTS = tuple(name for name in DATATYPES if name != "features")
"""The outputs of a request without `outputs`, in this order."""
_PARTS: tuple[Part, ...] = ("static", "contextual", "features", "attention")
_MAX_SIZE = (1 << 31) - 1
_CONFIG = ConfigDict(extra="forbid", strict=True, frozen=True)


class InputParameters(BaseModel):
    """The parameters of an input, from the binary tensor data extension."""

    model_config = _CONFIG
    binary_data_size: Annotated[int, Field(ge=0)] | None = Field(
        None, description="size in bytes of the tensor if it is sent after the JSON, without `data`"
    )


def _kind_of_data(value: Any) -> str | None:
    if isinstance(value, list):
        return "<nested>" if value and isinstance(value[0], list) else "<flat>"
    return None


Data: TypeAlias = Annotated[
    Annotated[Texts, Tag("<flat>")]
    | Annotated[list[Texts], Field(fail_fast=True), Tag("<nested>")],
    one_of_kinds(_kind_of_data, "must be a list of strings, or a list of lists of strings"),
    Field(description="a flat list of sentences, or lists of one sentence for the shape [S, 1]"),
]


class InputTensor(BaseModel):
    """The sentences."""

    model_config = _CONFIG
    name: Literal["text"]
    datatype: Literal["BYTES"]
    shape: list[Annotated[int, Field(ge=1, le=_MAX_SIZE)]] = Field(
        min_length=1, max_length=2, fail_fast=True, description="[S] or [S, 1]"
    )
    data: Data | None = None
    parameters: InputParameters | None = None


class OutputParameters(BaseModel):
    """The parameters of an output, from the binary tensor data extension."""

    model_config = _CONFIG
    binary_data: bool | None = Field(
        None, description="whether to return the tensor as bytes after the JSON"
    )


class OutputTensor(BaseModel):
    """A requested output."""

    model_config = _CONFIG
    name: OutputName
    parameters: OutputParameters | None = None


def _layers(value: Any) -> Any:
    """Convert the parameter to `layers` of /v1/encode, for example "0,2" to [0, 2].

    A parameter of this protocol cannot be a list.
    """
    if isinstance(value, str):
        return parse_query_value("layers", [value])
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


class InferParameters(SentenceOptions):
    """Options for all sentences: `binary_data_output`, and fields of /v1/encode."""

    binary_data_output: bool = Field(
        False, description="the default of each output's `binary_data`"
    )
    layers: Annotated[Layers, BeforeValidator(_layers)] = "all"


class InferRequest(BaseModel):
    """Sentences, requested outputs and options."""

    model_config = _CONFIG
    id: Annotated[str, Field(max_length=256)] | None = Field(
        None, description="returned in the response"
    )
    inputs: list[InputTensor] = Field(min_length=1, max_length=1)
    outputs: Annotated[list[OutputTensor], Field(max_length=16)] | None = Field(
        None, description="default: all outputs but `features`"
    )
    parameters: InferParameters | None = None

    @property
    def given_parameters(self) -> InferParameters:
        """The parameters of the request, or the defaults."""
        return self.parameters or InferParameters()

    def options(self, names: frozenset[OutputName]) -> EncodeOptions:
        """Return the options of the encoder for the requested outputs."""
        given = self.given_parameters.model_dump(exclude={"binary_data_output"})
        return EncodeOptions(include=[part for part in _PARTS if part in names], **given)


class _Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ServerResponse(_Response):
    """Server metadata."""

    name: Literal["polyseme"]
    version: str
    extensions: list[str]


class ServerLiveResponse(_Response):
    """The server is live."""

    live: Literal[True]


class ServerReadyResponse(_Response):
    """The server is ready: the default model can be used and the service is not draining."""

    ready: Literal[True]


class ModelReadyResponse(_Response):
    """The model is loaded."""

    name: str
    ready: Literal[True]


class TensorResponse(_Response):
    """Name, datatype and shape of a tensor; -1 is a variable size."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadataResponse(_Response):
    """Name, versions, platform and tensors of a model."""

    name: str
    versions: list[str]
    platform: Literal["polyseme"]
    inputs: list[TensorResponse]
    outputs: list[TensorResponse]


class InferOutputParameters(_Response):
    """The size in bytes of a binary output; the bytes follow the JSON in the order of outputs."""

    binary_data_size: int = Field(description="size in bytes")


class InferOutputResponse(_Response):
    """An output tensor: in `data`, flattened in C order, or as bytes after the JSON."""

    name: OutputName
    datatype: Datatype
    shape: list[int]
    data: list[Any] | None = None
    parameters: InferOutputParameters | None = None


class InferResponseParameters(_Response):
    """The layers and heads of `attention`, and counts of all, unknown and truncated tokens."""

    layers: int = Field(description="number of layers of `attention` in this response")
    heads: int = Field(description="number of heads of `attention` in this response")
    tokens: int
    oov: int
    truncated: int


class InferResponse(_Response):
    """The output tensors."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: InferResponseParameters
    outputs: list[InferOutputResponse]


class InferenceProblemResponse(ProblemResponse):
    """An error (RFC 9457), with the member `error` of the Open Inference Protocol."""

    error: str
