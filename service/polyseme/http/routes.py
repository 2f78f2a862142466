"""The routes under /v1, the web interface, probes, and the state that all routes share.

A route under /v1 parses, computes and responds.
"""

import logging
import mmap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
from flask import Blueprint, Response, abort, current_app, request, send_file

from polyseme.errors import DrainingError, NotReadyError
from polyseme.http.admission import ApiKeyAuth, RateLimits
from polyseme.http.errors import error_of, problem, problem_document
from polyseme.http.middleware import CONTEXT, RequestContext
from polyseme.http.parsing import (
    JSON,
    NDJSON,
    NPZ,
    negotiate_media_type,
    read_json,
    read_ndjson,
)
from polyseme.models.model import Model
from polyseme.models.registry import ModelStatus, Registry
from polyseme.operations.catalog import OPERATIONS, Operation
from polyseme.operations.embed import pooled_part
from polyseme.operations.encode import (
    EncodeRequest,
    TokenCounts,
    encode_each,
    encode_sentences,
    tokenize,
)
from polyseme.operations.limits import MAX_VALUE_BYTES, Limits, stage
from polyseme.operations.schema import EncodeOptions
from polyseme.operations.serialize import encode_json, manifest_document, npz_parts, sentence_parts
from polyseme.settings import Settings
from polyseme.tokenizer import Tokenized

routes = Blueprint("routes", __name__, url_prefix="/v1")
pages = Blueprint("pages", __name__)
_WHOLE = 4 << 20
"""Maximum bytes of a response that is sent in one part, with its length."""
_log = logging.getLogger("polyseme")
# Waiting, which other errors with status 503 advise, does not help: an operator must act.
_SELECT = "Add the model on the server, or set POLYSEME_MODEL to one that GET /v1/models lists."
_REPAIR = (
    "Repair the model on the server, where `polyseme models verify NAME` reports the problem; the"
    " next request finds the repaired files."
)


_PAGE = Path(__file__).parents[1] / "page"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_HERE = Path(__file__).parent
_FILES = {
    **{
        f"/page/{file.relative_to(_PAGE).as_posix()}": file
        for file in _PAGE.rglob("*")
        if file.suffix in _TYPES
    },
    "/": _PAGE / "index.html",
    "/docs": _HERE / "docs.html",
    "/docs/start.js": _HERE / "docs.js",
    "/docs/swagger-ui.css": _HERE / "vendor" / "swagger-ui.css",
    "/docs/swagger-ui-bundle.js": _HERE / "vendor" / "swagger-ui-bundle.js",
}
"""Static files by path. A requested path is looked up here, never opened."""
_POLICIES = {
    "/": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " object-src 'none'; img-src 'self' data:",
    # Swagger UI needs inline styles and data: images, but no inline scripts.
    "/docs": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " frame-ancestors 'none'",
}


@dataclass(frozen=True)
class Service:
    """The state of one application; gunicorn's workers inherit it from the master."""

    settings: Settings
    models: Registry
    limits: Limits
    auth: ApiKeyAuth
    rate_limits: RateLimits
    tracer: Any = None
    """sends the traces, if the service has a collector"""
    _draining: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1))
    """one byte of memory shared by the master and its workers"""

    def start_draining(self) -> None:
        """Make `/readyz` fail in every process."""
        self._draining[0] = 1

    @property
    def draining(self) -> bool:
        """Whether the service is shutting down."""
        return self._draining[0] == 1

    def reload(self) -> None:
        """Reload changed keys and models; log failures and keep the previous ones."""
        for name, load in (("keys", self.auth.refresh), ("models", self.models.load)):
            try:
                load()
            except Exception:  # noqa: BLE001 - no error may stop the service
                _log.exception("polyseme: the %s could not be reloaded", name)
        self.log_problems()

    def log_problems(self) -> None:
        """Log a warning for each model with a problem."""
        for name, state in self.models.states().items():
            if state.problem:
                _log.warning("polyseme: %s is %s: %s", name, state.status, state.problem)

    def find_model(self, name: str | None) -> Model:
        """Return the model of a request (None: the default one), and record the stage `parse`.

        The stage begins with the request. Raises UnknownModelError or ModelFolderError.
        """
        context: RequestContext = request.environ[CONTEXT]
        now = time.perf_counter()
        context.stages["parse"] = context.started, now, now - context.started
        model = self.models.model(name)
        context.model = model.manifest.name
        return model

    def readiness_error(self) -> NotReadyError | None:
        """Return an error if the service is not ready, else None."""
        if self.draining:
            return DrainingError()
        if self.models.ready():
            return None
        state = self.models.states().get(self.models.default)
        problem = "no model has its name." if state is None else state.problem
        if problem is None:
            return NotReadyError("The default model cannot be used: it is being loaded.")
        detail = f"The default model cannot be used: {problem}"
        return NotReadyError(detail, hint=_REPAIR if state else _SELECT)


def current_service() -> Service:
    """Return the service of the current application."""
    service: Service = current_app.extensions["polyseme"]
    return service


@routes.post("/encode")
def encode() -> Response:
    """Return static vectors, contextual vectors and attention of sentences."""
    context: RequestContext = request.environ[CONTEXT]
    service = current_service()
    limits = service.limits
    media = negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON, NDJSON, NPZ)
    if request.mimetype == NDJSON:
        body = read_ndjson(EncodeRequest, partial(limits.check, "max_sentences"))
    else:
        body = read_json(EncodeRequest)
    model = service.find_model(body.model)
    with stage("tokens"):
        sentences = tokenize(
            model,
            body.input,
            body,
            limits,
            number_bytes=MAX_VALUE_BYTES["npz" if media == NPZ else body.encoding],
            streamed=media == NDJSON,
        )
        counts = context.counts = TokenCounts(sentences)
    if media == NDJSON:
        return Response(_stream(model, sentences, body, context, counts), content_type=NDJSON)
    encoded = encode_sentences(model, sentences, body)
    if media == NPZ:
        return respond(npz_parts(model.manifest, encoded, body), media)
    return respond(encode_json(model, encoded, counts, body), media)


