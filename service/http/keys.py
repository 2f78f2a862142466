"""Who may come in: keys for /v1, and a rate for each caller."""

import hashlib
import hmac
from collections.abc import Sequence

from flask import Flask, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from service.errors import UnauthorisedError
from service.settings import Settings


def init_app(app: Flask, settings: Settings) -> None:
    """Guard the routes under /v1 with the keys and the rate of the settings."""
    digests = [_digest(key.get_secret_value()) for key in settings.api_keys]

    def check_key() -> None:
        if not _open() and not _known(digests):
            raise UnauthorisedError

    def caller() -> str:
        """A caller is its key where it has a right one, else its address."""
        return _sent().hex() if _known(digests) else get_remote_address()

    if digests:
        app.before_request(check_key)
    Limiter(
        caller,
        app=app,
        application_limits=[settings.rate_limit] if settings.rate_limit else [],
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
