"""The asynchronous client of a Polyseme service."""

import asyncio
import os
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.client import CONCURRENCY, KEY_VARIABLE
from polyseme.client.encoder import (
    Options,
    Text,
    compare_request,
    describe_options,
    embeddings_request,
    encode_options,
    find_vector,
    neighbors_request,
    parse_kind,
    require_list,
    senses_request,
    trace_request,
)
from polyseme.client.errors import ClientError
from polyseme.client.requests import (
    BATCH_BYTES,
    BATCH_SENTENCES,
    Batch,
    BatchSize,
    Exchange,
    Exchanges,
    HttpRequest,
    HttpResponse,
    async_batches,
)
from polyseme.client.results import (
    Array,
    ModelFacts,
    Sentence,
    VectorKind,
)
from polyseme.client.transport import (
    TransportError,
    TransportOptions,
    from_httpx,
    normalize_url,
    open_async_client,
    to_httpx,
    unreachable,
)
from polyseme.errors import TooLargeError
from polyseme.operations.compare import Comparison, Occurrence
from polyseme.operations.embed import Pooling
from polyseme.operations.neighbors import Neighbor
from polyseme.operations.schema import Request, Result
from polyseme.operations.senses import Matching, Senses
from polyseme.operations.trace import Trace
from polyseme.tokenizer import Case

_T = TypeVar("_T")


