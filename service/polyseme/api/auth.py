"""Access to the routes: API keys and rate limits."""

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, request

from polyseme.api.errors import problem
from polyseme.api_keys import (
    KeyFileError,
    digests_of_keys,
    find_key,
    permission_problem,
    read_key_file,
)
from polyseme.errors import RateLimitedError, UnauthorisedError
from polyseme.observability.request_context import UNMATCHED, current_context
from polyseme.settings import Settings, request_rates, work_rates

if TYPE_CHECKING:
    from flask_limiter import Limiter
    from limits import RateLimitItem
    from limits.strategies import RateLimiter

_log = logging.getLogger("polyseme")
_KEY_PREFIX = "polyseme"
"""The first part of the names under which requests are counted."""
_SCOPE = "global"
"""The scope of flask-limiter's application limits."""
_WORK_SCOPE = "work"
_MEMORY = "memory://"


class ApiKeyAuth:
    """Authentication by API keys from the settings and the key file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._configured = digests_of_keys(key.get_secret_value() for key in settings.api_keys)
        self._keys = self._read()
        self._limiter: Limiter | None = None
        self._work_rates: list[RateLimitItem] = []
        self._start_deadline: Callable[[], None] = lambda: None
        # An empty key file does not disable authentication.
        self.required = bool(self._configured) or settings.api_keys_file is not None

    def refresh(self) -> None:
        """Read the key file again; keep the previous keys if it cannot be used."""
        try:
            self._keys = self._read()
        except KeyFileError as error:
            # `str`, because the log shows only the type of an exception.
            _log.warning("polyseme: %s; the previous keys stay valid.", str(error))

    def _read(self) -> dict[str, bytes]:
        file = self._settings.api_keys_file
        if file and (problem := permission_problem(file)):
            _log.warning("polyseme: %s.", problem)
        return {**self._configured, **(read_key_file(file) if file else {})}

    def init_app(self, app: Flask) -> None:
        """Protect /v1/… and /v2/… except /v2/health/…, and /metrics according to the settings.

        The rate limit applies before the key is checked, so that it also limits guessing keys, and
        to unknown routes and methods.
        """
        if not self.required and not self._settings.rate_limit:
            return
        app.before_request(self._identify)
        if self._settings.rate_limit:
            if self._settings.rate_limit_storage.get_secret_value() != _MEMORY:
                from polyseme.api.redis_connections import start_deadline  # noqa: PLC0415 - an extra

                self._start_deadline = start_deadline
                app.before_request(start_deadline)
            from limits.storage import MemoryStorage  # noqa: PLC0415 - only with a rate limit
            from limits.strategies import FixedWindowRateLimiter  # noqa: PLC0415 - as above

            self._limiter = _init_rate_limit(app, self._settings)
            self._work_rates = work_rates(self._settings.rate_limit)
            self._work_fallback = FixedWindowRateLimiter(MemoryStorage())
        if self.required:
            app.before_request(self._check)

    def _identify(self) -> None:
        """Set the name of the caller's key, and whether a required key is missing or wrong."""
        context = current_context()
        if self.required:
            scheme, _, key = request.environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            context.caller = (
                find_key(self._keys, key.strip()) if scheme.lower() == "bearer" else None
            )
        path = request.path
        protected = path.startswith(("/v1/", "/v2/")) and not path.startswith("/v2/health/")
        metrics = self._settings.metrics == "key" and path == "/metrics"
        if self._settings.cors_origins and _is_preflight():  # browsers send it without a key
            protected = metrics = False
        context.unauthorized = self.required and context.caller is None and (protected or metrics)
        # Requests without a valid key are limited at /metrics too.
        unknown = request.routing_exception is not None
        context.rate_limited = protected or unknown or context.unauthorized

    def _check(self) -> None:
        if current_context().unauthorized:
            raise UnauthorisedError

    def limit_malformed(self, address: str) -> RateLimitedError | None:
        """Count a malformed request of an address; return an error if it exceeds the rate limit.

        Such a request does not reach the application.
        """
        if self._limiter is None:
            return None
        names = (_KEY_PREFIX, _name_of(address), _SCOPE)
        self._start_deadline()
        try:
            rates = request_rates(self._settings.rate_limit)
            hits = [self._limiter.limiter.hit(rate, *names) for rate in rates]
        except Exception:  # noqa: BLE001 - without Redis, which the next other request notices
            return None
        return None if all(hits) else RateLimitedError()

    def charge(self, work: float) -> None:
        """Count the work of the current request; raise RateLimitedError if it exceeds a rate.

        A request with more work than a whole window allows needs a window of its own.
        """
        if self._limiter is None:
            return
        for rate in self._work_rates:
            cost = min(math.ceil(work), rate.amount)
            names = (_KEY_PREFIX, _caller(), _WORK_SCOPE)
            self._start_deadline()
            try:
                exceeded = _exceeded(self._limiter.limiter, rate, names, cost)
            except Exception:  # noqa: BLE001 - without Redis, each worker counts in memory
                exceeded = _exceeded(self._work_fallback, rate, names, cost)
            if exceeded is not None:
                raise RateLimitedError("The caller exceeds its rate of work.", exceeded)


