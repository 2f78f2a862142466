"""What an answer of the Open Inference Protocol looks like."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from polyseme.http.inference_requests import OutputName
from polyseme.http.replies import ProblemReply
from polyseme.http.tensors import Datatype


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ServerReply(_Reply):
    """What this server is."""

    name: Literal["polyseme"]
    version: str
    extensions: list[str]


class ServerLiveReply(_Reply):
    """The process answers."""

    live: Literal[True]


class ServerReadyReply(_Reply):
    """The default model answers."""

    ready: Literal[True]


class ModelReadyReply(_Reply):
    """A model answers, or will be loaded at its first use."""

    name: str
    ready: Literal[True]


class TensorReply(_Reply):
    """What a tensor is; -1 is a length that varies."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadataReply(_Reply):
    """The tensors of a model."""

    name: str
    versions: list[str]
    platform: Literal["polyseme"]
    inputs: list[TensorReply]
    outputs: list[TensorReply]


class InferOutputParameters(_Reply):
    """Where the bytes of an output are: after the JSON, in the order of the outputs."""

    binary_data_size: int


class InferOutputReply(_Reply):
    """A tensor: in `data`, flat and in C order, or after the JSON."""

    name: OutputName
    datatype: Datatype
    shape: list[int]
    data: list[Any] | None = None
    parameters: InferOutputParameters | None = None


class InferReplyParameters(_Reply):
    """How attention is shaped, and what the request took."""

    layers: int = Field(description="of the attention of this answer")
    heads: int = Field(description="of the attention of this answer")
    tokens: int
    oov: int
    truncated: int


class InferReply(_Reply):
    """The tensors of the sentences."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: InferReplyParameters
    outputs: list[InferOutputReply]


class InferenceProblemReply(ProblemReply):
    """An error (RFC 9457), and its text for clients of the Open Inference Protocol."""

    error: str
