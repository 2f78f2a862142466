"""OpenAI's embeddings API: one vector for each text."""

from flask import Blueprint, Response

from polyseme.http.context import current_context
from polyseme.http.parsing import JSON, negotiate_media_type, read_json
from polyseme.http.routes import json_response
from polyseme.http.service import current_service, find_model
from polyseme.operations.embed import EmbeddingsRequest, embed

openai = Blueprint("openai", __name__, url_prefix="/v1")


@openai.post("/embeddings")
def embeddings() -> Response:
    """Return the vector of each text."""
    negotiate_media_type(JSON)
    service, timings = current_service(), current_context().timings
    body = read_json(EmbeddingsRequest)
    timings.add("parse", current_context().started)
    model, pooling = find_model(body.model), service.settings.pooling
    return json_response(embed(model, body, service.limits, timings, pooling))
