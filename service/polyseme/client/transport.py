"""Send requests with httpx: connection pools, retries, and a limit on the size of a response."""

import math
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from polyseme import __version__
from polyseme.client.errors import AnswerError, UnreachableError, error_of_response
from polyseme.client.requests import BatchSize, Exchanges
from polyseme.errors import TooLargeError, install_command

try:
    import httpx
    from httpx_retries import Retry, RetryTransport
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"The client needs httpx: {install_command('client')}.") from error

KEY_VARIABLE = "POLYSEME_API_KEY"
"""The environment variable of the default key."""
TransportError = httpx.TransportError
RETRY_STATUSES = (429, 502, 503, 504)
_RETRY_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
_BACKOFF = 0.25
"""Seconds. The first retry waits up to 0.5 s, each further retry up to twice as long."""
_FOREVER = 1e9
"""Seconds. A longer Retry-After counts as this long."""
_KEEPALIVE = 4
"""Seconds that an idle connection is kept open. The service closes it after 5 by default."""


def normalize_url(url: str) -> str:
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


class BaseClient:
    """What both clients have in common."""

    _is_async: ClassVar = False

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
        self._root, self._model = normalize_url(url), model
        self._size = BatchSize(batch_sentences, batch_bytes)
        self._concurrency = concurrency
        connections = httpx.AsyncHTTPTransport if self._is_async else httpx.HTTPTransport
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
        self._http: Any = (httpx.AsyncClient if self._is_async else httpx.Client)(
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


def unreachable(cause: httpx.TransportError) -> UnreachableError:
    """Return the error for a service that does not respond."""
    reason = f"{type(cause).__name__}: {cause}".removesuffix(": ")
    return UnreachableError(
        f"The service does not respond ({reason}): check its address, `timeout`, and that"
        " `polyseme serve` runs."
    )


def _os_error(error: BaseException) -> OSError | None:
    """Return the OSError, such as an SSLError, that caused an error of httpx, or None."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause


class _Retry(Retry):
    """A `Retry` without retries after a TLS error, except if the server closes the connection."""

    def is_retryable_exception(self, exception: Exception) -> bool:
        cause = _os_error(exception)
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
        try:
            self._check_headers(response)
            for chunk in response.stream:
                content += chunk
                self._check_size(len(content))
        finally:
            response.close()
        return self._complete(response, bytes(content))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        content = bytearray()
        try:
            self._check_headers(response)
            async for chunk in response.stream:
                content += chunk
                self._check_size(len(content))
        finally:
            await response.aclose()
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
