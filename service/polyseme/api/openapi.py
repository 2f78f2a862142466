"""The OpenAPI 3.1 document, made from the models that requests are checked with."""

from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from polyseme import __version__
from polyseme.api import inference_schemas as protocol
from polyseme.api import responses, schemas
from polyseme.api.inference_schemas import VERSION, InferRequest
from polyseme.api.parsing import BINARY, JSON, NDJSON, NPZ

_REF = "#/components/schemas/{model}"
_PROBLEM = "application/problem+json"

_STATUSES = {
    400: "The body is not JSON.",
    401: "A key is required and is missing or wrong.",
    404: "No such model or route.",
    405: "No such method.",
    406: "The route does not offer this media type.",
    413: "Over a limit; `detail` names the limit and the size.",
    415: "The route does not accept this media type.",
    422: "A field is missing, unknown, of the wrong type or out of range.",
    429: "Over the caller's rate; see Retry-After.",
    500: "An internal error.",
    503: "Not ready, draining or overloaded; see Retry-After.",
}
_COMPUTING = (400, 401, 404, 406, 413, 415, 422, 429, 500, 503)
_CATALOGUE = (401, 406, 429, 500)
_LATER = frozenset({429, 503})
_PROBLEMS: dict[str, type[responses.ProblemResponse]] = {
    "embeddings": responses.OpenAIProblemResponse,
    "models": responses.OpenAIProblemResponse,
    "model": responses.OpenAIProblemResponse,
    "readyz": responses.NotReadyResponse,
}
"""The errors of operations whose errors have members of their own."""


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    name: str
    summary: str
    body: type[BaseModel] | None
    response: type[BaseModel] | None
    errors: tuple[int, ...]
    tag: str


def _of_model(path: str, suffix: str) -> tuple[Operation, ...]:
    """The routes of the Open Inference Protocol for a model, or for its one version."""
    errors = (*_CATALOGUE, 404, 503)
    return (
        Operation(
            *("get", path, f"metadata{suffix}", "The tensors of a model"),
            *(None, protocol.ModelMetadataResponse, errors, "inference"),
        ),
        Operation(
            *("get", f"{path}/ready", f"model_ready{suffix}", "Whether a model can answer"),
            *(None, protocol.ModelReadyResponse, errors, "inference"),
        ),
        Operation(
            *("post", f"{path}/infer", f"infer{suffix}", "Tensors of sentences"),
            *(InferRequest, protocol.InferResponse, _COMPUTING, "inference"),
        ),
    )


