"""The routes under /v1, except /v1/embeddings: each parses, computes and responds."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from flask import Blueprint, Response

from polyseme.engine.arrays import NonFiniteError
from polyseme.errors import OutOfRangeError, PolysemeError
from polyseme.http.context import RequestContext, current_context
from polyseme.http.errors import log_fault, problem_document
from polyseme.http.parsing import (
    JSON,
    NDJSON,
    NPZ,
    is_content_type,
    negotiate_media_type,
    read_json,
    read_ndjson,
)
from polyseme.http.schemas import (
    CompareRequest,
    SensesRequest,
)
from polyseme.http.service import Service, current_service, find_model
from polyseme.models.model import Model
from polyseme.models.registry import ModelStatus
from polyseme.operations import compare as comparing
from polyseme.operations.embed import pooled_part
from polyseme.operations.encode import (
    EncodeRequest,
    TokenCounts,
    Tokenized,
    encode_sentence,
    paths_of,
    tokenize,
)
from polyseme.operations.neighbors import NeighborsRequest
from polyseme.operations.neighbors import neighbors as nearest
from polyseme.operations.options import EncodeOptions
from polyseme.operations.serialize import (
    Format,
    json_document,
    manifest_document,
    npz_archive,
    number_cost,
    sentence_document,
    sentence_json,
    usage,
)
from polyseme.operations.trace import TraceRequest
from polyseme.operations.trace import trace as steps
from polyseme.operations.work import encode_cost
from polyseme.senses.induction import (
    SenseOptions,
    find_senses,
    inventory_document,
    senses_of_occurrences,
)

routes = Blueprint("routes", __name__, url_prefix="/v1")
_FORMATS: dict[str, Format] = {JSON: "json", NDJSON: "ndjson", NPZ: "npz"}


@routes.post("/encode")
def encode() -> Response:
    """Return static vectors, contextual vectors and attention of sentences."""
    context, limits = current_context(), current_service().limits
    media = negotiate_media_type(JSON, NDJSON, NPZ)
    if is_content_type(NDJSON):
        body = read_ndjson(EncodeRequest, limits.check_sentences)
    else:
        body = read_json(EncodeRequest)
    start = context.timings.add("parse", context.started)
    model, form = find_model(body.model), _FORMATS[media]
    texts, path = paths_of(body.input)
    number = number_cost(form, body.encoding, body.dtype)
    cost = encode_cost(model, body, number, streamed=form == "ndjson")
    sentences = tokenize(model, texts, body, limits, path, cost)
    counts = context.timings.counts = TokenCounts(sentences)
    context.timings.add("tokens", start)
    if form == "ndjson":
        lines = _stream(model, sentences, body, context)
        return Response(lines, content_type=NDJSON)
    if form == "npz":
        encoded = [encode_sentence(model, one, body, context.timings) for one in sentences]
        start = context.timings.now()
        content = npz_archive(model.manifest, encoded, body)
        context.timings.add("write", start)
    else:
        results = []
        for one in sentences:
            result = encode_sentence(model, one, body, context.timings)
            start = context.timings.now()
            results.append(sentence_document(result, body.encoding))
            context.timings.add("write", start)
        start = context.timings.now()
        content = json_document(model.manifest, results, counts)
        context.timings.add("write", start)
    limits.check_response_bytes(len(content))
    return Response(content, content_type=media)


def _stream(
    model: Model,
    sentences: Sequence[Tokenized],
    options: EncodeOptions,
    context: RequestContext,
) -> Iterator[bytes]:
    """Yield a line for each sentence, and a last line with the usage or the error."""
    last: dict[str, Any] = {"complete": True, "usage": usage(TokenCounts(sentences))}
    try:
        for one in sentences:
            result = encode_sentence(model, one, options, context.timings)
            line = sentence_json(result, options.encoding) + b"\n"
            context.response_bytes += len(line)
            start = context.timings.now()
            yield line
            if context.supervisor:
                context.supervisor.extend(context.timings.now() - start)
    except GeneratorExit:
        context.aborted = True
        raise
    except Exception as error:  # noqa: BLE001 - the status can no longer change
        last = {"complete": False, "error": _stream_error(error, context)}
    line = orjson.dumps(last) + b"\n"
    context.response_bytes += len(line)
    yield line


def _stream_error(error: Exception, context: RequestContext) -> dict[str, Any]:
    if isinstance(error, NonFiniteError):
        error = OutOfRangeError()
    if not isinstance(error, PolysemeError):
        log_fault(error, context.request_id)
        error = PolysemeError()
    context.code = error.code
    return problem_document(error, context.request_id)


@routes.post("/compare")
def compare() -> Response:
    """Compare occurrences of words."""
    negotiate_media_type(JSON)
    context = current_context()
    body = read_json(CompareRequest)
    context.timings.add("parse", context.started)
    model = find_model(body.model)
    occurrences = [comparing.Occurrence(**one.model_dump()) for one in body.occurrences]
    result = comparing.compare(
        model,
        occurrences,
        body.neighbors,
        body.case,
        current_service().limits,
        context.timings,
        share=body.share,
        phrases=body.phrases,
        with_map=body.map,
    )
    context.timings.counts = result.counts
    return json_response(comparing.comparison_document(model.manifest.name, result))


@routes.post("/senses")
def senses() -> Response:
    """Find the senses of a word in texts, without labels."""
    negotiate_media_type(JSON)
    context, limits = current_context(), current_service().limits
    body = read_json(SensesRequest)
    context.timings.add("parse", context.started)
    model = find_model(body.model)
    options = SenseOptions(
        None if body.senses == "auto" else body.senses,
        body.keywords,
        body.neighbors,
        body.examples,
        with_map=body.map,
    )
    if body.occurrences is not None:
        given = [comparing.Occurrence(**one.model_dump()) for one in body.occurrences]
        found = senses_of_occurrences(
            model,
            given,
            options,
            phrases=body.phrases,
            limits=limits,
            timings=context.timings,
        )
    else:
        found = find_senses(
            model,
            body.word or "",
            body.texts or [],
            options,
            forms=body.forms,
            matching=body.case,
            phrases=body.phrases,
            limits=limits,
            timings=context.timings,
        )
    context.timings.counts = found.counts
    return json_response(inventory_document(model.manifest.name, found))


@routes.post("/trace")
def trace() -> Response:
    """Return every step of attention, computed in float64."""
    negotiate_media_type(JSON)
    body, timings = read_json(TraceRequest), current_context().timings
    timings.add("parse", current_context().started)
    model = None if body.text is None else find_model(body.model)
    return json_response(steps(model, body, current_service().limits, timings))


@routes.post("/neighbors")
def neighbors() -> Response:
    """Return the words nearest to a word or to a vector."""
    negotiate_media_type(JSON)
    body, timings = read_json(NeighborsRequest), current_context().timings
    timings.add("parse", current_context().started)
    return json_response(nearest(find_model(body.model), body, current_service().limits, timings))


@routes.get("/models")
def models() -> Response:
    """Return all models."""
    negotiate_media_type(JSON)
    service = current_service()
    service.models.refresh_if_changed()
    data = [_model_document(service, name, one) for name, one in service.models.states().items()]
    return json_response({"object": "list", "data": data})


@routes.get("/models/<name>")
def model(name: str) -> Response:
    """Return one model."""
    negotiate_media_type(JSON)
    service = current_service()
    return json_response(_model_document(service, name, service.models.state(name)))


def _model_document(service: Service, name: str, state: ModelStatus) -> dict[str, Any]:
    """Return a model in OpenAI's format, with its manifest, and its problem if it has one."""
    pooling = service.settings.pooling
    embeddings = {"pooling": pooling, "vectors": pooled_part(pooling)}
    return {
        "id": name,
        "object": "model",
        "owned_by": "polyseme",
        "default": name == service.models.default,
        "created": state.created,
        "status": "broken" if state.status == "broken" else "ok",
        **({"problem": state.problem} if state.problem else {}),
        **(
            {"embeddings": embeddings, **manifest_document(state.manifest)}
            if state.manifest
            else {}
        ),
    }


def json_response(document: Any) -> Response:
    """Return a JSON response; raise TooLargeError if it exceeds the limit.

    The document must not contain NaN, which orjson would write as null.
    """
    context = current_context()
    start = context.timings.now()
    content = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    context.timings.add("write", start)
    current_service().limits.check_response_bytes(len(content))
    return Response(content, content_type=JSON)
