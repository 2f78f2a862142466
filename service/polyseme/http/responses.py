"""Response schemas for OpenAPI and tests; the routes serialize responses without them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from polyseme.http.inference import Datatype, OutputName
from polyseme.operations.embed import Pooling


class _Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PoolingResponse(_Response):
    """The default pooling of /v1/embeddings, and the vectors that it pools."""

    pooling: Pooling
    vectors: Literal["static", "contextual"]


class ModelResponse(_Response):
    """A model in OpenAI's format, with its manifest."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    default: bool
    status: Literal["ok", "broken"]
    """whether the model can be used"""
    problem: str | None = None
    """why it is broken, or why a changed folder is not in use"""
    embeddings: PoolingResponse | None = None
    """how /v1/embeddings pools the vectors of a text"""
    dimension: int | None = None
    vocabulary_size: int | None = None
    dtype: str | None = None
    bytes: int | None = None
    """size on disk, without the tables of a base"""
    base: str | None = None
    """the bundled model whose vocabulary, vectors and subwords it uses, null if it has its own"""
    layers: int | None = None
    heads: int | None = None
    cased: bool | None = None
    subwords: bool | None = None
    """whether it composes vectors of out-of-vocabulary words"""
    languages: list[str] | None = None
    licence: str | None = None
    source: str | None = None
    training: dict[str, Any] | None = None
    quality: dict[str, Any] | None = None


class ModelsResponse(_Response):
    """All models."""

    object: Literal["list"]
    data: list[ModelResponse]


class LiveResponse(_Response):
    """The process is running."""

    status: Literal["alive"]


class ModelStateResponse(_Response):
    """The status of a model in the responding worker."""

    id: str
    default: bool
    status: Literal["loaded", "unloaded", "broken"]
    """an unloaded model is loaded at its first use; a broken one cannot be used"""
    problem: str | None = None
    """why it is broken, or why a changed folder is not in use"""


class ReadyResponse(_Response):
    """The default model can be used and the service is not draining."""

    status: Literal["ready"]
    models: list[ModelStateResponse]


class FieldErrorResponse(_Response):
    """An error in one field."""

    pointer: str
    message: str


class ProblemResponse(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    request_id: str
    errors: list[FieldErrorResponse] | None = None


class OpenAIErrorResponse(_Response):
    """An error in OpenAI's format."""

    message: str
    type: str
    param: str | None
    """the first invalid field, such as `input[3]`"""
    code: str


class OpenAIProblemResponse(ProblemResponse):
    """An error (RFC 9457), and the same for clients of OpenAI's API."""

    error: OpenAIErrorResponse


class NotReadyResponse(ProblemResponse):
    """The service is not ready; `detail` says why."""

    models: list[ModelStateResponse]


# The Open Inference Protocol.


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

    binary_data_size: int
    """size in bytes"""


class InferOutputResponse(_Response):
    """An output tensor: in `data`, flattened in C order, or as bytes after the JSON."""

    name: OutputName
    datatype: Datatype
    shape: list[int]
    data: list[Any] | None = None
    parameters: InferOutputParameters | None = None


class InferResponseParameters(_Response):
    """The layers and heads of `attention`, and counts of all, unknown and truncated tokens."""

    layers: int
    """number of layers of `attention` in this response"""
    heads: int
    """number of heads of `attention` in this response"""
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
