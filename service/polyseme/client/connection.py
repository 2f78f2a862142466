"""Requests of a client over HTTP: kept connections, repeated tries, and answers of bounded size."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict
from urllib.parse import urlsplit

from polyseme import __version__
from polyseme.client.errors import AnswerError, UnreachableError
from polyseme.client.exchanges import Answer, Question
from polyseme.errors import TooLargeError

try:
    import httpx
    from httpx_retries import Retry, RetryTransport
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("The client needs httpx: pip install 'polyseme[client]'.") from error

TransportError = httpx.TransportError
RETRIED = (429, 502, 503, 504)
"""Statuses after which the same question may be answered."""
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
_FACTOR = 0.25
"""Seconds that are waited at most before the second try, doubled; more before each further one."""
_Inner: TypeAlias = httpx.HTTPTransport | httpx.AsyncHTTPTransport
_IDLE = 4
"""Seconds a connection is kept unused: less than the 5 after which the service closes it."""


class Terms(TypedDict, total=False):
    """How a service is asked, where not as `_USUAL` has it."""

    timeout: float
    """seconds without a byte; 10 of them for connecting"""
    retries: int
    """further tries of one request"""
    longest_wait: float
    """seconds between tries at most; a service that wants more is not asked again"""
    max_answer_bytes: int
    """of one answer"""
    proxy: str | None
    """the address of one; none is taken from the environment"""
    tls: ssl.SSLContext | None
    """whom to trust; those that certifi lists if nothing is said"""


_USUAL: Terms = {
    "timeout": 60,
    "retries": 4,
    "longest_wait": 60,
    "max_answer_bytes": 256 << 20,
    "proxy": None,
    "tls": None,
}


def root_of(url: str) -> str:
    """The address without a slash at its end; raise ValueError for what is none."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named or parts.query or parts.fragment or "@" in parts.netloc or not url.isprintable():
        raise ValueError(
            "The address has to be one such as http://127.0.0.1:8000, without a user, a password"
            " or a query; a key is given by itself."
        )
    return url.rstrip("/")


def headers_of(key: str | None) -> dict[str, str]:
    """What every request carries; raise ValueError for a key that no header can have."""
    headers = {"User-Agent": f"polyseme-client/{__version__}", "Accept-Encoding": "identity"}
    if key:
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError("The key has characters that no key has: a space, a new line, …")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def request_of(root: str, question: Question) -> dict[str, Any]:
    """A question as httpx takes it."""
    headers = {"Accept": question.accept}
    if question.body is not None:
        headers["Content-Type"] = "application/json"
    return {
        "method": question.method,
        "url": root + question.path,
        "headers": headers,
        "content": question.body,
    }


def answer_of(response: httpx.Response) -> Answer:
    """A response as exchanges take it."""
    media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    waits = response.headers.get("Retry-After", "")
    seconds = int(waits) if waits.isascii() and waits.isdecimal() and len(waits) < 10 else None  # noqa: PLR2004
    return Answer(response.status_code, media, response.content, seconds)


def unreachable(error: httpx.TransportError) -> UnreachableError:
    """What is said of a service that does not answer; httpx's own words may name the address."""
    if isinstance(error, httpx.TimeoutException):
        return UnreachableError(
            "The service takes too long to answer: ask for less at once, or give it more `timeout`."
        )
    if "CERTIFICATE" in str(error):
        return UnreachableError(
            "The certificate at this address is not from anybody who is trusted: name whom to trust"
            " by `tls`, an ssl.SSLContext."
        )
    if isinstance(error, httpx.ConnectError):
        return UnreachableError(
            "Nothing answers at this address: start the service with `polyseme serve`, or name"
            " another address."
        )
    return UnreachableError("The connection to the service breaks off, also when it is repeated.")


def _transport(root: str, terms: Terms, connections: int, inner: type[_Inner]) -> RetryTransport:
    """Build what a client sends through: whole answers, tried again."""
    limits = httpx.Limits(
        max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=_IDLE
    )
    how: Mapping[str, Any] = {
        # To load whom to trust takes long, and nothing but https asks for it.
        "verify": terms["tls"] or root.lower().startswith("https:"),
        "limits": limits,
        "proxy": terms["proxy"],
        "trust_env": False,
    }
    whole = _Whole(inner(**how), terms)
    retry = Retry(
        terms["retries"],
        ("GET", "POST"),
        RETRIED,
        _BROKEN,
        backoff_factor=_FACTOR,
        max_backoff_wait=terms["longest_wait"],
    )
    return RetryTransport(whole, retry)


def open_client(root: str, key: str | None, given: Terms, connections: int) -> httpx.Client:
    """Open a client of httpx. Raises TypeError or ValueError for what cannot be."""
    return httpx.Client(**_settings(root, key, given, connections, httpx.HTTPTransport))


def open_async_client(
    root: str, key: str | None, given: Terms, connections: int
) -> httpx.AsyncClient:
    """Open an asynchronous one."""
    return httpx.AsyncClient(**_settings(root, key, given, connections, httpx.AsyncHTTPTransport))


def _settings(
    root: str, key: str | None, given: Terms, connections: int, inner: type[_Inner]
) -> dict[str, Any]:
    for name in given.keys() - _USUAL.keys():
        raise TypeError(f"There is no argument `{name}`.")
    if connections < 1:
        raise ValueError("`concurrency` is 1 or more.")
    terms: Terms = {**_USUAL, **given}
    return {
        "headers": headers_of(key),
        # Who waits for a connection of this client waits for those before him, not for the service.
        "timeout": httpx.Timeout(terms["timeout"], connect=min(10, terms["timeout"]), pool=None),
        "follow_redirects": False,
        "trust_env": False,
        "transport": _transport(root, terms, connections, inner),
    }


@dataclass
class _Whole(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Reads an answer to its end before it counts as one, so that a broken one is tried again."""

    inner: Any
    """one of _Inner"""
    terms: Terms

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        content = bytearray()
        try:
            self._begin(response)
            for piece in response.iter_raw():
                content += piece
                self._bound(len(content))
        finally:
            response.close()
        return self._end(response, bytes(content))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        content = bytearray()
        try:
            self._begin(response)
            async for piece in response.aiter_raw():
                content += piece
                self._bound(len(content))
        finally:
            await response.aclose()
        return self._end(response, bytes(content))

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _begin(self, response: httpx.Response) -> None:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise AnswerError("The answer is compressed, which was not asked for.")
        declared = response.headers.get("Content-Length", "")
        self._bound(int(declared) if declared.isascii() and declared.isdecimal() else 0)

    def _bound(self, size: int) -> None:
        most = self.terms["max_answer_bytes"]
        if size > most:
            what = "The answer has too many bytes for this client"
            raise TooLargeError(what, f"more than {most}", "max_answer_bytes", most)

    def _end(self, response: httpx.Response, content: bytes) -> httpx.Response:
        """The answer; raise the error that it is where its time has not come soon."""
        headers = {
            name: response.headers[name]
            for name in ("Content-Type", "Retry-After")
            if name in response.headers
        }
        whole = httpx.Response(response.status_code, headers=headers, content=content)
        answer = answer_of(whole)
        if answer.status in RETRIED and (answer.retry_after or 0) > self.terms["longest_wait"]:
            answer.require("")
        return whole
