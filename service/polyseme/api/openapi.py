"""The OpenAPI 3.1 document, generated from the schemas that validate requests."""

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
    405: "The route does not allow this method.",
    406: "The route does not offer this media type.",
    413: "A size limit is exceeded; `detail` names the limit and the size.",
    415: "The route does not accept this media type.",
    422: "A field is missing, unknown, of the wrong type or out of range.",
    429: "The rate limit of the caller is exceeded; see Retry-After.",
    500: "An internal error.",
    503: "The service is not ready, draining or overloaded; see Retry-After.",
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
"""Operations whose errors have additional members."""


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
    """Return the Open Inference Protocol's routes for a model, or for its one version."""
    errors = (*_CATALOGUE, 404, 503)
    return (
        Operation(
            *("get", path, f"metadata{suffix}", "Model metadata of the Open Inference Protocol"),
            *(None, protocol.ModelMetadataResponse, errors, "inference"),
        ),
        Operation(
            *("get", f"{path}/ready", f"model_ready{suffix}", "Whether a model is ready"),
            *(None, protocol.ModelReadyResponse, errors, "inference"),
        ),
        Operation(
            *("post", f"{path}/infer", f"infer{suffix}", "Vectors and attention as tensors"),
            *(InferRequest, protocol.InferResponse, _COMPUTING, "inference"),
        ),
    )


OPERATIONS = (
    Operation(
        *("post", "/v1/encode", "encode", "Static vectors, contextual vectors and attention"),
        *(schemas.EncodeRequest, responses.EncodeResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/compare", "compare", "Compare occurrences of words"),
        *(schemas.CompareRequest, responses.CompareResponse, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/senses", "senses", "The senses of a word in texts, without labels"),
        *(schemas.SensesRequest, responses.SensesResponse, _COMPUTING, "vectors"),
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
        *("post", "/v1/embeddings", "embeddings", "One vector per text, in OpenAI's format"),
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
        *("get", "/livez", "livez", "Whether the process is running"),
        *(None, responses.LiveResponse, (), "health"),
    ),
    Operation(
        *(
            "get",
            "/readyz",
            "readyz",
            "Whether the service is ready",
        ),
        *(None, responses.ReadyResponse, (503,), "health"),
    ),
    Operation(
        *("get", "/v2", "server", "Server metadata of the Open Inference Protocol"),
        *(None, protocol.ServerResponse, (406, 500), "health"),
    ),
    Operation(
        *("get", "/v2/health/live", "server_live", "Whether the process is running"),
        *(None, protocol.ServerLiveResponse, (), "health"),
    ),
    Operation(
        *(
            "get",
            "/v2/health/ready",
            "server_ready",
            "Whether the service is ready",
        ),
        *(None, protocol.ServerReadyResponse, (503,), "health"),
    ),
    *_of_model("/v2/models/{name}", ""),
    *_of_model(f"/v2/models/{{name}}/versions/{VERSION}", "_of_version"),
)


def document() -> dict[str, Any]:
    """Return the whole document."""
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
        content[NDJSON] = {
            "schema": _lines("on each line a sentence, as a string or a list of words")
        }
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
    """Return the query parameters for an NDJSON body; commas separate list items."""
    _, schemas = models_json_schema([(model, "validation")], ref_template=_REF)
    fields = schemas["$defs"][model.__name__]["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "description": f"only with a body of type {NDJSON}",
            "style": "form",
            "explode": False,
            "schema": schema,
        }
        for name, schema in fields.items()
        if name != "input"
    ]


def _bytes_after_json() -> dict[str, str]:
    description = (
        "JSON of the length in Inference-Header-Content-Length, followed by the tensors' bytes"
    )
    return {"type": "string", "contentMediaType": BINARY, "description": description}


def _lines(description: str) -> dict[str, str]:
    return {"type": "string", "contentMediaType": NDJSON, "description": description}


def _success(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": _reference(operation.response)}}
    if operation.name == "encode":
        content[NDJSON] = {
            "schema": _lines(
                "on each line an entry of `results`; on the last line `complete`, and `usage` or"
                " `error`"
            )
        }
        content[NPZ] = {"schema": {"type": "string", "contentMediaType": NPZ}}
    if operation.body is InferRequest:
        content[BINARY] = {"schema": _bytes_after_json()}
    headers = {
        "X-Request-ID": _header("the client's own ID if it is valid"),
        "Server-Timing": _header("milliseconds of each stage"),
    }
    return {"description": "Success.", "content": content, "headers": headers}


def _problem(status: int, operation: Operation) -> dict[str, Any]:
    default = (
        protocol.InferenceProblemResponse if _speaks_v2(operation) else responses.ProblemResponse
    )
    response = _PROBLEMS.get(operation.name, default)
    described: dict[str, Any] = {
        "description": _STATUSES[status],
        "content": {_PROBLEM: {"schema": _reference(response)}},
    }
    if status in _LATER:
        described["headers"] = {"Retry-After": _header("seconds")}
    return described


def _speaks_v2(operation: Operation) -> bool:
    """Whether an operation is one of the Open Inference Protocol."""
    return operation.path == "/v2" or operation.path.startswith("/v2/")


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _reference(model: type[BaseModel] | None) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)} if model else {}
