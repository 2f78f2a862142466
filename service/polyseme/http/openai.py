"""OpenAI's embeddings API: one vector for each text."""

from dataclasses import replace
from typing import Any, Literal

import pybase64
from flask import Blueprint, Response

from polyseme.errors import FieldError, InvalidError
from polyseme.http.context import current_context
from polyseme.http.parsing import JSON, negotiate_media_type, read_json
from polyseme.http.routes import json_response
from polyseme.http.schemas import EmbeddingsRequest
from polyseme.http.service import current_service, find_model
from polyseme.operations.encode import TokenCounts, encode_sentence, paths_of, tokenize
from polyseme.operations.sentences import check_dimensions, pooled_options, sentence_vector
from polyseme.operations.serialize import number_cost
from polyseme.operations.work import embedding_cost

openai = Blueprint("openai", __name__, url_prefix="/v1")

_ENTRY_BYTES = 64
"""Approximate bytes of an entry without its vector."""


@openai.post("/embeddings")
def embeddings() -> Response:
    """Return the vector of each text."""
    negotiate_media_type(JSON)
    context, service = current_context(), current_service()
    body = read_json(EmbeddingsRequest)
    start = context.timings.add("parse", context.started)
    texts, path = paths_of(body.input)
    model, limits = find_model(body.model), service.limits
    pooling = body.pooling or service.settings.pooling
    # With `keep`, a text in which no word has a vector gets a zero vector.
    wordless: Literal["keep", "refuse"] = "keep" if body.wordless == "zero" else "refuse"
    options = replace(pooled_options(pooling), wordless=wordless)
    width = check_dimensions(model, body.dimensions)
    number = number_cost("json", body.encoding_format)
    limits.check_response_bytes(int(len(texts) * (width * number.bytes + _ENTRY_BYTES)))
    cost = embedding_cost(model, options, width * number.work)
    sentences = tokenize(model, texts, options, limits, path, cost)
    counts = context.timings.counts = TokenCounts(sentences)
    context.timings.add("tokens", start)
    data = []
    for index, sentence in enumerate(sentences):
        encoded = encode_sentence(model, sentence, options, context.timings)
        vector = sentence_vector(model, encoded, pooling, width)
        if body.wordless == "refuse" and not vector.any():
            message = "the vectors of its words cancel out, so the text has no direction"
            raise InvalidError([FieldError(path(index), message)])
        entry: dict[str, Any] = {"object": "embedding", "index": index, "embedding": vector}
        if body.encoding_format == "base64":
            entry["embedding"] = pybase64.b64encode_as_string(vector.astype("<f4", copy=False).data)
        data.append(entry)
    usage = {"prompt_tokens": counts.tokens, "total_tokens": counts.tokens}
    document = {"object": "list", "data": data, "model": model.manifest.name, "usage": usage}
    return json_response(document)
