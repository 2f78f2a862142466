"""What an answer looks like.

These models describe answers in OpenAPI and check them in tests; the answers themselves are
written from arrays (`encoding/documents.py`).
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from polyseme.tokenizer import Resolution


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Base64Array(_Reply):
    """An array as bytes: little-endian, C order."""

    shape: list[int]
    dtype: Literal["float32", "float16"]
    data: str


class TokenReply(_Reply):
    """A token and the vocabulary entry that stands for it."""

    text: str
    start: int | None = Field(description="code points; null for words that came already cut")
    end: int | None
    key: str | None = Field(description="the vocabulary entry; null where there is none")
    resolution: Resolution


class ResultReply(_Reply):
    """One sentence. An array is there if it was asked for."""

    tokens: list[TokenReply]
    truncated: int
    static: list[list[float]] | Base64Array | None = Field(None, description="[n, d]")
    contextual: list[list[float]] | Base64Array | None = Field(None, description="[n, d]")
    attention: list[Any] | Base64Array | None = Field(
        None, description="[L, h, n, n], [L, n, n] as a mean; row = the token that looks"
    )
    queries: list[Any] | Base64Array | None = Field(None, description="[L, h, n, k]")
    keys: list[Any] | Base64Array | None = Field(None, description="[L, h, n, k]")
    values: list[Any] | Base64Array | None = Field(None, description="[L, h, n, v]")
    scores: list[Any] | Base64Array | None = Field(
        None, description="[L, h, n, n], queries·keysᵀ before scaling, biases and softmax"
    )


class UsageReply(_Reply):
    """What the request took."""

    tokens: int
    oov: int
    truncated: int


class EncodeReply(_Reply):
    """Static vectors, contextual vectors and attention."""

    model: str
    dimension: int
    layers: int
    heads: int
    results: list[ResultReply]
    usage: UsageReply


class NeighborReply(_Reply):
    """A word and its cosine."""

    word: str
    similarity: float


class LookReply(_Reply):
    """A token that is looked at."""

    text: str
    start: int | None
    end: int | None
    weight: float


class OccurrenceReply(_Reply):
    """One occurrence, before and after context."""

    token: TokenReply
    shift: float = Field(description="1 − cosine(static, contextual)")
    static_neighbors: list[NeighborReply]
    contextual_neighbors: list[NeighborReply]
    attends_to: list[LookReply]


Position: TypeAlias = Annotated[list[float], Field(min_length=2, max_length=2)]


class MappedReply(_Reply):
    """A neighbour's place on the map."""

    word: str
    position: Position


class MapReply(_Reply):
    """Occurrences and neighbours in the plane: the first two principal components."""

    explained_variance_ratio: Position = Field(description="the share of each axis")
    static: list[Position | None] = Field(description="of each occurrence; null for a zero vector")
    contextual: list[Position | None] = Field(
        description="of each occurrence, as its neighbours are found"
    )
    neighbors: list[MappedReply]


class CompareReply(_Reply):
    """Occurrences side by side."""

    model: str
    occurrences: list[OccurrenceReply]
    static_similarity: list[list[float]]
    contextual_similarity: list[list[float]]
    notes: list[str]
    map: MapReply | None = Field(None, description="where it was asked for")


class StepReply(_Reply):
    """One step of the arithmetic."""

    name: str
    formula: str
    shape: list[int]
    values: list[Any]


class TraceReply(_Reply):
    """Every step, in float64."""

    tokens: list[str]
    steps: list[StepReply]


class NeighborsReply(_Reply):
    """The nearest words, best first."""

    neighbors: list[NeighborReply]


class EmbeddingReply(_Reply):
    """The vector of one text, of length 1."""

    object: Literal["embedding"]
    index: int = Field(description="of the text in `input`")
    embedding: list[float] | str = Field(description="[d], or base64 of float32, little-endian")


class EmbeddingsUsageReply(_Reply):
    """What the request took, in tokens of this service."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(_Reply):
    """One vector of each text: OpenAI's shape."""

    object: Literal["list"]
    data: list[EmbeddingReply]
    model: str
    usage: EmbeddingsUsageReply


class ModelReply(_Reply):
    """A model: OpenAI's shape, and what the manifest says."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    default: bool
    status: Literal["ok", "broken"] = Field(description="whether it answers")
    problem: str | None = Field(
        None, description="why it is broken, or why a changed folder was not taken over"
    )
    dimension: int | None = None
    vocabulary_size: int | None = None
    dtype: str | None = None
    bytes: int | None = Field(None, description="of its files on the disk")
    layers: int | None = None
    heads: int | None = None
    cased: bool | None = None
    subwords: bool | None = Field(None, description="it composes words it does not have")
    languages: list[str] | None = None
    licence: str | None = None
    source: str | None = None
    training: dict[str, Any] | None = None
    quality: dict[str, Any] | None = None


class ModelsReply(_Reply):
    """All models."""

    object: Literal["list"]
    data: list[ModelReply]


class LiveReply(_Reply):
    """The process answers."""

    status: Literal["alive"]


class ModelStateReply(_Reply):
    """How a model stands in the worker that answers."""

    id: str
    default: bool
    status: Literal["loaded", "unloaded", "broken"] = Field(
        description="an unloaded model is loaded at its first use; a broken one cannot be"
    )
    problem: str | None = Field(
        None, description="why it is broken, or why a changed folder was not taken over"
    )


class ReadyReply(_Reply):
    """The default model answers."""

    status: Literal["ready"]
    models: list[ModelStateReply]


class FieldErrorReply(_Reply):
    """What is wrong with one field."""

    pointer: str
    message: str


class ProblemReply(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    request_id: str
    errors: list[FieldErrorReply] | None = None


class OpenAIErrorReply(_Reply):
    """An error as OpenAI's API has it."""

    message: str
    type: str
    param: str | None = Field(description="the first field that is wrong, such as `input[3]`")
    code: str


class OpenAIProblemReply(ProblemReply):
    """An error (RFC 9457), and the same for clients of OpenAI's API."""

    error: OpenAIErrorReply


class NotReadyReply(ProblemReply):
    """The default model cannot be used; `detail` says why."""

    models: list[ModelStateReply]
