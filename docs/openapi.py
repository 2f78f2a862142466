"""Make the OpenAPI 3.1 document from the catalogue of operations, and the schemas of responses.

make docs           (a test compares the committed file with the output)

The service sends the file as it is. It writes responses without the
classes below, which tests validate them with.
"""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter

from polyseme import __version__
from polyseme.engine.layers import Term
from polyseme.http.inference import (
    BINARY,
    HEADER_LENGTH,
    VERSION,
    Datatype,
    InferRequest,
    OutputName,
)
from polyseme.http.parsing import JSON, NDJSON, NPZ
from polyseme.operations.catalog import OPERATIONS
from polyseme.operations.embed import EmbeddingsRequest, Pooling
from polyseme.operations.encode import EncodeRequest, Token
from polyseme.operations.schema import Dtype

FILE = Path(__file__).parents[1] / "service/polyseme/http/openapi.json"
_REF = "#/components/schemas/{model}"
_PROBLEM = "application/problem+json"
_STATUSES = {
    400: "The body is not JSON.",
    401: "A required key is missing or wrong.",
    404: "No such model or route.",
    405: "The route does not allow this method.",
    406: "The route does not offer this media type.",
    413: "A size limit is exceeded; `detail` names the limit and the size; `errors` names a"
    " sentence that is too long.",
    415: "The route does not accept this media type.",
    421: "The Host header is not a host of the service.",
    422: "A field is missing, unknown, of the wrong type or out of range.",
    429: "The rate limit of the caller is exceeded; see Retry-After.",
    500: "An internal error.",
    503: "The service is not ready, draining or overloaded; see Retry-After.",
}
_POST_ERRORS = (400, 401, 404, 406, 413, 415, 421, 422, 429, 500, 503)
_GET_ERRORS = (401, 406, 421, 429, 500)
_WITH_RETRY_AFTER = frozenset({429, 503})


class _Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Base64Array(_Response):
    """The bytes of an array in base64: little-endian, C order."""

    shape: list[int]
    dtype: Dtype
    data: str


_Rows: TypeAlias = list[list[float]] | Base64Array | None
_Nested: TypeAlias = list[Any] | Base64Array | None


class SentenceDocument(_Response):
    """One sentence, with the requested arrays."""

    tokens: list[Token]
    truncated: int
    """number of words removed by truncation"""
    static: _Rows = None
    """[n, d]"""
    contextual: _Rows = None
    """[n, d]"""
    features: _Rows = None
    """[n, 2d], the unit static vector followed by the unit context"""
    attention: _Nested = None
    """[L, h, n, n], or [L, n, n] as the mean of the heads; row = query token"""
    contributions: _Nested = None
    """[L, n, m]: the exact share of each token in a contextual vector, all heads together, then
    those of the residual, the position and the output bias, where they belong to the sum"""
    queries: _Nested = None
    """[L, h, n, k]"""
    keys: _Nested = None
    """[L, h, n, k]"""
    values: _Nested = None
    """[L, h, n, v]"""
    scores: _Nested = None
    """[L, h, n, n], or [L, n, n] as the mean of the heads: queries·keysᵀ before scaling, biases and
    softmax"""


class Usage(_Response):
    """Token counts of the request."""

    tokens: int
    oov: int
    """number of tokens without a vector"""
    truncated: int
    """number of words removed by truncation"""


class EncodeDocument(_Response):
    """Static vectors, contextual vectors and attention."""

    model: str
    dimension: int
    layers: int
    """number of layers of the model"""
    heads: int
    """number of attention heads of the model"""
    results: list[SentenceDocument]
    usage: Usage
    notes: list[str] | None = None
    """warnings, if there are any: a text that has to be segmented"""
    terms: list[Term] | None = None
    """with `contributions`: what the columns after those of the tokens are"""


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


