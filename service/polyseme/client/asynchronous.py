"""The asynchronous twin of `Client`: the same calls, to be awaited."""

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

from polyseme.client.batches import BYTES, SENTENCES, Batch, Sizes, batches_async
from polyseme.client.connection import (
    Terms,
    TransportError,
    answer_of,
    open_async_client,
    request_of,
    root_of,
    unreachable,
)
from polyseme.client.exchanges import Answer, Exchange, Exchanges, Question
from polyseme.client.remote import CONCURRENCY, KEY
from polyseme.client.results import Comparison, ModelFacts, Neighbour, Trace
from polyseme.client.vectors import Options, Sentence, Text, choice_of, several
from polyseme.encoding.compare import Occurrence
from polyseme.encoding.pooling import Pooling
from polyseme.errors import TooLargeError
from polyseme.tokenizer import Case

_T = TypeVar("_T")


class AsyncClient:
    """A service, for one event loop of asyncio; its arguments are those of `Client`.

    Texts go in batches of at most `batch_sentences` and `batch_bytes`, `concurrency` of them at
    once, smaller ones where the service refuses them; what may pass is tried again. Without a key
    it is that of the environment, POLYSEME_API_KEY. More in docs/client.md.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        model: str | None = None,
        *,
        batch_sentences: int = SENTENCES,
        batch_bytes: int = BYTES,
        concurrency: int = CONCURRENCY,
        **terms: Unpack[Terms],
    ) -> None:
        """`terms` are those of `connection.Terms`: timeout, retries, … Raises ValueError."""
        self._root, self._model = root_of(url), model
        self._sizes = Sizes(batch_sentences, batch_bytes)
        self._exchanges = Exchanges(model, self._sizes)
        self._concurrency = concurrency
        key = os.environ.get(KEY) if key is None else key
        self._http = open_async_client(self._root, key, terms, concurrency)

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
        """The model that answers: its name, its dimension, … Raises as `encode` does."""
        return await self._hold(self._exchanges.model())

    async def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Static vectors, contextual vectors and attention of sentences, in their order.

        The options are the fields of /v1/encode (docs/api.md). Raises PolysemeError for what the
        service refuses, ClientError where it does not answer or not as it should.
        """
        return [one async for one in self.encode_each(several(texts), **options)]

    async def encode_each(
        self, texts: Iterable[Text] | AsyncIterable[Text], **options: Unpack[Options]
    ) -> AsyncIterator[Sentence]:
        """Yield what `encode` gives, of any number of texts: a few batches are held at a time."""
        ask = partial(self._exchanges.encode, choice=choice_of(options))
        async with aclosing(self._in_order(several(texts), ask)) as answered:
            async for batch in answered:
                for one in batch:
                    yield one

    async def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """One vector of length 1 of each sentence, zero where no word is known. -> [S, d]

        Pooled as the service's settings say, unless `pooling` does. Raises as `encode` does.
        """
        ask = partial(self._exchanges.embed, pooling=pooling, dimensions=dimensions)
        found = [one async for one in self._in_order(several(texts), ask)]
        if found:
            return np.concatenate(found)
        return np.zeros((0, dimensions or (await self.model()).dimension or 0), np.float32)

    async def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
    ) -> Comparison:
        """Occurrences of words side by side: `[(text, word), …]`. Raises as `encode` does."""
        return await self._hold(self._exchanges.compare(occurrences, neighbors, case))

    async def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbour]:
        """The k words nearest to a word, or to a vector [d]. Raises as `encode` does."""
        return await self._hold(self._exchanges.neighbors(near, k, case))

    async def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Every step of one layer, in float64. Raises as `encode` does."""
        return await self._hold(self._exchanges.trace(text, layer, case))

    async def models(self) -> list[ModelFacts]:
        """The models of the service. Raises as `encode` does."""
        return await self._hold(self._exchanges.models())

    async def _in_order(
        self,
        texts: Iterable[Text] | AsyncIterable[Text],
        ask: Callable[[Batch], Exchange[_T]],
    ) -> AsyncGenerator[_T]:
        """Ask for batches, some at once, and yield what is answered in their order."""
        running = deque[asyncio.Task[_T]]()
        try:
            async for batch in batches_async(texts, self._sizes):
                if len(running) == self._concurrency:
                    yield await running.popleft()
                running.append(asyncio.create_task(self._hold(ask(batch))))
            while running:
                yield await running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _hold(self, exchange: Exchange[_T]) -> _T:
        """Carry an exchange to its end."""
        try:
            question = next(exchange)
            while True:
                try:
                    answer = await self._ask(question)
                except TooLargeError as error:
                    question = exchange.throw(error)
                else:
                    question = exchange.send(answer)
        except StopIteration as end:
            result: _T = end.value
            return result

    async def _ask(self, question: Question) -> Answer:
        try:
            return answer_of(await self._http.request(**request_of(self._root, question)))
        except TransportError as error:
            raised = unreachable(error)
        raise raised