class AsyncClient:
    """An asynchronous client of a Polyseme service, with the arguments of `Client`.

    Use each instance in one event loop only. Texts are sent in batches of at most
    `batch_sentences` and `batch_bytes` (a longer text alone), up to `concurrency` batches at a
    time. Batches that the service rejects as too large are split, and temporary failures are
    retried. `key` defaults to the environment variable POLYSEME_API_KEY. See docs/client.md.
    """

    @describe_options(TransportOptions)
    def __init__(
        self,
        url: str,
        key: str | None = None,
        model: str | None = None,
        *,
        batch_sentences: int = BATCH_SENTENCES,
        batch_bytes: int = BATCH_BYTES,
        concurrency: int = CONCURRENCY,
        **options: Unpack[TransportOptions],
    ) -> None:
        """Create a client.

        Raises TypeError or ValueError if the URL, the key or an option is invalid.
        """
        self._root, self._model = normalize_url(url), model
        self._size = BatchSize(batch_sentences, batch_bytes)
        self._exchanges = Exchanges(model, self._size)
        self._concurrency = concurrency
        key = os.environ.get(KEY_VARIABLE) if key is None else key
        self._http = open_async_client(self._root, key, options, concurrency)

    def __repr__(self) -> str:
        return f"AsyncClient({self._root!r}, model={self._model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def model(self) -> ModelFacts:
        """Return the main facts about the model. Raises the same exceptions as `encode`."""
        return await self._run(self._exchanges.model())

    @describe_options(Options)
    async def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Return static and contextual vectors [n, d] and attention [L, h, n, n] of each sentence.

        Raises PolysemeError if the service rejects a request, ClientError if it does not respond or
        a response is malformed.
        """
        return [one async for one in self.encode_each(require_list(texts), **options)]

    @describe_options(Options)
    async def encode_each(
        self, texts: Iterable[Text] | AsyncIterable[Text], **options: Unpack[Options]
    ) -> AsyncIterator[Sentence]:
        """Yield the results of `encode` for any number of texts, with a few batches in memory."""
        exchange = partial(self._exchanges.encode, options=encode_options(options))
        async with aclosing(self._map_batches(require_list(texts), exchange)) as results:
            async for batch in results:
                for one in batch:
                    yield one

    async def vector(
        self,
        text: Text,
        word: str,
        *,
        nth: int = 0,
        kind: VectorKind = "contextual",
        phrases: bool = False,
    ) -> Array:
        """Return the vector of a word in a text. -> [d], or [2d] for features

        `nth` selects an occurrence, counted from 0. With `phrases`, the word may be a phrase of the
        vocabulary. Raises NoSuchTokenError, a KeyError, if there is no such occurrence, and the
        same exceptions as `encode`.
        """
        (sentence,) = await self.encode([text], include=parse_kind(kind), phrases=phrases)
        return find_vector(sentence, word, nth, kind)

    async def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """Return one unit vector per sentence, zero if no word is known. -> [S, d or `dimensions`]

        `pooling` defaults to the service's setting. Raises the same exceptions as `encode`.
        """
        request = embeddings_request(pooling, dimensions)
        exchange = partial(self._exchanges.embed, request=request)
        found = [one async for one in self._map_batches(require_list(texts), exchange)]
        if found:
            return np.concatenate(found)
        return np.zeros((0, dimensions or (await self.model()).dimension or 0), np.float32)

    async def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
        phrases: bool = False,
        share: float | None = None,
    ) -> Comparison:
        """Compare m occurrences of words, `[(text, word), …]`; similarities are [m, m].

        `phrases` and `share` have the same meaning as in `encode`; `share` also applies to the
        contextual neighbors.
        Raises the same exceptions as `encode`.
        """
        request = compare_request(occurrences, neighbors, case, phrases, share)
        return await self._call(request)

    async def senses(
        self,
        word: str,
        texts: Sequence[str],
        *,
        forms: Sequence[str] = (),
        case: Matching = "any",
        phrases: bool = False,
        senses: int | None = None,
        keywords: int = 8,
        neighbors: int = 5,
        examples: int = 3,
    ) -> Senses:
        """Return at most `senses` senses of a word in texts; None estimates their number.

        The occurrences are the tokens that equal `word` or one of `forms`; upper and lower case
        are distinguished only if `case` is `exact`.
        Raises the same exceptions as `encode`, and InvalidError if the word does not occur.
        """
        numbers = {"keywords": keywords, "neighbors": neighbors, "examples": examples}
        request = senses_request(word, texts, forms, case, phrases, senses, numbers)
        return await self._call(request)

    async def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbor]:
        """Return the k words nearest to a word or a vector [d].

        Raises the same exceptions as `encode`.
        """
        return (await self._call(neighbors_request(near, k, case))).neighbors

    async def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Return each step of a layer, in float64. Raises the same exceptions as `encode`."""
        return await self._call(trace_request(text, layer, case))

    async def models(self) -> list[ModelFacts]:
        """Return the models of the service. Raises the same exceptions as `encode`."""
        return await self._run(self._exchanges.models())

    async def _map_batches(
        self,
        texts: Iterable[Text] | AsyncIterable[Text],
        exchange: Callable[[Batch], Exchange[_T]],
    ) -> AsyncGenerator[_T]:
        """Run an exchange for each batch, several at once, and yield the results in order."""
        running = deque[asyncio.Task[_T]]()
        try:
            async for batch in async_batches(texts, self._size):
                if len(running) == self._concurrency:
                    yield await running.popleft()
                running.append(asyncio.create_task(self._run(exchange(batch))))
            while running:
                yield await running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _call(self, request: Request[Result]) -> Result:
        return await self._run(self._exchanges.call(request))

    async def _run(self, exchange: Exchange[_T]) -> _T:
        """Send the requests that an exchange yields, and return its result."""
        try:
            request = next(exchange)
            while True:
                try:
                    response = await self._send(request)
                except TooLargeError as error:
                    request = exchange.throw(error)
                else:
                    request = exchange.send(response)
        except StopIteration as end:
            result: _T = end.value
            return result

    async def _send(self, request: HttpRequest) -> HttpResponse:
        if self._http.is_closed:
            raise ClientError("The client is closed: create another one.")
        try:
            return from_httpx(await self._http.request(**to_httpx(self._root, request)))
        except TransportError as error:
            raised = unreachable(error)
        raise raised  # outside the handler, so that the traceback has no httpx exceptions