def _stream(
    model: Model,
    sentences: Sequence[Tokenized],
    options: EncodeOptions,
    context: RequestContext,
    counts: TokenCounts,
) -> Iterator[bytes]:
    """Yield a line for each sentence, and a last line with the usage and notes or the error."""
    last: dict[str, Any] = {"complete": True, **counts.document}
    budget = context.budget
    try:
        for result in encode_each(model, sentences, options):
            paused, parts = budget.pause(), sentence_parts(result, options.encoding)
            line = next(parts)
            for part in parts:
                yield line
                line = part
            yield line + b"\n"
            budget.resume(paused)
    except GeneratorExit:
        context.aborted = True
        raise
    except Exception as raised:  # noqa: BLE001 - the status can no longer change
        error = error_of(raised, context.request_id)
        context.code = error.code
        last = {"complete": False, "error": problem_document(error, context.request_id)}
    yield orjson.dumps(last) + b"\n"


def respond(parts: Iterable[bytes], media: str) -> Response:
    """Return a response of some parts, with its length unless it is large."""
    remaining, head = iter(parts), list[bytes]()
    with stage("write"):
        size = 0
        for part in remaining:
            head.append(part)
            size += len(part)
            if size > _WHOLE:
                return Response(chain(head, remaining), content_type=media)
        return Response(b"".join(head), content_type=media)


def _view(operation: Operation) -> Callable[[], Response]:
    """Return the view of an operation whose request and response are JSON."""

    def view() -> Response:
        service = current_service()
        negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON)
        body: Any = read_json(operation.request)
        if operation.settings:
            defaults = {name: getattr(service.settings, name) for name in operation.settings}
            body = body.with_defaults(**defaults)
        result = operation.function(body.find_model(service.find_model), body, service.limits)
        if operation.write_parts:
            return respond(operation.write_parts(result), JSON)
        return json_response(result)

    return view


for operation in OPERATIONS.values():
    routes.add_url_rule(f"/{operation.path}", operation.name, _view(operation), methods=["POST"])


@routes.get("/models")
def models() -> Response:
    """Return all models."""
    negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON)
    service = current_service()
    states = service.models.states().items()
    data = [_model_document(service, name, state) for name, state in states]
    return json_response({"object": "list", "data": data})


@routes.get("/models/<name>")
def model(name: str) -> Response:
    """Return one model."""
    negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON)
    service = current_service()
    return json_response(_model_document(service, name, service.models.state(name)))


def _model_document(service: Service, name: str, state: ModelStatus) -> dict[str, Any]:
    """Return a model in OpenAI's format, with its manifest, and its problem if it has one."""
    document = {
        "id": name,
        "object": "model",
        "owned_by": "polyseme",
        "default": name == service.models.default,
        "created": state.created,
        "status": "broken" if state.status == "broken" else "ok",
    }
    if state.problem:
        document["problem"] = state.problem
    if state.manifest:
        pooling = service.settings.pooling
        document["embeddings"] = {"pooling": pooling, "vectors": pooled_part(pooling)}
        document |= manifest_document(state.manifest)
    return document


def json_response(document: Any) -> Response:
    """Return a JSON response; raise TooLargeError if it exceeds the limit.

    The document must not contain NaN, which orjson would write as null.
    """
    with stage("write"):
        content = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    current_service().limits.check("max_answer_bytes", len(content))
    return Response(content, content_type=JSON)


@pages.get("/", strict_slashes=False)  # `GET http://host` has an empty path
@pages.get("/page/<path:name>")
@pages.get("/docs")
@pages.get("/docs/start.js")
@pages.get("/docs/swagger-ui.css")
@pages.get("/docs/swagger-ui-bundle.js")
def static_file(name: str = "") -> Response:
    """Send a file of the web interface or of Swagger UI, or 304 if the client's copy is current.

    Browsers revalidate on every use, except published files of Swagger UI. Range and If-Match
    headers are ignored, because the API defines no 416 or 412 error.
    """
    del name
    path = request.path
    file = _FILES.get(path) or abort(404)
    max_age = 86_400 if path.startswith("/docs/swagger-ui") else None
    response = send_file(file, mimetype=_TYPES[file.suffix], max_age=max_age, conditional=False)
    if max_age is None:
        response.headers["Cache-Control"] = "no-cache"
    if path in _POLICIES:
        response.headers["Content-Security-Policy"] = _POLICIES[path]
    names = ("REQUEST_METHOD", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
    environ = {name: request.environ[name] for name in names if name in request.environ}
    response.make_conditional(environ)
    return response


@pages.get("/openapi.json")
def openapi() -> Response:
    """Serve the OpenAPI 3.1 document, which `docs/openapi.py` makes."""
    return Response((_HERE / "openapi.json").read_bytes(), content_type=JSON)


@pages.get("/livez")
def livez() -> Response:
    """Return 200 if the process is running."""
    return json_response({"status": "alive"})


@pages.get("/readyz")
def readyz() -> Response:
    """Return 200 if the default model can be used and the service is not draining.

    The status of the other models is informational.
    """
    service = current_service()
    models: list[dict[str, Any]] = []
    for name, state in service.models.states().items():
        default = name == service.models.default
        models.append({"id": name, "default": default, "status": state.status})
        if state.problem:
            models[-1]["problem"] = state.problem
    error = service.readiness_error()
    if error:
        return problem(error, models=models)
    return json_response({"status": "ready", "models": models})
