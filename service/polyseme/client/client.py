"""The clients of a Polyseme service, with the same interface as `LocalModel`.

httpx sends the requests: connection pools, retries, and a limit on the size of a response.
"""

import asyncio
import math
import os
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from polyseme import __version__
from polyseme.client.encoder import AsyncEncoder, Encoder
from polyseme.client.requests import (
    Batch,
    BatchSize,
    Exchange,
    Exchanges,
    Steps,
    async_batches,
    batches,
    error_of_response,
    json_text,
)
from polyseme.client.results import AnswerError, ModelFacts, Sentence, UnreachableError
from polyseme.errors import TooLargeError, install_command
from polyseme.operations.embed import EmbeddingsRequest
from polyseme.operations.schema import EncodeOptions, Request, Result
from polyseme.tokenizer import Text

try:
    import httpx
    from httpx_retries import Retry, RetryTransport
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"The client needs httpx: {install_command('client')}.") from error

_T = TypeVar("_T")
KEY_VARIABLE = "POLYSEME_API_KEY"
"""The environment variable of the default key."""
RETRY_STATUSES = (429, 502, 503, 504)
_RETRY_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
_BACKOFF = 0.25
"""Seconds. The first retry waits up to 0.5 s, each further retry up to twice as long."""
_FOREVER = 1e9
"""Seconds. A longer Retry-After counts as this long."""
_KEEPALIVE = 4
"""Seconds that an idle connection is kept open. The service closes it after 5 by default."""


