"""Build the requests of the clients and read their responses, without sending anything.

An exchange is a generator that yields requests and receives responses, as httpx's authentication
flows do, and returns the result. Both clients run the same exchanges. Every
request may be repeated, because the service keeps no state between requests.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import TypeAdapter

from polyseme.client.encoder import require_text
from polyseme.client.errors import ClientError, error_of_response, malformed_response, media_type_of
from polyseme.client.results import ModelFacts, Sentence, model_facts, read_sentences, require
from polyseme.errors import FieldError, InvalidError, TooLargeError
from polyseme.operations.catalog import OPERATIONS
from polyseme.operations.embed import Embeddings, EmbeddingsRequest
from polyseme.operations.schema import EncodeOptions, Request, Result
from polyseme.tokenizer import Text

if TYPE_CHECKING:
    import httpx

JSON, NPZ = "application/json", "application/x-npz"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Batch:
    """The texts of one request."""

    first: int
    """index of the first text among all texts"""
    texts: list[bytes]
    """each text as JSON"""


@dataclass
class BatchSize:
    """The maximum size of a batch, which is reduced when the service rejects one as too large."""

    sentences: int
    text_bytes: int

    def __post_init__(self) -> None:
        if self.sentences < 1 or self.text_bytes < 1:
            raise ValueError("`batch_sentences` and `batch_bytes` must be 1 or more.")

    def reduce(self, batch: Batch, error: TooLargeError) -> None:
        """Reduce the size so that `split` splits a rejected batch of two or more texts."""
        count, limit = len(batch.texts), error.extra["limit"]
        if error.extra["setting"] == "max_sentences":
            named = isinstance(limit, int) and 0 < limit < count
            self.sentences = min(self.sentences, int(limit) if named else count // 2)
        else:
            self.text_bytes = min(self.text_bytes, sum(map(len, batch.texts)) // 2)

    def split(self, batch: Batch) -> list[Batch]:
        """Return the parts of a batch, each within the maximum size or a single text."""
        batcher = Batcher(self, batch.first)
        parts = [*map(batcher.add_json, batch.texts), batcher.flush()]
        return [part for part in parts if part]


class Batcher:
    """Collects texts and returns them in batches; `first` is the index of the first text."""

    def __init__(self, size: BatchSize, first: int = 0) -> None:
        self._size, self._batch, self._bytes = size, Batch(first, []), 0

    def add(self, text: Text) -> Batch | None:
        """Add a text. Returns the previous texts if the text does not fit in their batch.

        Raises TypeError or InvalidError for an invalid text.
        """
        index = self._batch.first + len(self._batch.texts)
        return self.add_json(orjson.dumps(require_text(text, index)))

    def add_json(self, text: bytes) -> Batch | None:
        """Add a text as JSON. An empty batch takes a text of any size."""
        n, size = len(self._batch.texts), self._bytes + len(text)
        full = (
            n > 0
            and (
                n >= self._size.sentences
                or size > self._size.text_bytes
                # A request takes either texts or lists of words.
                or text[:1] != self._batch.texts[0][:1]
            )
        )
        batch = self.flush() if full else None
        self._batch.texts.append(text)
        self._bytes += len(text)
        return batch

    def flush(self) -> Batch | None:
        """Return the remaining texts as a batch, or None if there are none."""
        batch = self._batch
        self._batch, self._bytes = Batch(batch.first + len(batch.texts), []), 0
        return batch if batch.texts else None


def batches(texts: Iterable[Text], size: BatchSize) -> Iterator[Batch]:
    """Yield texts in batches, reading the texts as they are needed."""
    batcher = Batcher(size)
    for text in texts:
        if batch := batcher.add(text):
            yield batch
    if batch := batcher.flush():
        yield batch


async def async_batches(
    texts: Iterable[Text] | AsyncIterable[Text], size: BatchSize
) -> AsyncIterator[Batch]:
    """Yield texts from an iterable or an asynchronous iterable in batches."""
    if not isinstance(texts, AsyncIterable):
        for batch in batches(texts, size):
            yield batch
        return
    batcher = Batcher(size)
    async for text in texts:
        if full := batcher.add(text):
            yield full
    if last := batcher.flush():
        yield last


Exchange: TypeAlias = Generator["httpx.Request", "httpx.Response", _T]
"""A generator that yields requests, is sent responses and returns a result. The error of a response
that is too large is thrown into it."""
_reader = cache(TypeAdapter[Any])


class Exchanges:
    """The exchanges that use one model; None is the service's default model."""

    def __init__(
        self, http: "httpx.Client | httpx.AsyncClient", model: str | None, size: BatchSize
    ) -> None:
        self._http, self._model, self._size = http, model, size

    def encode(self, batch: Batch, options: EncodeOptions) -> Exchange[list[Sentence]]:
        """Encode a batch of sentences."""
        read = partial(read_sentences, options=options)
        parts = yield from self._send_batch(batch, "/v1/encode", NPZ, options, read)
        return [sentence for sentences in parts for sentence in sentences]

    def embed(self, batch: Batch, request: EmbeddingsRequest) -> Exchange[NDArray[np.float32]]:
        """Return one vector per sentence for a request without texts. -> [S, d or `dimensions`]"""
        request = request.model_copy(update={"encoding_format": "base64"})

        def read(content: bytes, count: int) -> NDArray[np.float32]:
            data = _reader(Embeddings).validate_json(content, extra="ignore").data
            vectors = np.stack([entry.embedding for entry in data])
            require([entry.index for entry in data] == [*range(count)])
            require(vectors.shape[1] == (request.dimensions or vectors.shape[1]) > 0)
            require(np.isfinite(vectors).all())
            return vectors

        parts = yield from self._send_batch(batch, "/v1/embeddings", JSON, request, read)
        return np.concatenate(parts)

    def call(self, request: Request[Result]) -> Exchange[Result]:
        """Send the request of an operation."""
        operation = OPERATIONS[type(request)]
        body = _encode_json(self._fields(request))
        content = yield from self._send(f"/v1/{operation.path}", JSON, body)
        read = partial(_reader(operation.result).validate_json, extra="ignore")
        result: Result = _read(read, content)
        return result

    def models(self) -> Exchange[list[ModelFacts]]:
        """List the models."""
        content = yield from self._send("/v1/models")
        return _read(lambda: [model_facts(entry) for entry in orjson.loads(content)["data"]])

    def model(self) -> Exchange[ModelFacts]:
        """Describe the model."""
        if self._model is not None:
            content = yield from self._send(f"/v1/models/{quote(self._model, safe='')}")
            return _read(lambda: model_facts(orjson.loads(content)))
        for facts in (yield from self.models()):
            if facts.default:
                return facts
        raise malformed_response()

    def _send_batch(
        self,
        batch: Batch,
        path: str,
        accept: str,
        request: Request[Any],
        read: Callable[[bytes, int], _T],
    ) -> Exchange[list[_T]]:
        """Send a batch, split into parts if it is too large; return the result of each part.

        `read` reads a response with the results of a number of texts.
        """
        results: list[_T] = []
        fields = self._fields(request)
        pending = [batch]
        while pending:
            part, *others = self._size.split(pending.pop())
            pending += reversed(others)
            texts = orjson.Fragment(b"[%b]" % b",".join(part.texts))
            body = _encode_json({"input": texts, **fields})
            try:
                content = yield from self._send(path, accept, body, part.first)
            except TooLargeError as error:
                if len(part.texts) == 1 or error.extra["setting"] == "max_sentence_tokens":
                    raise  # a smaller batch does not help
                self._size.reduce(part, error)
                pending.append(part)
            else:
                results.append(_read(read, content, len(part.texts)))
        return results

    def _fields(self, request: Request[Any]) -> dict[str, Any]:
        """Return the fields of a request but `input`, and the model's name.

        Fields that have their defaults are absent, because earlier services do not know all fields.
        """
        fields = request.model_dump(exclude={"input"}, exclude_defaults=True)
        if self._model is not None:
            fields["model"] = self._model
        return fields

    def _send(
        self, path: str, accept: str = JSON, body: bytes | None = None, first: int = 0
    ) -> Exchange[bytes]:
        """Return the content of a response with the status 200 and the accepted media type.

        Raises the error that the service reports, or AnswerError. `first` is the index of the
        batch's first text.
        """
        headers, method = {"Accept": accept}, "GET"
        if body is not None:
            headers["Content-Type"], method = JSON, "POST"
        if self._http.is_closed:
            raise ClientError("The client is closed: create another one.")
        response = yield self._http.build_request(method, path, headers=headers, content=body)
        if response.status_code != 200:
            raise error_of_response(response, first)
        if media_type_of(response) != accept:
            raise malformed_response()
        return response.content


def _encode_json(fields: dict[str, Any]) -> bytes:
    """Return JSON. Raises InvalidError for a value that it cannot have."""
    try:
        return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        error = FieldError((), "a value is not valid Unicode, or JSON does not have its type")
    raise InvalidError([error])


def _read(read: Callable[..., _T], *arguments: object) -> _T:
    """Read a document. Raises AnswerError if `read` raises any exception."""
    try:
        return read(*arguments)
    except Exception:  # noqa: BLE001 - a document from an unknown server
        raise malformed_response() from None
