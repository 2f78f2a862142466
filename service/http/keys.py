"""Who may come in: keys for /v1, and a rate for each caller."""

import hashlib
import hmac
from collections.abc import Sequence

from flask import Flask, Response, request

from service.errors import RateLimitedError, UnauthorisedError
from service.http.problems import problem
from service.settings import Settings


def init_app(app: Flask, settings: Settings) -> None:
    """Guard the routes under /v1 with the keys and the rate of the settings."""
    digests = [_digest(key.get_secret_value()) for key in settings.api_keys]

    def check_key() -> None:
        if not _open() and not _known(digests):
            raise UnauthorisedError

    if digests:
        app.before_request(check_key)
    if settings.rate_limit:
        _limit(app, settings.rate_limit, digests)


def _limit(app: Flask, rate: str, digests: Sequence[bytes]) -> None:
    """Give each caller a rate."""
    from flask_limiter import Limiter, RateLimitExceeded  # noqa: PLC0415 - not without a rate
    from flask_limiter.util import get_remote_address  # noqa: PLC0415 - likewise

    def caller() -> str:
        """A caller is its key where it has a right one, else its address."""
        return _sent().hex() if _known(digests) else get_remote_address()

    def problem_of(error: RateLimitExceeded) -> Response:
        """Wait as long as the window of a rate is, which is the longest one has to wait."""
        seconds = error.limit.limit.get_expiry() if error.limit else RateLimitedError.retry_after
        return problem(RateLimitedError(retry_after=seconds))

    app.register_error_handler(RateLimitExceeded, problem_of)
    Limiter(
        caller,
        app=app,
        application_limits=[rate],
        application_limits_exempt_when=_open,
        storage_uri="memory://",
    )


def _known(digests: Sequence[bytes]) -> bool:
    """Whether a right key was sent. All are compared, each in constant time: time tells nothing."""
    scheme = request.headers.get("Authorization", "").partition(" ")[0]
    right = [hmac.compare_digest(_sent(), digest) for digest in digests]
    return scheme.lower() == "bearer" and any(right)


def _sent() -> bytes:
    return _digest(request.headers.get("Authorization", "").partition(" ")[2].strip())


def _open() -> bool:
    """Whether a path needs no key and has no rate: health and documentation."""
    return not request.path.startswith("/v1/")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
