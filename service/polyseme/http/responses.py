"""Response schemas for OpenAPI and tests; the routes serialize responses without them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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
    status: Literal["ok", "broken"] = Field(description="whether the model can be used")
    problem: str | None = Field(
        None, description="why it is broken, or why a changed folder is not in use"
    )
    embeddings: PoolingResponse | None = Field(
        None, description="how /v1/embeddings pools the vectors of a text"
    )
    dimension: int | None = None
    vocabulary_size: int | None = None
    dtype: str | None = None
    bytes: int | None = Field(None, description="size on disk")
    layers: int | None = None
    heads: int | None = None
    cased: bool | None = None
    subwords: bool | None = Field(
        None, description="whether it composes vectors of out-of-vocabulary words"
    )
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
    status: Literal["loaded", "unloaded", "broken"] = Field(
        description="an unloaded model is loaded at its first use; a broken one cannot be used"
    )
    problem: str | None = Field(
        None, description="why it is broken, or why a changed folder is not in use"
    )


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
    param: str | None = Field(description="the first invalid field, such as `input[3]`")
    code: str


class OpenAIProblemResponse(ProblemResponse):
    """An error (RFC 9457), and the same for clients of OpenAI's API."""

    error: OpenAIErrorResponse


class NotReadyResponse(ProblemResponse):
    """The service is not ready; `detail` says why."""

    models: list[ModelStateResponse]
