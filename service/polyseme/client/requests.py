"""Build the requests of the clients and read their responses, without sending anything.

An exchange is a generator that yields requests and receives responses, as httpx's authentication
flows do, and returns the result. Both clients run the same exchanges. Every
request may be repeated, because the service keeps no state between requests.
"""

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import TypeAdapter

from polyseme.client.encoder import require_text
from polyseme.client.results import (
    AnswerError,
    ClientError,
    ModelFacts,
    Sentence,
    model_facts,
    read_sentences,
    require,
)
from polyseme.errors import (
    MAX_ERRORS,
    FieldError,
    InvalidError,
    PolysemeError,
    TooLargeError,
    UnknownWordError,
)
from polyseme.operations.catalog import OPERATIONS
from polyseme.operations.embed import Embeddings, EmbeddingsRequest
from polyseme.operations.schema import EncodeOptions, Request, Result
from polyseme.tokenizer import Text

if TYPE_CHECKING:
    import httpx

JSON, NPZ = "application/json", "application/x-npz"
_MAX_CHARACTERS = 2000
"""Longer strings of an error document are ignored, except unknown words."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_MAX_WORDS = 10_000
_MAX_PROBLEM_BYTES = 1 << 20
_T = TypeVar("_T")


@dataclass
class Batch:
    """The texts of one request."""

    first: int
    """index of the first text among all texts"""
    texts: list[bytes] = field(default_factory=list)
    """each text as JSON"""
    size: int = 0
    """bytes of the texts"""

    @property
    def end(self) -> int:
        """The index after that of the last text."""
        return self.first + len(self.texts)

    def add(self, text: bytes) -> None:
        """Add a text as JSON."""
        self.texts.append(text)
        self.size += len(text)


@dataclass
class BatchSize:
    """The maximum size of a batch, which is reduced when the service rejects one as too large."""

    sentences: int
    text_bytes: int

    def __post_init__(self) -> None:
        if self.sentences < 1 or self.text_bytes < 1:
            raise ValueError("`batch_sentences` and `batch_bytes` must be 1 or more.")

    def fits(self, batch: Batch, text: bytes) -> bool:
        """Return whether a text may be added. An empty batch takes a text of any size."""
        if not batch.texts:
            return True
        # A request takes either texts or lists of words.
        same_kind = text[:1] == batch.texts[0][:1]
        full = len(batch.texts) >= self.sentences or batch.size + len(text) > self.text_bytes
        return same_kind and not full

    def reduce(self, batch: Batch, error: TooLargeError) -> None:
        """Reduce the size so that a rejected batch of two or more texts is split."""
        count, limit = len(batch.texts), error.extra["limit"]
        if error.extra["setting"] == "max_sentences":
            named = isinstance(limit, int) and 0 < limit < count
            self.sentences = min(self.sentences, int(limit) if named else count // 2)
        else:
            self.text_bytes = min(self.text_bytes, batch.size // 2)


def json_text(text: Text, index: int) -> bytes:
    """Return a text as JSON. Raises TypeError or InvalidError for an invalid text."""
    return orjson.dumps(require_text(text, index))


def batches(texts: Iterable[bytes], size: BatchSize, first: int = 0) -> Iterator[Batch]:
    """Yield texts in batches, reading them as they are needed; `first` is the index of the first.

    `size` may change meanwhile.
    """
    batch = Batch(first)
    for text in texts:
        if not size.fits(batch, text):
            yield batch
            batch = Batch(batch.end)
        batch.add(text)
    if batch.texts:
        yield batch


async def async_batches(
    texts: Iterable[Text] | AsyncIterable[Text], size: BatchSize
) -> AsyncIterator[Batch]:
    """Yield texts from an iterable or an asynchronous iterable in batches."""
    if not isinstance(texts, AsyncIterable):
        for full in batches(map(json_text, texts, count()), size):
            yield full
        return
    batch = Batch(0)
    async for each in texts:
        text = json_text(each, batch.end)
        if not size.fits(batch, text):
            yield batch
            batch = Batch(batch.end)
        batch.add(text)
    if batch.texts:
        yield batch


Exchange: TypeAlias = Generator["httpx.Request", Any, _T]
"""A generator that yields requests and returns a result. It is sent responses, or in place of one
the error of a response that is too large."""
_adapter = cache(TypeAdapter[Any])


@dataclass
class Steps(Generic[_T]):
    """Yields the requests of an exchange; the loop sets `response` to the response of each."""

    exchange: Exchange[_T]
    response: "httpx.Response | TooLargeError | None" = None
    result: _T = field(init=False)
    """what the exchange returns, after the loop"""

    def __iter__(self) -> Iterator["httpx.Request"]:
        try:
            while True:
                yield self.exchange.send(self._take())
        except StopIteration as end:
            self.result = end.value

    def _take(self) -> "httpx.Response | TooLargeError | None":
        """Return the response without keeping it: an error's traceback would refer to itself."""
        response, self.response = self.response, None
        return response


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
            data = _adapter(Embeddings).validate_json(content, extra="ignore").data
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
        read = partial(_adapter(operation.result).validate_json, extra="ignore")
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
            batch = pending.pop()
            part, *others = batches(batch.texts, self._size, batch.first)
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
        if isinstance(response, TooLargeError):
            try:
                raise response
            finally:
                del response  # of which the traceback would be a cycle, with what was received
        if response.status_code != 200:
            raise error_of_response(response, first)
        if media_type_of(response) != accept:
            raise malformed_response()
        content: bytes = response.content
        return content


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


