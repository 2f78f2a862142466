"""Who may come in: keys for /v1, and a rate for each caller."""

import hashlib
import hmac

from flask import Flask, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

from service.errors import UnauthorisedError
from service.settings import Settings


def init_app(app: Flask, settings: Settings) -> None:
    """Guard the routes under /v1 with the keys and the rate of the settings."""
    digests = [_digest(key.get_secret_value()) for key in settings.api_keys]

    def check_key() -> None:
        scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
        digest = _digest(sent.strip())
        # Every digest is compared, each in constant time: how long it takes tells nothing.
        right = [hmac.compare_digest(digest, known) for known in digests]
        if not _open() and (scheme.lower() != "bearer" or not any(right)):
            raise UnauthorisedError

    if digests:
        app.before_request(check_key)
    Limiter(
        _caller,
        app=app,
        application_limits=[settings.rate_limit] if settings.rate_limit else [],
        application_limits_exempt_when=_open,
        storage_uri="memory://",
    )


def _open() -> bool:
    """Whether a path needs no key and has no rate: health and documentation."""
    return not request.path.startswith("/v1/")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _caller() -> str:
    """A caller is its key, or its address where it has none."""
    key = request.headers.get("Authorization")
    return _digest(key).hex() if key else get_remote_address()