class Route(NamedTuple):
    """One method of one path: POST if it has a body, else GET."""

    path: str
    name: str
    summary: str
    response: type
    """a pydantic model, or a dataclass that an operation returns"""
    errors: tuple[int, ...] = ()
    problem: type[ProblemResponse] = ProblemResponse
    body: type[BaseModel] | None = None

    @property
    def method(self) -> str:
        """The method in lower case."""
        return "post" if self.body else "get"

    @property
    def tag(self) -> str:
        """The group of the route."""
        starts = {"/v1/models": "models", "/v1/": "vectors", "/v2/models": "inference"}
        return next((tag for start, tag in starts.items() if self.path.startswith(start)), "health")


def _inference(path: str, suffix: str = "") -> tuple[Route, ...]:
    """Return the routes of the Open Inference Protocol at a path of a model or its version."""
    errors, problem = (*_GET_ERRORS, 404, 503), InferenceProblemResponse
    get, check = "Get the tensors of a model", "Check whether a model is ready"
    post = "Encode sentences as tensors"
    ready, infer = f"model_ready{suffix}", f"infer{suffix}"
    return (
        Route(path, f"metadata{suffix}", get, ModelMetadataResponse, errors, problem),
        Route(f"{path}/ready", ready, check, ModelReadyResponse, errors, problem),
        Route(f"{path}/infer", infer, post, InferResponse, _POST_ERRORS, problem, InferRequest),
    )


_LIVE, _READY = "Check whether the process is running", "Check whether the service is ready"
_ENCODE, _SERVER = "Encode sentences as vectors and attention", "Get the metadata of the server"
_MODEL_ERRORS, _OPENAI = (*_GET_ERRORS, 404), OpenAIProblemResponse
_HEALTH, _V2 = "/v2/health", InferenceProblemResponse
ROUTES = (
    Route("/v1/encode", "encode", _ENCODE, EncodeDocument, _POST_ERRORS, body=EncodeRequest),
    *(
        Route(
            f"/v1/{one.path}",
            one.name,
            one.summary,
            one.document or one.result,
            _POST_ERRORS,
            _OPENAI if one.request is EmbeddingsRequest else ProblemResponse,
            one.request,
        )
        for one in OPERATIONS.values()
    ),
    Route("/v1/models", "models", "List all models", ModelsResponse, _GET_ERRORS, _OPENAI),
    Route("/v1/models/{name}", "model", "Get one model", ModelResponse, _MODEL_ERRORS, _OPENAI),
    Route("/livez", "livez", _LIVE, LiveResponse),
    Route("/readyz", "readyz", _READY, ReadyResponse, (503,), NotReadyResponse),
    Route("/v2", "server", _SERVER, ServerResponse, (406, 421, 500), _V2),
    Route(f"{_HEALTH}/live", "server_live", _LIVE, ServerLiveResponse),
    Route(f"{_HEALTH}/ready", "server_ready", _READY, ServerReadyResponse, (503,), _V2),
    *_inference("/v2/models/{name}"),
    *_inference(f"/v2/models/{{name}}/versions/{VERSION}", "_of_version"),
)


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    kinds = {kind for one in ROUTES for kind in (one.body, one.response, one.problem) if kind}
    schemas = _schemas(kinds)
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method] = _operation(route)
    encode, query = paths["/v1/encode"]["post"], schemas["EncodeRequest"]["properties"]
    _add_media(encode, query)
    for path, methods in paths.items():
        if path.endswith("/infer"):
            length = f"JSON, whose length is in {HEADER_LENGTH}"
            text = _text(BINARY, f"{length}, and the bytes of the tensors")
            methods["post"]["requestBody"]["content"][BINARY] = text
            methods["post"]["responses"]["200"]["content"][BINARY] = text
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Polyseme",
            "version": __version__,
            "summary": "Contextual word vectors from static ones",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # /v1/… and /v2/models/… require a key if keys or a key file are set.
        "security": [{}, {"key": []}],
    }