def malformed_response() -> AnswerError:
    """Return the error for a response that does not have the expected form."""
    return AnswerError(
        "The response does not have the expected form: the server at this address is not Polyseme,"
        " or is another version of it."
    )


def media_type_of(response: "httpx.Response") -> str:
    """Return the Content-Type of a response, without its parameters."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def error_of_response(response: "httpx.Response", first: int = 0) -> Exception:
    """Return the error for a complete response whose status is not 200.

    `first` is the index of the batch's first text; it is added to the indices in paths.
    """
    status, document = response.status_code, None
    is_problem = media_type_of(response) == "application/problem+json"
    if is_problem and len(response.content) <= _MAX_PROBLEM_BYTES:
        with suppress(orjson.JSONDecodeError):
            document = orjson.loads(response.content)
    if isinstance(document, dict) and isinstance(document.get("code"), str):
        error: Any = _error_of_problem(status, document)
        if hasattr(error, "retry_after"):
            error.seconds = int(response.headers.get("Retry-After", error.retry_after))
        if error.request_id:
            error.add_note(f"Request {error.request_id}")
        return shift_paths(error, first)
    if 300 <= status < 400:
        sentence = (
            f"The server responds with {status}, a redirect. The client does not follow it, because"
            " the key is meant for this address only: use the address that it redirects to."
        )
    else:
        sentence = (
            f"The server responds with {status} and no error document of Polyseme: it may be a"
            " proxy or another service."
        )
    return AnswerError(sentence, status)


def shift_paths(error: PolysemeError, first: int) -> PolysemeError:
    """Add `first`, the index of a batch's first text, to the paths of texts; return the error."""
    errors = [*error.errors]
    for i, one in enumerate(errors):
        match one.path:
            case ("input", int(index), *rest):
                errors[i] = FieldError(("input", index + first, *rest), one.message)
    error.errors = errors
    return error


def _subclasses(root: type[PolysemeError]) -> Iterator[type[PolysemeError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _subclasses(kind)


def _error_of_problem(status: int, document: dict[str, Any]) -> PolysemeError:
    """Return an error with the members of a problem document.

    Its class is the one with the code of the document, else the first with the status.
    """
    classes = list(_subclasses(PolysemeError))
    same_code = (kind for kind in classes if kind.code == document["code"])
    same_status = (kind for kind in classes if kind.status == status)
    kind = next(same_code, None) or next(same_status, PolysemeError)
    error = kind.__new__(kind)
    PolysemeError.__init__(error, _text(document.get("detail")), _text(document.get("hint")))
    error.request_id = _text(document.get("request_id"))
    error.errors = []
    for entry in _list(document.get("errors"))[:MAX_ERRORS]:
        if isinstance(entry, dict) and (message := _text(entry.get("message"))):
            parts = (_text(entry.get("pointer")) or "").split("/")[1:]
            path = tuple(int(part) if _INDEX.fullmatch(part) else part for part in parts)
            error.errors.append(FieldError(path, message))
    if error.errors and isinstance(error, InvalidError):
        error.detail = kind.detail  # the detail of the document repeats the first field
    if isinstance(error, TooLargeError):
        limit, size = document.get("limit"), document.get("size")
        error.extra = {
            "limit": limit if isinstance(limit, int) else 0,
            "size": size if isinstance(size, int) else "unknown",
            "setting": _text(document.get("setting")) or "unknown",
        }
    if isinstance(error, UnknownWordError):
        words = _list(document.get("words"))[:_MAX_WORDS]
        error.words = [word for word in words if isinstance(word, str)]
    return error


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    """Return the value if it is a printable string, neither empty nor too long, else None."""
    fits = isinstance(value, str) and value.isprintable() and len(value) <= _MAX_CHARACTERS
    return value if fits and value else None
