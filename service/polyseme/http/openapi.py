"""The OpenAPI 3.1 document, generated from the schemas of requests and responses."""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, TypeAdapter

from polyseme import __version__
from polyseme.http import responses
from polyseme.http.inference import VERSION, InferRequest
from polyseme.http.parsing import BINARY, JSON, NDJSON, NPZ
from polyseme.operations.compare import CompareRequest, MappedComparison
from polyseme.operations.embed import Embeddings, EmbeddingsRequest
from polyseme.operations.encode import EncodeRequest
from polyseme.operations.neighbors import Neighbors, NeighborsRequest
from polyseme.operations.serialize import EncodeDocument
from polyseme.operations.trace import Trace, TraceRequest
from polyseme.senses.find import MappedSenses, SensesRequest
from polyseme.senses.inventory import AppliedSenses, ApplySensesRequest

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
_PROBLEMS: dict[str, type[responses.ProblemResponse]] = {
    "embeddings": responses.OpenAIProblemResponse,
    "models": responses.OpenAIProblemResponse,
    "model": responses.OpenAIProblemResponse,
    "readyz": responses.NotReadyResponse,
}
"""The schemas of problem responses that are not the defaults of `_problem`, by operation."""


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    name: str
    summary: str
    body: type[BaseModel] | None
    response: type
    """a pydantic model, or a dataclass that an operation returns"""
    errors: tuple[int, ...]

    @property
    def tag(self) -> str:
        """The group of the operation."""
        if self.path.startswith("/v2/models/"):
            return "inference"
        if self.path.startswith("/v1/models"):
            return "models"
        return "vectors" if self.body else "health"


def _post(path: str, summary: str, body: type[BaseModel], response: type) -> Operation:
    name = path.rpartition("/")[2]
    return Operation("post", path, name, summary, body, response, _POST_ERRORS)


def _get(path: str, name: str, summary: str, response: type, errors: tuple[int, ...]) -> Operation:
    return Operation("get", path, name, summary, None, response, errors)


def _of_model(path: str, suffix: str = "") -> tuple[Operation, ...]:
    """Return the operations of the Open Inference Protocol at a path of a model or its version."""
    errors, ready = (*_GET_ERRORS, 404, 503), "Check whether a model is ready"
    metadata = (path, "metadata", "Get the tensors of a model", responses.ModelMetadataResponse)
    infer = (f"{path}/infer", "Encode sentences as tensors", InferRequest, responses.InferResponse)
    operations = (
        _get(*metadata, errors),
        _get(f"{path}/ready", "model_ready", ready, responses.ModelReadyResponse, errors),
        _post(*infer),
    )
    return tuple(one._replace(name=one.name + suffix) for one in operations)


_FIND = "Find the senses of a word in texts, without labels"
_APPLY = "Assign the senses of an inventory to the occurrences of its word in texts"
_NEAREST = "Find the words nearest to a word, a vector or a sum of several"
_SERVER = "Get the metadata of the server"
_LIVE, _READY = "Check whether the process is running", "Check whether the service is ready"
OPERATIONS = (
    _post("/v1/encode", "Encode sentences as vectors and attention", EncodeRequest, EncodeDocument),
    _post("/v1/compare", "Compare occurrences of words", CompareRequest, MappedComparison),
    _post("/v1/senses", _FIND, SensesRequest, MappedSenses),
    _post("/v1/senses/apply", _APPLY, ApplySensesRequest, AppliedSenses)._replace(
        name="apply_senses"
    ),
    _post("/v1/trace", "Compute every step of attention, in float64", TraceRequest, Trace),
    _post("/v1/neighbors", _NEAREST, NeighborsRequest, Neighbors),
    _post("/v1/embeddings", "Embed texts, in OpenAI's format", EmbeddingsRequest, Embeddings),
    _get("/v1/models", "models", "List all models", responses.ModelsResponse, _GET_ERRORS),
    _get(
        "/v1/models/{name}", "model", "Get one model", responses.ModelResponse, (*_GET_ERRORS, 404)
    ),
    _get("/livez", "livez", _LIVE, responses.LiveResponse, ()),
    _get("/readyz", "readyz", _READY, responses.ReadyResponse, (503,)),
    _get("/v2", "server", _SERVER, responses.ServerResponse, (406, 421, 500)),
    _get("/v2/health/live", "server_live", _LIVE, responses.ServerLiveResponse, ()),
    _get("/v2/health/ready", "server_ready", _READY, responses.ServerReadyResponse, (503,)),
    *_of_model("/v2/models/{name}"),
    *_of_model(f"/v2/models/{{name}}/versions/{VERSION}", "_of_version"),
)


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    described: set[type] = {responses.ProblemResponse, responses.InferenceProblemResponse}
    described |= {*_PROBLEMS.values()}
    described |= {kind for o in OPERATIONS for kind in (o.body, o.response) if kind}
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
            "schemas": _schemas(described),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # /v1/… and /v2/models/… require a key if keys or a key file are set.
        "security": [{}, {"key": []}],
    }


