"""The asynchronous client of a Polyseme service."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.client.client import BaseClient
from polyseme.client.encoder import AsyncEncoder
from polyseme.client.errors import ClientError
from polyseme.client.requests import Batch, Exchange, async_batches
from polyseme.client.results import ModelFacts, Sentence
from polyseme.client.transport import HttpxAsyncClient, TransportError, unreachable
from polyseme.errors import TooLargeError
from polyseme.operations.embed import EmbeddingsRequest
from polyseme.operations.options import EncodeOptions
from polyseme.operations.schema import Request, Result
from polyseme.tokenizer import Text

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


class AsyncClient(BaseClient, AsyncEncoder):
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

    async def models(self) -> list[ModelFacts]:
        """Return the models of the service. Raises the same exceptions as `encode`."""
        return await self._run(self._exchanges.models())

    async def _encode(
        self, texts: Iterable[Text], options: EncodeOptions, read: Callable[[list[Sentence]], _T]
    ) -> _T:
        return read([sentence async for sentence in self._encode_each(texts, options)])

    async def _encode_each(
        self, texts: Iterable[Text] | AsyncIterable[Text], options: EncodeOptions
    ) -> AsyncGenerator[Sentence]:
        exchange = partial(self._exchanges.encode, options=options)
        async with aclosing(self._map_batches(texts, exchange)) as batches:
            async for batch in batches:
                for sentence in batch:
                    yield sentence

    async def _embed(
        self, texts: Iterable[Text], request: EmbeddingsRequest
    ) -> NDArray[np.float32]:
        exchange = partial(self._exchanges.embed, request=request)
        vectors = [part async for part in self._map_batches(texts, exchange)]
        if vectors:
            return np.concatenate(vectors)
        dimension = request.dimensions or (await self.model()).dimension
        return np.zeros((0, dimension or 0), np.float32)

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

    async def _call(self, request: Request[Result], read: Callable[[Result], _T]) -> _T:
        return read(await self._run(self._exchanges.call(request)))

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
            raise unreachable(error) from error