def _schemas(kinds: set[type]) -> dict[str, Any]:
    """Return the schemas of models and dataclasses, and of the types of their fields."""
    adapters = [TypeAdapter[Any](kind) for kind in sorted(kinds, key=lambda kind: kind.__name__)]
    _, document = TypeAdapter.json_schemas(
        [(index, "validation", adapter) for index, adapter in enumerate(adapters)],
        ref_template=_REF,
    )
    schemas: dict[str, Any] = document["$defs"]
    classes: dict[str, Any] = {}
    for kind in kinds:  # a module has the types of its fields, too
        classes |= vars(sys.modules[kind.__module__])
    for name, schema in schemas.items():
        schema.setdefault("additionalProperties", False)
        for base in classes[name].__mro__:
            if not base.__module__.startswith(("polyseme.", __name__)):
                continue
            docstrings = _docstrings(sys.modules[base.__module__])
            for field, described in schema["properties"].items():
                if (base.__name__, field) in docstrings:
                    described.setdefault("description", docstrings[base.__name__, field])
    return schemas


@cache
def _docstrings(module: ModuleType) -> dict[tuple[str, str], str]:
    """Return the docstrings of the fields of a module's classes, by class and field.

    pydantic can read them too, but does so when a class is made, in the service as well.
    """
    docstrings: dict[tuple[str, str], str] = {}
    for definition in ast.parse(inspect.getsource(module)).body:
        if isinstance(definition, ast.ClassDef):
            for pair in pairwise(definition.body):
                match pair:
                    case (
                        ast.AnnAssign(target=ast.Name(id=field)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        docstrings[definition.name, field] = " ".join(text.split())
    return docstrings


def _operation(route: Route) -> dict[str, Any]:
    headers = {
        "X-Request-ID": _header("the ID that the client sent, if it is valid, or a random one"),
        "Server-Timing": _header("duration of each stage in milliseconds"),
    }
    content = {JSON: {"schema": _reference(route.response)}}
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {
            "200": {"description": "Success.", "content": content, "headers": headers},
        },
    }
    for status in route.errors:
        problem: dict[str, Any] = {
            "description": _STATUSES[status],
            "content": {_PROBLEM: {"schema": _reference(route.problem)}},
        }
        if status in _WITH_RETRY_AFTER:
            wait = _header("seconds to wait before the next attempt")
            problem["headers"] = {"Retry-After": wait}
        described["responses"][str(status)] = problem
    if route.tag == "health":
        described["security"] = []
    if route.body:
        sent = {JSON: {"schema": _reference(route.body)}}
        described["requestBody"] = {"required": True, "content": sent}
    if "{name}" in route.path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        described["parameters"] = [name]
    return described


def _add_media(encode: dict[str, Any], properties: dict[str, Any]) -> None:
    """Add the other media types of /v1/encode, and the query for an NDJSON body."""
    encode["requestBody"]["content"][NDJSON] = _text(
        NDJSON, "one sentence per line, as a string or a list of words"
    )
    encode["responses"]["200"]["content"] |= {
        NDJSON: _text(
            NDJSON,
            "one entry of `results` per line; the last line has `complete`, and `usage` or `error`",
        ),
        NPZ: {"schema": {"type": "string", "contentMediaType": NPZ}},
    }
    encode["parameters"] = [
        {
            "name": name,
            "in": "query",
            "description": f"only with a body of type {NDJSON}",
            "style": "form",  # commas separate list items
            "explode": False,
            "schema": _not_null(schema),
        }
        for name, schema in properties.items()
        if name != "input"
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field without null, which no query has."""
    kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
    facts = {key: value for key, value in schema.items() if value is not None}
    return {**facts, "anyOf": kinds}


def _text(media: str, description: str) -> dict[str, Any]:
    return {"schema": {"type": "string", "contentMediaType": media, "description": description}}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": _REF.format(model=kind.__name__)}


def content() -> bytes:
    """Return the content of the file."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    FILE.write_bytes(content())