def _schemas(kinds: set[type]) -> dict[str, Any]:
    """Return the schemas of models and dataclasses, and of the types of their fields."""
    adapters = [(_name(kind), TypeAdapter[Any](kind)) for kind in sorted(kinds, key=_name)]
    _, document = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters], ref_template=_REF
    )
    schemas = document["$defs"]
    classes: dict[str, Any] = {}
    for kind in kinds:  # a module has the types of its fields, too
        classes |= vars(sys.modules[kind.__module__])
    for name, schema in schemas.items():
        for base in classes[name].__mro__:
            if not base.__module__.startswith("polyseme."):
                continue
            docstrings = _docstrings(sys.modules[base.__module__])
            for field, described in schema["properties"].items():
                if (base.__name__, field) in docstrings:
                    described.setdefault("description", docstrings[base.__name__, field])
    # A dataclass is named after its class, and its title is its name in this document.
    titles = {name: schema["title"] for name, schema in schemas.items()}
    text = orjson.dumps({titles[name]: schema for name, schema in schemas.items()})
    for name, title in titles.items():
        before, after = (f'"{_REF.format(model=one)}"'.encode() for one in (name, title))
        text = text.replace(before, after)
    named: dict[str, Any] = orjson.loads(text)
    return named


@cache
def _docstrings(module: ModuleType) -> dict[tuple[str, str], str]:
    """Return the docstrings of the fields of a module's classes, by class and field.

    pydantic can read them too, but does so when a class is made: a tenth of a second at each start.
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


def _operation(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": _reference(operation.response)}}
    headers = {
        "X-Request-ID": _header("the ID that the client sent, if it is valid, or a random one"),
        "Server-Timing": _header("duration of each stage in milliseconds"),
    }
    success = {"description": "Success.", "content": content, "headers": headers}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {"200": success},
    }
    # The Open Inference Protocol has a member `error` in problem documents.
    inference = operation.path.startswith("/v2")
    default = responses.InferenceProblemResponse if inference else responses.ProblemResponse
    schema = _reference(_PROBLEMS.get(operation.name, default))
    for status in operation.errors:
        problem: dict[str, Any] = {
            "description": _STATUSES[status],
            "content": {_PROBLEM: {"schema": schema}},
        }
        if status in _WITH_RETRY_AFTER:
            wait = _header("seconds to wait before the next attempt")
            problem["headers"] = {"Retry-After": wait}
        described["responses"][str(status)] = problem
    if operation.tag == "health":
        described["security"] = []
    sent: dict[str, Any] = {JSON: {"schema": _reference(operation.body)}}
    if operation.body:
        described["requestBody"] = {"required": True, "content": sent}
    if operation.name == "encode":
        sent[NDJSON] = _text(NDJSON, "one sentence per line, as a string or a list of words")
        # For an NDJSON body; commas separate list items.
        described["parameters"] = [
            {
                "name": name,
                "in": "query",
                "description": f"only with a body of type {NDJSON}",
                "style": "form",
                "explode": False,
                "schema": _not_null(schema),
            }
            for name, schema in _schemas({EncodeRequest})["EncodeRequest"]["properties"].items()
            if name != "input"
        ]
        content[NDJSON] = _text(
            NDJSON,
            "one entry of `results` per line; the last line has `complete`, and `usage` or `error`",
        )
        content[NPZ] = {"schema": {"type": "string", "contentMediaType": NPZ}}
    if operation.body is InferRequest:
        description = (
            "JSON, whose length is in Inference-Header-Content-Length, and the bytes of the tensors"
        )
        sent[BINARY] = content[BINARY] = _text(BINARY, description)
    if "{name}" in operation.path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        described["parameters"] = [name]
    return described


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field without null, which no query has."""
    kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
    facts = {key: value for key, value in schema.items() if value is not None}
    return {**facts, "anyOf": kinds}


def _text(media: str, description: str) -> dict[str, Any]:
    return {"schema": {"type": "string", "contentMediaType": media, "description": description}}


def _header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


def _reference(model: type | None) -> dict[str, str]:
    return {"$ref": _REF.format(model=_name(model))} if model else {}


def _name(kind: type) -> str:
    """Return the name of a schema."""
    config: dict[str, Any] = getattr(kind, "__pydantic_config__", {})
    return str(config.get("title", kind.__name__))