OPERATIONS = (
    Operation(
        *("post", "/v1/encode", "encode", "Static vectors, contextual vectors and attention"),
        *(schemas.EncodeRequest, responses.EncodeResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/compare", "compare", "Occurrences of words side by side"),
        *(schemas.CompareRequest, responses.CompareResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/trace", "trace", "Every step of the arithmetic, in float64"),
        *(schemas.TraceRequest, responses.TraceResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/neighbors", "neighbors", "The words nearest to a word or a vector"),
        *(schemas.NeighborsRequest, responses.NeighborsResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/embeddings", "embeddings", "One vector of each text, in OpenAI's format"),
        *(schemas.EmbeddingsRequest, responses.EmbeddingsResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("get", "/v1/models", "models", "All models"),
        *(None, responses.ModelsResponse, _CATALOGUE, "models"),
    ),
    Operation(
        *("get", "/v1/models/{name}", "model", "One model"),
        *(None, responses.ModelResponse, (*_CATALOGUE, 404), "models"),
    ),
    Operation(
        *("get", "/livez", "livez", "Whether the process answers"),
        *(None, responses.LiveResponse, (), "health"),
    ),
    Operation(
        *("get", "/readyz", "readyz", "Whether the default model can answer"),
        *(None, responses.ReadyResponse, (503,), "health"),
    ),
    Operation(
        *("get", "/v2", "server", "What this server is, by the Open Inference Protocol"),
        *(None, protocol.ServerResponse, (406, 500), "health"),
    ),
    Operation(
        *("get", "/v2/health/live", "server_live", "Whether the process answers"),
        *(None, protocol.ServerLiveResponse, (), "health"),
    ),
    Operation(
        *("get", "/v2/health/ready", "server_ready", "Whether the default model can answer"),
        *(None, protocol.ServerReadyResponse, (503,), "health"),
    ),
    *_of_model("/v2/models/{name}", ""),
    *_of_model(f"/v2/models/{{name}}/versions/{VERSION}", "_of_version"),
)


def document() -> dict[str, Any]:
    """The whole document."""
    inputs = {o.body for o in OPERATIONS if o.body}
    outputs: set[type[BaseModel]] = {o.response for o in OPERATIONS if o.response} | {
        responses.ProblemResponse,
        protocol.InferenceProblemResponse,
        *_PROBLEMS.values(),
    }
    ordered = sorted(
        [(m, "validation") for m in inputs] + [(m, "serialization") for m in outputs],
        key=lambda m: m[0].__name__,
    )
    _, schemas = models_json_schema(ordered, ref_template=_REF)  # type: ignore[arg-type]
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
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
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # With keys set, /v1 and /v2 require one.
        "security": [{}, {"key": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {"200": _success(operation)},
    }
    described["responses"] |= {
        str(status): _problem(status, operation) for status in sorted(operation.errors)
    }
    if operation.tag == "health":
        described["security"] = []
    if operation.body:
        content = {JSON: {"schema": _reference(operation.body)}}
        described["requestBody"] = {"required": True, "content": content}
    if operation.name == "encode":
        content[NDJSON] = {"schema": _lines("a sentence, or a list of its words, in each line")}
        described["parameters"] = _query(schemas.EncodeRequest)
    if operation.body is InferRequest:
        content[BINARY] = {"schema": _bytes_after_json()}
    if "{name}" in operation.path:
        schema = {"type": "string"}
        described["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": schema}
        ]
    return described


def _query(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The fields in the query if the body is lines; commas separate the entries of a list."""
    _, schemas = models_json_schema([(model, "validation")], ref_template=_REF)
    fields = schemas["$defs"][model.__name__]["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "description": f"with a body of {NDJSON} alone",
            "style": "form",
            "explode": False,
            "schema": schema,
        }
        for name, schema in fields.items()
        if name != "input"
    ]


def _bytes_after_json() -> dict[str, str]:
    description = "the JSON, of the length in Inference-Header-Content-Length, and bytes"
    return {"type": "string", "contentMediaType": BINARY, "description": description}


def _lines(description: str) -> dict[str, str]:
    return {"type": "string", "contentMediaType": NDJSON, "description": description}


def _success(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": _reference(operation.response)}}
    if operation.name == "encode":
        content[NDJSON] = {
            "schema": _lines(
                "an entry of `results` in each line, and a last line: `complete`, and `usage` or"
                " `error`"
            )
        }
        content[NPZ] = {"schema": {"type": "string", "contentMediaType": NPZ}}
    if operation.body is InferRequest:
        content[BINARY] = {"schema": _bytes_after_json()}
    headers = {
        "X-Request-ID": _header("the client's own if it is valid"),
        "Server-Timing": _header("milliseconds of each stage"),
    }
    return {"description": "The answer.", "content": content, "headers": headers}


def _problem(status: int, operation: Operation) -> dict[str, Any]:
    default = (
        protocol.InferenceProblemResponse if _speaks_v2(operation) else responses.ProblemResponse
    )
    response = _PROBLEMS.get(operation.name, default)
    answer: dict[str, Any] = {
        "description": _STATUSES[status],
        "content": {_PROBLEM: {"schema": _reference(response)}},
    }
    if status in _LATER:
        answer["headers"] = {"Retry-After": _header("seconds")}
    return answer


def _speaks_v2(operation: Operation) -> bool:
    """Whether an operation is one of the Open Inference Protocol."""
    return operation.path == "/v2" or operation.path.startswith("/v2/")


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _reference(model: type[BaseModel] | None) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)} if model else {}
