"""Rate limits: requests and processor time of each caller, counted in memory or in Redis."""

import math
import time
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any

from flask import Flask, Response, request

from polyseme.errors import RateLimitedError
from polyseme.http.context import UNMATCHED, RequestContext, current_context
from polyseme.http.errors import problem
from polyseme.settings import Settings, request_rates, work_rates

_KEY_PREFIX = "polyseme"
"""The first part of the names under which requests are counted."""
_SCOPE, _WORK_SCOPE = "global", "work"
"""The scope of flask-limiter's application limits, and that of processor time."""
_MEMORY = "memory://"
_REDIS_SECONDS = 0.25
"""Maximum time that a request waits for each answer of Redis."""


class RateLimits:
    """The limits of the setting `rate_limit` on each key or, without a key, on each address."""

    def __init__(self, settings: Settings) -> None:
        self._storage = settings.rate_limit_storage.get_secret_value()
        self.enabled = bool(settings.rate_limit)
        self._request_rates = request_rates(settings.rate_limit) if self.enabled else []
        self._work_rates = work_rates(settings.rate_limit) if self.enabled else []
        self.counts_work = bool(self._work_rates)

    def init_app(self, app: Flask) -> None:
        """Limit the requests of each caller; while Redis is unreachable, each worker counts."""
        if not self.enabled:
            return
        import limits
        from flask_limiter import Limiter, RateLimitExceeded, RequestLimit

        redis: dict[str, Any] = {}
        if self._storage != _MEMORY:
            redis = {
                "storage_options": _redis_options(),
                "in_memory_fallback_enabled": True,
                "swallow_errors": True,
            }
        self._work_fallback = limits.strategies.FixedWindowRateLimiter(
            limits.storage.MemoryStorage()
        )
        self._limiter = limiter = Limiter(
            _caller,
            app=app,
            application_limits=[str(rate) for rate in self._request_rates],
            application_limits_exempt_when=lambda: not current_context().rate_limited,
            # By default, requests without an endpoint are not limited.
            request_identifier=lambda: request.endpoint or UNMATCHED,
            key_prefix=_KEY_PREFIX,
            # The name of this scheme differs from that of redis-py.
            storage_uri=self._storage.replace("unix://", "redis+unix://", 1),
            **redis,
        )
        # Redis reports whole seconds, rounded.
        rounding = 1 if redis else 0

        def seconds(limit: RequestLimit) -> int:
            """Return the seconds until the window of a limit ends; fails with Redis."""
            rest = math.ceil(limit.window.reset_time - time.time()) + rounding
            return min(max(rest, 1), limit.limit.get_expiry())

        @app.errorhandler(RateLimitExceeded)
        def exceeded(_: RateLimitExceeded) -> Response:
            """Return 429 with the seconds until the window of the exceeded limit ends."""
            wait = None
            with suppress(Exception):  # Redis has failed since the request was counted
                wait = seconds(limiter.current_limit) if limiter.current_limit else None
            return problem(RateLimitedError(retry_after=wait))

        @app.after_request
        def report(response: Response) -> Response:
            """Add the limits, and what is left of them: draft-ietf-httpapi-ratelimit-headers-10.

            flask-limiter's own headers have names of their own, and a Retry-After on each response.
            """
            with suppress(Exception):
                for counted in limiter.current_limits:
                    name, rate = f'"{counted.limit}"', counted.limit
                    left = f"{name};r={counted.remaining};t={seconds(counted)}"
                    policy = f"{name};q={rate.amount};w={rate.get_expiry()}"
                    response.headers.add("RateLimit", left)
                    response.headers.add("RateLimit-Policy", policy)
            return response

    def limit_malformed(self, address: str) -> RateLimitedError | None:
        """Count a malformed request of an address; return an error if it exceeds the rate limit.

        Such a request does not reach the application.
        """
        names = (_KEY_PREFIX, _name_of(address), _SCOPE)
        try:
            hits = [self._limiter.limiter.hit(rate, *names) for rate in self._request_rates]
        except Exception:  # noqa: BLE001 - without Redis, which the next other request notices
            return None
        return None if all(hits) else RateLimitedError()

    def charge(self, context: RequestContext, seconds: float) -> RateLimitedError | None:
        """Count processor time of a caller; return an error if it exceeds a rate."""
        for rate in self._work_rates:
            names = (_KEY_PREFIX, _name_of_caller(context), _WORK_SCOPE)
            counter = self._limiter.limiter
            try:
                is_within = counter.hit(rate, *names, cost=math.ceil(seconds * 1000))
            except Exception:  # noqa: BLE001 - without Redis, each worker counts in memory
                counter = self._work_fallback
                is_within = counter.hit(rate, *names, cost=math.ceil(seconds * 1000))
            if not is_within:
                wait = None
                with suppress(Exception):  # Redis has failed since
                    reset = counter.get_window_stats(rate, *names).reset_time
                    wait = min(max(math.ceil(reset - time.time()), 1), rate.get_expiry())
                return RateLimitedError("The caller exceeds its rate of processor time.", wait)
        return None


def _caller() -> str:
    return _name_of_caller(current_context())


def _name_of_caller(context: RequestContext) -> str:
    """Return the name under which requests are counted: that of the key, else the address."""
    return f"key:{context.caller}" if context.caller else _name_of(context.address)


def _name_of(address: str) -> str:
    """Return the name under which requests of an address are counted.

    An IPv6 address is replaced by its /64 network, because one client has 2**64 addresses.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "address:local"
    if parsed.version == 6 and not parsed.ipv4_mapped:
        return f"address:{ip_network((address, 64), strict=False).network_address}"
    return f"address:{address}"


def _redis_options() -> dict[str, Any]:
    """Return the options of connections to Redis: a silent one is not waited for twice."""
    import redis

    closed = (redis.exceptions.ConnectionError,)  # such as a connection that was idle for long
    return {
        "socket_timeout": _REDIS_SECONDS,
        "socket_connect_timeout": _REDIS_SECONDS,
        "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 1, closed),
    }
