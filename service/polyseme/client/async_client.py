"""The asynchronous client of a Polyseme service."""

import asyncio
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
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.client import BaseClient
from polyseme.client.encoder import (
    CompareArguments,
    EncodeArguments,
    Encoder,
    SensesArguments,
    SharedArguments,
    Text,
    apply_request,
    as_blocking,
    compare_request,
    defaults_of,
    describe_options,
    embeddings_request,
    encode_options,
    find_vector,
    neighbors_request,
    request_of,
    require_list,
    senses_request,
    vector_options,
)
from polyseme.client.errors import ClientError
from polyseme.client.requests import (
    Batch,
    Exchange,
    async_batches,
)
from polyseme.client.results import Array, ModelFacts, Sentence, VectorKind
from polyseme.client.transport import (
    HttpxAsyncClient,
    TransportError,
    unreachable,
)
from polyseme.errors import TooLargeError
from polyseme.operations.compare import Comparison, Occurrence
from polyseme.operations.embed import Pooling
from polyseme.operations.options import EncodeOptions
from polyseme.operations.schema import Neighbor, Request, Result
from polyseme.operations.trace import Trace, TraceRequest
from polyseme.senses.find import Senses
from polyseme.senses.inventory import AppliedSenses, SenseInventory
from polyseme.tokenizer import Case

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


class AsyncClient(BaseClient):
    """An asynchronous client of a Polyseme service, with the arguments of `Client`.

    Use each instance in one event loop only. Texts are sent in batches of at most
    `batch_sentences` and `batch_bytes` (a longer text alone), up to `concurrency` batches at a time
    over all calls, so that any number of calls may be gathered. Batches that the service rejects as
    too large are split, and temporary failures are retried. `key` defaults to the environment
    variable POLYSEME_API_KEY. See docs/client.md.
    """

    _kind = HttpxAsyncClient
    _http: "httpx.AsyncClient"

    @cached_property
    def _turn(self) -> asyncio.Semaphore:
        """Held by each request in progress: waiting requests make httpx's pool slow."""
        return asyncio.Semaphore(self._concurrency)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def model(self) -> ModelFacts:
        """Return the main facts about the model. Raises the same exceptions as `encode`."""
        return await self._run(self._exchanges.model())

    @as_blocking(Encoder.encode)
    async def encode(
        self, texts: Sequence[Text], **options: Unpack[EncodeArguments]
    ) -> list[Sentence]:
        each = self._encode_each(require_list(texts), encode_options(options))
        return [sentence async for sentence in each]

    @describe_options(EncodeArguments, defaults_of(EncodeOptions))
    async def encode_each(
        self, texts: Iterable[Text] | AsyncIterable[Text], **options: Unpack[EncodeArguments]
    ) -> AsyncIterator[Sentence]:
        """Yield the results of `encode` for any number of texts, with a few batches in memory."""
        each = self._encode_each(require_list(texts), encode_options(options))
        async with aclosing(each):
            async for sentence in each:
                yield sentence

    @as_blocking(Encoder.vector)
    async def vector(
        self,
        text: Text,
        word: str,
        *,
        nth: int = 0,
        kind: VectorKind = "contextual",
        **options: Unpack[SharedArguments],
    ) -> Array:
        each = self._encode_each([text], vector_options(kind, options))
        (sentence,) = [sentence async for sentence in each]
        return find_vector(sentence, word, nth, kind)

    @as_blocking(Encoder.embed)
    async def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        request = embeddings_request(pooling, dimensions)
        exchange = partial(self._exchanges.embed, request=request)
        vectors = [part async for part in self._map_batches(require_list(texts), exchange)]
        if vectors:
            return np.concatenate(vectors)
        return np.zeros((0, dimensions or (await self.model()).dimension or 0), np.float32)

    @as_blocking(Encoder.compare)
    async def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        **options: Unpack[CompareArguments],
    ) -> Comparison:
        return await self._call(compare_request(occurrences, options))

    @as_blocking(Encoder.senses)
    async def senses(
        self, word: str, texts: Sequence[str], **options: Unpack[SensesArguments]
    ) -> Senses:
        return await self._call(senses_request(word, texts, options))

    @as_blocking(Encoder.apply)
    async def apply(
        self, inventory: Senses | SenseInventory, texts: Sequence[str]
    ) -> AppliedSenses:
        return await self._call(apply_request(inventory, texts))

    @as_blocking(Encoder.neighbors)
    async def neighbors(
        self,
        near: str | ArrayLike | None = None,
        k: int = 10,
        *,
        positive: Sequence[str | ArrayLike] = (),
        negative: Sequence[str | ArrayLike] = (),
        case: Case = "auto",
    ) -> list[Neighbor]:
        request = neighbors_request(near, k, positive, negative, case)
        return (await self._call(request)).neighbors

    @as_blocking(Encoder.trace)
    async def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        return await self._call(request_of(TraceRequest, text=text, layer=layer, case=case))

    async def models(self) -> list[ModelFacts]:
        """Return the models of the service. Raises the same exceptions as `encode`."""
        return await self._run(self._exchanges.models())

    async def _encode_each(
        self, texts: Iterable[Text] | AsyncIterable[Text], options: EncodeOptions
    ) -> AsyncGenerator[Sentence]:
        exchange = partial(self._exchanges.encode, options=options)
        async with aclosing(self._map_batches(texts, exchange)) as batches:
            async for batch in batches:
                for sentence in batch:
                    yield sentence

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

    async def _send(self, request: "httpx.Request") -> "httpx.Response":
        if self._http.is_closed:
            raise ClientError("The client is closed: create another one.")
        try:
            async with self._turn:
                return await self._http.send(request)
        except TransportError as error:
            raised = unreachable(error)
        raise raised  # outside the handler, so that the traceback has no httpx exceptions
