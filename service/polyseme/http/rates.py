"""How often a caller may ask: a caller is its key where it has a right one, else its address."""

import math
import time
from ipaddress import ip_address, ip_network
from typing import Any

from flask import Flask, Response, g, request
from flask_limiter import Limiter, RateLimitExceeded, RequestLimit

from polyseme.errors import RateLimitedError
from polyseme.http.problems import problem
from polyseme.settings import Settings


def init_app(app: Flask, settings: Settings) -> None:
    """Give each caller a rate."""
    limiter = Limiter(
        caller,
        app=app,
        application_limits=[settings.rate_limit],
        application_limits_exempt_when=lambda: not g.counted,
        key_prefix="polyseme",
        **_storage(settings.rate_limit_storage.get_secret_value()),
    )

    def problem_of(_: RateLimitExceeded) -> Response:
        """Wait until the window ends that the caller has used up."""
        used_up = limiter.current_limit
        return problem(RateLimitedError(retry_after=_rest(used_up) if used_up else None))

    app.register_error_handler(RateLimitExceeded, problem_of)


def caller() -> str:
    """Who asks."""
    return f"key:{g.caller}" if g.caller else f"address:{_network(request.remote_addr or '')}"


def _rest(used_up: RequestLimit) -> int:
    """Whole seconds to the end of a window, which is never longer than it is by its name."""
    seconds = math.ceil(used_up.window.reset_time - time.time())
    return min(max(seconds, 1), used_up.limit.get_expiry())


def _network(address: str) -> str:
    """An address, or the network of one of IPv6: whoever has one has 2**64 of them."""
    try:
        found = ip_address(address)
    except ValueError:
        return "local"
    wide = found.version == 6 and not found.ipv4_mapped  # noqa: PLR2004 - the version's name
    return str(ip_network((address, 64), strict=False).network_address) if wide else address


def _storage(address: str) -> dict[str, Any]:
    if address == "memory://":
        return {"storage_uri": address}
    from polyseme.http import counting  # noqa: F401, PLC0415 - registers itself; not without Redis

    return {"storage_uri": "polyseme://", "storage_options": {"shared": address}}
