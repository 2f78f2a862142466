"""The OpenAPI 3.1 document, made from the models that requests are checked with."""

from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service import __version__
from service.http import replies, requests
from service.http.reading import JSON, NDJSON, NPZ

_REF = "#/components/schemas/{model}"
_PROBLEM = "application/problem+json"

_STATUSES = {
    400: "The body is not JSON.",
    401: "A key is required and is missing or wrong.",
    404: "No such model or route.",
    405: "No such method.",
    406: "An answer type that is not offered.",
    413: "Over a limit; `detail` names the limit and the size.",
    415: "A body that is not declared as a type that the route takes.",
    422: "A field is missing, unknown, of the wrong type or out of range.",
    429: "Over the caller's rate; see Retry-After.",
    500: "A fault of the service.",
    503: "Not ready, draining or overloaded; see Retry-After.",
}
_COMPUTING = (400, 401, 404, 406, 413, 415, 422, 429, 500, 503)
_CATALOGUE = (401, 406, 429, 500)
_LATER = frozenset({429, 503})


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    name: str
    summary: str
    body: type[BaseModel] | None
    reply: type[BaseModel] | None
    errors: tuple[int, ...]
    tag: str


OPERATIONS = (
    Operation(
        *("post", "/v1/encode", "encode", "Static vectors, contextual vectors and attention"),
        *(requests.EncodeRequest, replies.EncodeReply, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/compare", "compare", "Occurrences of words side by side"),
        *(requests.CompareRequest, replies.CompareReply, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/trace", "trace", "Every step of the arithmetic, in float64"),
        *(requests.TraceRequest, replies.TraceReply, _COMPUTING, "vectors"),
    ),
    Operation(
        *("post", "/v1/neighbors", "neighbors", "The words nearest to a word or a vector"),
        *(requests.NeighborsRequest, replies.NeighborsReply, _COMPUTING, "vectors"),
    ),
    Operation(
        *("get", "/v1/models", "models", "All models"),
        *(None, replies.ModelsReply, _CATALOGUE, "models"),
    ),
    Operation(
        *("get", "/v1/models/{name}", "model", "One model"),
        *(None, replies.ModelReply, (*_CATALOGUE, 404), "models"),
    ),
    Operation(
        *("get", "/livez", "livez", "Whether the process answers"),
        *(None, replies.LiveReply, (), "health"),
    ),
    Operation(
        *("get", "/readyz", "readyz", "Whether the default model can answer"),
        *(None, replies.ReadyReply, (503,), "health"),
    ),
)


def document() -> dict[str, Any]:
    """The whole document."""
    inputs = {o.body for o in OPERATIONS if o.body}
    outputs = {o.reply for o in OPERATIONS if o.reply} | {
        replies.ProblemReply,
        replies.NotReadyReply,
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
        # With keys set, /v1 wants one; without any, it is open.
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
        described["parameters"] = _query(requests.EncodeRequest)
    if "{name}" in operation.path:
        schema = {"type": "string"}
        described["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": schema}
        ]
    return described


def _query(model: type[BaseModel]) -> list[dict[str, Any]]:
    """What goes into the query where the body is lines; a list has commas between its entries."""
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


def _lines(description: str) -> dict[str, str]:
    return {"type": "string", "contentMediaType": NDJSON, "description": description}


def _success(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": _reference(operation.reply)}}
    if operation.name == "encode":
        content[NDJSON] = {"schema": _lines("an entry of `results` in each line")}
        content[NPZ] = {"schema": {"type": "string", "contentMediaType": NPZ}}
    headers = {
        "X-Request-ID": _header("the client's own where it sent a sane one"),
        "Server-Timing": _header("milliseconds of each stage"),
    }
    return {"description": "The answer.", "content": content, "headers": headers}


def _problem(status: int, operation: Operation) -> dict[str, Any]:
    reply = replies.NotReadyReply if operation.name == "readyz" else replies.ProblemReply
    answer: dict[str, Any] = {
        "description": _STATUSES[status],
        "content": {_PROBLEM: {"schema": _reference(reply)}},
    }
    if status in _LATER:
        answer["headers"] = {"Retry-After": _header("seconds")}
    return answer


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _reference(model: type[BaseModel] | None) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)} if model else {}
