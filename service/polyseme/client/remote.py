"""A service somewhere else, called as a model in this process is."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain
from types import TracebackType
from typing import Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.batches import BYTES, SENTENCES, Batch, Sizes, batches
from polyseme.client.connection import (
    Terms,
    TransportError,
    answer_of,
    open_client,
    request_of,
    root_of,
    unreachable,
)
from polyseme.client.exchanges import Answer, Exchange, Exchanges, Question
from polyseme.client.results import Comparison, ModelFacts, Neighbour, Trace
from polyseme.client.vectors import Options, Sentence, Text, choice_of, several
from polyseme.encoding.compare import Occurrence
from polyseme.encoding.pooling import Pooling
from polyseme.errors import TooLargeError
from polyseme.tokenizer import Case

KEY = "POLYSEME_API_KEY"
"""Where the key is in the environment, if none is given."""
CONCURRENCY = 4
_T = TypeVar("_T")


class Client:
    """A service. Threads may share it; a process that is forked off needs its own.

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
        self._http = open_client(self._root, key, terms, concurrency)

    def __repr__(self) -> str:
        return f"Client({self._root!r}, model={self._model!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._facts.name

    @property
    def dimension(self) -> int:
        """d, the width of a vector; 0 where the model is broken."""
        return self._facts.dimension or 0

    @cached_property
    def _facts(self) -> ModelFacts:
        return self._hold(self._exchanges.model())

    def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Static vectors, contextual vectors and attention of sentences, in their order.

        The options are the fields of /v1/encode (docs/api.md). Raises PolysemeError for what the
        service refuses, ClientError where it does not answer or not as it should.
        """
        return list(self.encode_each(several(texts), **options))

    def encode_each(self, texts: Iterable[Text], **options: Unpack[Options]) -> Iterator[Sentence]:
        """Yield what `encode` gives, of any number of texts: a few batches are held at a time."""
        ask = partial(self._exchanges.encode, choice=choice_of(options))
        return chain.from_iterable(self._in_order(several(texts), ask))

    def embed(
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
        found = list(self._in_order(several(texts), ask))
        if found:
            return np.concatenate(found)
        return np.zeros((0, dimensions or self.dimension), np.float32)

    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
    ) -> Comparison:
        """Occurrences of words side by side: `[(text, word), …]`. Raises as `encode` does."""
        return self._hold(self._exchanges.compare(occurrences, neighbors, case))

    def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbour]:
        """The k words nearest to a word, or to a vector [d]. Raises as `encode` does."""
        return self._hold(self._exchanges.neighbors(near, k, case))

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Every step of one layer, in float64. Raises as `encode` does."""
        return self._hold(self._exchanges.trace(text, layer, case))

    def models(self) -> list[ModelFacts]:
        """The models of the service. Raises as `encode` does."""
        return self._hold(self._exchanges.models())

    def _in_order(
        self, texts: Iterable[Text], ask: Callable[[Batch], Exchange[_T]]
    ) -> Iterator[_T]:
        """Ask for batches, some at once, and yield what is answered in their order."""
        cut = batches(texts, self._sizes)
        first, second = next(cut, None), next(cut, None)
        if first and not second:  # needs no threads
            yield self._hold(ask(first))
            return
        pool = ThreadPoolExecutor(self._concurrency, "polyseme-client")
        running = deque[Future[_T]]()
        try:
            for batch in chain(filter(None, (first, second)), cut):
                if len(running) == self._concurrency:
                    yield running.popleft().result()
                running.append(pool.submit(self._hold, ask(batch)))
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _hold(self, exchange: Exchange[_T]) -> _T:
        """Carry an exchange to its end."""
        try:
            question = next(exchange)
            while True:
                try:
                    answer = self._ask(question)
                except TooLargeError as error:
                    question = exchange.throw(error)
                else:
                    question = exchange.send(answer)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _ask(self, question: Question) -> Answer:
        try:
            return answer_of(self._http.request(**request_of(self._root, question)))
        except TransportError as error:
            raised = unreachable(error)
        raise raised
