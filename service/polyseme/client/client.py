"""The clients of a Polyseme service, with the same interface as `LocalModel`."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.client.encoder import AsyncEncoder, Encoder
from polyseme.client.requests import Batch, Exchange, async_batches, batches
from polyseme.client.results import ModelFacts, Sentence
from polyseme.client.transport import BaseClient, TransportError, unreachable
from polyseme.errors import TooLargeError
from polyseme.operations.embed import EmbeddingsRequest
from polyseme.operations.schema import EncodeOptions, Request, Result
from polyseme.tokenizer import Text

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


class Client(BaseClient, Encoder):
    """A client of a Polyseme service. Threads may share it; a forked process needs its own.

    Batches that the service rejects as too large are split, and temporary failures are retried.
    `key` defaults to the environment variable POLYSEME_API_KEY. See docs/client.md.
    """

    _http: "httpx.Client"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, request: Request[Result], read: Callable[[Result], _T]) -> _T:
        return read(self._run(self._exchanges.call(request)))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._facts.name

    @property
    def dimension(self) -> int:
        """The width d of a vector; 0 if the model is broken."""
        return self._facts.dimension or 0

    @cached_property
    def _facts(self) -> ModelFacts:
        return self._run(self._exchanges.model())

    def _encode_each(self, texts: Iterable[Text], options: EncodeOptions) -> Iterator[Sentence]:
        exchange = partial(self._exchanges.encode, options=options)
        return chain.from_iterable(self._map_batches(texts, exchange))

    def _embed(self, texts: Iterable[Text], request: EmbeddingsRequest) -> NDArray[np.float32]:
        exchange = partial(self._exchanges.embed, request=request)
        vectors = list(self._map_batches(texts, exchange))
        if vectors:
            return np.concatenate(vectors)
        return np.zeros((0, request.dimensions or self.dimension), np.float32)

    def models(self) -> list[ModelFacts]:
        """Return the models of the service. Raises the same exceptions as `encode`."""
        return self._run(self._exchanges.models())

    def _map_batches(
        self, texts: Iterable[Text], exchange: Callable[[Batch], Exchange[_T]]
    ) -> Iterator[_T]:
        """Run an exchange for each batch, several at once, and yield the results in order."""
        remaining = batches(texts, self._size)
        first, second = next(remaining, None), next(remaining, None)
        if first and not second:  # a single batch needs no threads
            yield self._run(exchange(first))
            return
        pool = ThreadPoolExecutor(self._concurrency, "polyseme-client")
        running = deque[Future[_T]]()
        try:
            for batch in chain(filter(None, (first, second)), remaining):
                if len(running) == self._concurrency:
                    yield running.popleft().result()
                running.append(pool.submit(self._run, exchange(batch)))
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, exchange: Exchange[_T]) -> _T:
        """Send the requests that an exchange yields, and return its result."""
        try:
            request = next(exchange)
            while True:
                try:
                    response = self._http.send(request)
                except TooLargeError as error:
                    request = exchange.throw(error)
                except TransportError as error:
                    raise unreachable(error) from error
                else:
                    request = exchange.send(response)
        except StopIteration as end:
            result: _T = end.value
            return result


class AsyncClient(BaseClient, AsyncEncoder):
    """An asynchronous client of a Polyseme service, with the arguments of `Client`.

    Use each instance in one event loop only. At most `concurrency` batches are sent at a time over
    all calls, so that any number of calls may be gathered. See docs/client.md.
    """

    _is_async = True
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
                    async with self._turn:
                        response = await self._http.send(request)
                except TooLargeError as error:
                    request = exchange.throw(error)
                except TransportError as error:
                    raise unreachable(error) from error
                else:
                    request = exchange.send(response)
        except StopIteration as end:
            result: _T = end.value
            return result
