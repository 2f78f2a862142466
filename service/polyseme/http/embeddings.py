"""OpenAI's embeddings API: one vector of length 1 of each text."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import orjson
import pybase64
from flask import Blueprint, Response, current_app, g
from numpy.typing import NDArray

from polyseme.encoding.answers import Encoding, number_bytes
from polyseme.encoding.encoder import Batch
from polyseme.encoding.limits import Limits
from polyseme.encoding.pooling import POOLED, sentence_vectors
from polyseme.errors import FieldError, InvalidError
from polyseme.http.asking import model_asked_for, request_limits
from polyseme.http.reading import JSON, accepted, read_body
from polyseme.http.requests import EmbeddingsRequest
from polyseme.http.upkeep import settings_of
from polyseme.http.writing import streamed, whole

embeddings = Blueprint("embeddings", __name__, url_prefix="/v1")

_ENTRY_BYTES = 64
"""About what an entry of the answer takes beside its numbers."""
_UNLIMITED = 1 << 62


@embeddings.post("/embeddings")
def embed() -> Response:
    """The vector of each text."""
    accepted(JSON)
    with g.stages("parse"):
        body = read_body(EmbeddingsRequest)
    texts = [body.input] if isinstance(body.input, str) else body.input
    model, limits = model_asked_for(body.model), request_limits()
    # What is limited is what is sent, and not the vectors of tokens that it is made of. They make a
    # batch a large one all the same: as it is streamed, others get their turn.
    unlimited = replace(limits, max_answer_bytes=_UNLIMITED)
    kept = body.wordless == "zero"
    choice = replace(POOLED, wordless="keep" if kept else "refuse")
    batch = Batch(model, texts, choice, unlimited, g.stages)
    g.account.counts = batch.counts
    pooling = body.pooling or settings_of(current_app).pooling
    vectors = sentence_vectors(batch, pooling, body.dimensions)
    width = body.dimensions or model.manifest.dimension
    size = _size(len(texts), width, body.encoding_format)
    limits.answer_bytes(size)
    pieces = _answer(batch, vectors if kept else _directed(vectors), body.encoding_format)
    if batch.large or size > limits.stream_bytes:
        return streamed(pieces, JSON, g.request_id)
    return _whole(pieces, limits)


def _whole(pieces: Iterator[bytes], limits: Limits) -> Response:
    made = list(pieces)
    with g.stages("write"):
        return whole(iter(made), JSON, limits)


def _size(number: int, width: int, encoding: Encoding) -> int:
    """The bytes of the answer, about, and rather too many."""
    return number * int(width * number_bytes("json", encoding) + _ENTRY_BYTES)


def _answer(
    batch: Batch, vectors: Iterator[NDArray[np.float32]], encoding: Encoding
) -> Iterator[bytes]:
    """Write the answer."""
    yield b'{"object":"list","data":['
    for index, vector in enumerate(vectors):
        start = b',{"object":"embedding","index":%d,"embedding":' % index
        yield (start if index else start[1:]) + _written(vector, encoding) + b"}"
    n = batch.counts.tokens
    usage = {"prompt_tokens": n, "total_tokens": n}
    yield b'],"model":%b,"usage":%b}' % (
        orjson.dumps(batch.model.manifest.name),
        orjson.dumps(usage),
    )


def _directed(vectors: Iterator[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    """Pass vectors on; raise InvalidError where the words of a text cancel out. [d] -> [d]"""
    for index, vector in enumerate(vectors):
        if not vector.any():
            message = "its words cancel each other out, so that it has no direction"
            raise InvalidError([FieldError(f"/input/{index}", message)])
        yield vector


def _written(vector: NDArray[np.float32], encoding: Encoding) -> bytes:
    """A vector as a list of numbers, or as the base64 of its bytes, little-endian. [d] ->"""
    if encoding == "base64":
        return b'"%b"' % pybase64.b64encode(vector.astype("<f4", copy=False).tobytes())
    return orjson.dumps(np.ascontiguousarray(vector), option=orjson.OPT_SERIALIZE_NUMPY)
