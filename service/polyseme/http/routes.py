"""The routes that compute: each parses, computes and replies."""

from typing import Any

from flask import Blueprint, Response, g

from polyseme.encoding import compare as comparing
from polyseme.encoding import documents, tracing
from polyseme.encoding.answers import Kind, answer, number_bytes
from polyseme.encoding.choice import Choice
from polyseme.encoding.counts import Counts
from polyseme.encoding.encoder import Batch
from polyseme.encoding.neighbours import neighbours_of_vector, neighbours_of_word
from polyseme.http.asking import model_asked_for, request_limits
from polyseme.http.reading import JSON, NDJSON, NPZ, accepted, declares, read_body, read_lines
from polyseme.http.requests import CompareRequest, EncodeRequest, NeighborsRequest, TraceRequest
from polyseme.http.writing import json_response, limited, streamed, whole

routes = Blueprint("computing", __name__, url_prefix="/v1")

_KINDS: dict[str, Kind] = {JSON: "json", NDJSON: "ndjson", NPZ: "npz"}


@routes.post("/encode")
def encode() -> Response:
    """Static vectors, contextual vectors and attention of sentences."""
    media = accepted(JSON, NDJSON, NPZ)
    with g.stages("parse"):
        body = read_lines(EncodeRequest) if declares(NDJSON) else read_body(EncodeRequest)
    model, kind = model_asked_for(body.model), _KINDS[media]
    texts = body.input if isinstance(body.input, list) else [body.input]
    size = number_bytes(kind, body.encoding, body.dtype)
    batch = Batch(model, texts, _choice(body), request_limits(), g.stages, size)
    g.account.counts = batch.counts
    pieces = answer(batch, kind, body.encoding)
    if batch.large:
        return streamed(pieces, media, g.request_id)
    batch.hold()
    with g.stages("write"):
        return whole(pieces, media, request_limits())


def _choice(body: EncodeRequest) -> Choice:
    return Choice(
        include=frozenset(body.include),
        layers=body.layers,
        mean_of_heads=body.heads == "mean",
        oov=body.oov,
        case=body.case,
        truncate=body.truncate,
        dtype=body.dtype,
    )


@routes.post("/compare")
def compare() -> Response:
    """Occurrences of words side by side."""
    accepted(JSON)
    with g.stages("parse"):
        body = read_body(CompareRequest)
    model = model_asked_for(body.model)
    occurrences = [comparing.Occurrence(**one.model_dump()) for one in body.occurrences]
    result = comparing.compare(
        model, occurrences, body.neighbors, body.case, request_limits(), g.stages, mapped=body.map
    )
    g.account.counts = result.counts
    with g.stages("write"):
        return _json(documents.compare_document(model.manifest, result))


@routes.post("/trace")
def trace() -> Response:
    """Every step of the arithmetic, in float64."""
    accepted(JSON)
    with g.stages("parse"):
        body = read_body(TraceRequest)
    with g.stages("attention"):
        if body.text is None:
            numbers = _numbers(body)
            tokens, steps = numbers.tokens, tracing.trace_numbers(numbers, request_limits())
        else:
            model = model_asked_for(body.model)
            tokens, steps = tracing.trace_text(
                model, body.text, body.layer, body.case, request_limits(), counts := Counts()
            )
            g.account.counts = counts
    with g.stages("write"):
        return _json(documents.trace_document(tokens, steps))


def _numbers(body: TraceRequest) -> tracing.Numbers:
    matrices = {
        "embeddings": body.embeddings,
        "queries": body.queries,
        "keys": body.keys,
        "values": body.values,
    }
    weights = body.weights.model_dump(exclude_none=True) if body.weights else {}
    return tracing.Numbers(
        tokens=body.tokens or (),
        matrices={name: rows for name, rows in matrices.items() if rows is not None},
        weights=weights,
        heads=body.heads,
        scale=body.scale,
        transposed=body.convention == "column",
    )


@routes.post("/neighbors")
def neighbors() -> Response:
    """The words nearest to a word or to a vector."""
    accepted(JSON)
    with g.stages("parse"):
        body = read_body(NeighborsRequest)
    model = model_asked_for(body.model)
    with g.stages("neighbors"):
        if body.vector is not None:
            found = neighbours_of_vector(model, body.vector, body.k)
        else:
            found = neighbours_of_word(model, body.word or "", body.k, body.case)
    with g.stages("write"):
        return _json({"neighbors": documents.neighbour_documents(found)})


def _json(document: dict[str, Any]) -> Response:
    return limited(json_response(document), request_limits())