class BaseClient:
    """What both clients have in common."""

    _classes: ClassVar[Any] = httpx.Client, httpx.HTTPTransport

    def __init__(
        self,
        url: str,
        key: str | None = None,
        model: str | None = None,
        *,
        batch_sentences: int = 64,
        batch_bytes: int = 64 << 10,
        concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 4,
        longest_wait: float = 60.0,
        max_answer_bytes: int = 256 << 20,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create a client.

        Raises TypeError or ValueError if the URL, the key or an option is invalid.

        Options:
            batch_sentences: Maximum number of texts in a request.
            batch_bytes: Maximum bytes of the texts in a request; a longer text is sent alone.
            concurrency: Maximum number of requests at a time.
            timeout: Maximum seconds to wait for each byte. The limit for connecting is the same,
                but at most 10.
            retries: Maximum number of further attempts of a request.
            longest_wait: Maximum seconds between attempts; a request is not retried if Retry-After
                is longer.
            max_answer_bytes: Maximum size of a response.
            proxy: The URL of a proxy; environment variables such as HTTPS_PROXY are ignored.
            tls: The trusted certificate authorities, an ssl.SSLContext. None: those of certifi.
            transport: The httpx transport to use instead of a connection, such as
                httpx.WSGITransport(app).
        """
        for name, value in {"timeout": timeout, "longest_wait": longest_wait}.items():
            if not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"`{name}` must be a number of 0 or more.")
        _require_integer("retries", retries, 0)
        _require_integer("max_answer_bytes", max_answer_bytes, 1)
        _require_integer("concurrency", concurrency, 1)
        for name, text in {"proxy": proxy, "key": key}.items():
            if not isinstance(text, str | None):
                raise TypeError(f"`{name}` must be a string.")
        if not isinstance(tls, ssl.SSLContext | None):
            raise TypeError("`tls` must be an ssl.SSLContext.")
        self._root, self._model = _normal_url(url), model
        self._size = BatchSize(batch_sentences, batch_bytes)
        self._concurrency = concurrency
        http, connections = self._classes
        inner = transport or connections(
            # Loading the certificate authorities takes long, and only https needs them.
            verify=tls or self._root.lower().startswith("https:"),
            limits=httpx.Limits(
                max_connections=concurrency,
                max_keepalive_connections=concurrency,
                keepalive_expiry=_KEEPALIVE,
            ),
            proxy=proxy,
            trust_env=False,
        )
        retry = _Retry(
            retries,
            ("GET", "POST"),
            RETRY_STATUSES,
            _RETRY_ERRORS,
            backoff_factor=_BACKOFF,
            max_backoff_wait=longest_wait or math.ulp(0),  # `Retry` rejects 0
        )
        complete = _CompleteResponses(inner, max_answer_bytes, longest_wait)
        self._http: Any = http(
            base_url=self._root,
            headers=_headers(os.environ.get(KEY_VARIABLE) if key is None else key),
            # A call waits without a timeout while other calls of this client use all connections.
            timeout=httpx.Timeout(timeout, connect=min(10, timeout), pool=None),
            follow_redirects=False,
            trust_env=False,
            transport=RetryTransport(complete, retry),
        )
        self._exchanges = Exchanges(self._http, model, self._size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._root!r}, model={self._model!r})"


class Client(BaseClient, Encoder):
    """A client of a Polyseme service. Threads may share it; a forked process needs its own.

    Batches that the service rejects as too large are split, and temporary failures are retried.
    `key` defaults to the environment variable POLYSEME_API_KEY. See docs/client.md.
    """

    _http: httpx.Client

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
        remaining = batches(map(json_text, texts, count()), self._size)
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
        """Send the requests of an exchange, and return its result."""
        steps = Steps(exchange)
        for request in steps:
            with _receiving(steps):
                steps.response = self._http.send(request)
        return steps.result


class AsyncClient(BaseClient, AsyncEncoder):
    """An asynchronous client of a Polyseme service, with the arguments of `Client`.

    Use each instance in one event loop only. At most `concurrency` batches are sent at a time over
    all calls, so that any number of calls may be gathered. See docs/client.md.
    """

    _http: httpx.AsyncClient
    _classes = httpx.AsyncClient, httpx.AsyncHTTPTransport

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
        """Send the requests of an exchange, and return its result."""
        steps = Steps(exchange)
        for request in steps:
            with _receiving(steps):
                async with self._turn:
                    steps.response = await self._http.send(request)
        return steps.result


@contextmanager
def _receiving(steps: Steps[Any]) -> Iterator[None]:
    """Give an exchange the error of a response that is too large.

    Raises UnreachableError if the service does not respond.
    """
    try:
        yield
    except TooLargeError as error:
        steps.response = error
    except httpx.TransportError as error:
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise UnreachableError(
            f"The service does not respond ({reason}): check its address, `timeout`, and that"
            " `polyseme serve` runs."
        ) from error


def _normal_url(url: str) -> str:
    """Return the URL without trailing slashes. Raises TypeError or ValueError if it is invalid."""
    if not isinstance(url, str):
        raise TypeError("The address must be a string.")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or set("?#") & set(url) or "@" in parts.netloc or not url.isprintable():
        raise ValueError(
            "The address must look like http://127.0.0.1:8000, without a user, a password or a"
            " query; pass the key as the argument `key`."
        )
    return url.rstrip("/")


def _headers(key: str | None) -> dict[str, str]:
    """Return the headers of all requests. Raises ValueError for an invalid key."""
    headers = {"User-Agent": f"polyseme-client/{__version__}", "Accept-Encoding": "identity"}
    if key:
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError("The key has an invalid character: a space, a line break, …")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _require_integer(name: str, value: object, lowest: int) -> None:
    if not isinstance(value, int) or value < lowest:
        raise ValueError(f"`{name}` must be an integer of {lowest} or more.")


class _Retry(Retry):
    """A `Retry` without retries after a TLS error, except if the server closes the connection."""

    def is_retryable_exception(self, exception: Exception) -> bool:
        cause: BaseException | None = exception
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        permanent = isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)
        return super().is_retryable_exception(exception) and not permanent


@dataclass
class _CompleteResponses(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Reads every response to its end, so that an incomplete response is retried."""

    inner: Any
    """an httpx.BaseTransport or an httpx.AsyncBaseTransport"""
    max_bytes: int
    longest_wait: float

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        content = bytearray()
        with closing(response):
            self._check_headers(response)
            for chunk in response.stream:
                content += chunk
                self._check_size(len(content))
        return self._complete(response, bytes(content))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        content = bytearray()
        async with aclosing(response):
            self._check_headers(response)
            async for chunk in response.stream:
                content += chunk
                self._check_size(len(content))
        return self._complete(response, bytes(content))

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _check_headers(self, response: httpx.Response) -> None:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            sentence = "The response is compressed, which the client does not accept."
            raise AnswerError(sentence, None if response.is_success else response.status_code)
        declared = response.headers.get("Content-Length", "")
        self._check_size(int(declared) if declared.isascii() and declared.isdecimal() else 0)

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            what = "The response has too many bytes for this client"
            raise TooLargeError(
                what, f"more than {self.max_bytes}", "max_answer_bytes", self.max_bytes
            )

    def _complete(self, response: httpx.Response, content: bytes) -> httpx.Response:
        """Return the complete response, or raise its error if a retry would wait too long.

        A date in Retry-After becomes seconds, and an invalid Retry-After is dropped.
        """
        headers = {"Content-Type": response.headers.get("Content-Type", "")}
        with suppress(KeyError, ValueError, OverflowError):
            seconds = Retry().parse_retry_after(response.headers["Retry-After"])
            headers["Retry-After"] = str(math.ceil(min(seconds, _FOREVER)))
        complete = httpx.Response(response.status_code, headers=headers, content=content)
        wait = int(headers.get("Retry-After", 0))
        if response.status_code in RETRY_STATUSES and wait > self.longest_wait:
            raise error_of_response(complete)
        return complete
