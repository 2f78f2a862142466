"""OpenAI's embeddings API: one vector for each text."""

from flask import Blueprint, Response

from polyseme.http.context import current_context
from polyseme.http.parsing import JSON, negotiate_media_type, read_json
from polyseme.http.routes import json_response
from polyseme.http.service import current_service
from polyseme.operations.embed import EmbeddingsRequest, embed
from polyseme.stages import stage

openai = Blueprint("openai", __name__, url_prefix="/v1")


@openai.post("/embeddings")
def embeddings() -> Response:
    """Return the vector of each text."""
    service = current_service()
    with stage("parse").since(current_context().started):
        negotiate_media_type(JSON)
        body = read_json(EmbeddingsRequest)
    model, pooling = service.find_model(body.model), service.settings.pooling
    return json_response(embed(model, body, service.limits, pooling))