def _exceeded(
    counter: "RateLimiter", rate: "RateLimitItem", names: tuple[str, ...], cost: int
) -> int | None:
    """Count work and return None, or return the seconds until the window of the rate ends."""
    if counter.test(rate, *names, cost=cost):
        counter.hit(rate, *names, cost=cost)
        return None
    rest = math.ceil(counter.get_window_stats(rate, *names).reset_time - time.time())
    return min(max(rest, 1), rate.get_expiry())


def _is_preflight() -> bool:
    """Return whether the request is a CORS preflight request."""
    headers = ("HTTP_ORIGIN", "HTTP_ACCESS_CONTROL_REQUEST_METHOD")
    return request.method == "OPTIONS" and all(name in request.environ for name in headers)


def _init_rate_limit(app: Flask, settings: Settings) -> "Limiter":
    """Limit the requests of each caller, in memory or in Redis.

    While Redis is unreachable, each worker counts in memory.
    """
    from flask_limiter import Limiter, RateLimitExceeded  # noqa: PLC0415 - only with a rate limit

    uri = settings.rate_limit_storage.get_secret_value()
    rates = request_rates(settings.rate_limit)
    # Redis reports whole seconds, rounded.
    rounding = 0 if uri == _MEMORY else 1
    redis: dict[str, Any] = {}
    if uri != _MEMORY:
        from polyseme.api.redis_connections import connection_pool  # noqa: PLC0415 - an extra

        redis = {
            "storage_options": {"connection_pool": connection_pool(uri)},
            "in_memory_fallback_enabled": True,
            "swallow_errors": True,
        }
    limiter = Limiter(
        _caller,
        app=app,
        application_limits=[str(rate) for rate in rates],
        application_limits_exempt_when=lambda: not current_context().rate_limited,
        # By default, requests without an endpoint are not limited.
        request_identifier=lambda: request.endpoint or UNMATCHED,
        key_prefix=_KEY_PREFIX,
        # The name of this scheme differs from that of redis-py.
        storage_uri=uri.replace("unix://", "redis+unix://", 1),
        **redis,
    )

    @app.errorhandler(RateLimitExceeded)
    def exceeded(_: RateLimitExceeded) -> Response:
        """Return 429 with the seconds until the window of the exceeded limit ends."""
        limit, seconds = limiter.current_limit, None
        with suppress(Exception):  # Redis has failed since the request was counted
            if limit:
                rest = math.ceil(limit.window.reset_time - time.time()) + rounding
                seconds = min(max(rest, 1), limit.limit.get_expiry())
        return problem(RateLimitedError(retry_after=seconds))

    return limiter


def _caller() -> str:
    """Return the name under which requests are counted: that of the key, else the address."""
    context = current_context()
    return f"key:{context.caller}" if context.caller else _name_of(context.address)


def _name_of(address: str) -> str:
    """Return the name under which requests of an address are counted.

    An IPv6 address is replaced by its /64 network, because one client has 2**64 addresses.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return "address:local"
    if found.version == 6 and not found.ipv4_mapped:  # noqa: PLR2004 - the version's name
        return f"address:{ip_network((address, 64), strict=False).network_address}"
    return f"address:{address}"
