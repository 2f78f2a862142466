"""Admission of requests: API keys, rate limits, measured budgets, and what long requests share.

Rate limits count the requests and the processor time of each caller, in memory or in Redis. They
apply before a key is checked, so that they also limit guessing keys.

A request has a deadline from its arrival and a limit on the processor time of its thread. Both are
checked wherever work is repeated (`operations.limits.Budget`). Parsing and tokenizing may use
`_READING` of the processor time, so that a request that is rejected for its content or its size
costs less than one that is computed.
"""

import ctypes
import logging
import math
import select
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from threading import Condition
from typing import Any

from flask import Flask, Response, after_this_request, request

from polyseme.api_keys import (
    KeyFileError,
    digests_of_keys,
    find_key,
    permission_problem,
    read_key_file,
)
from polyseme.errors import (
    AbortedError,
    DeadlineError,
    OverloadedError,
    RateLimitedError,
    TooLargeError,
    UnauthorisedError,
)
from polyseme.http.middleware import CONTEXT, RequestContext
from polyseme.operations.limits import UNLIMITED, Budget, set_budget
from polyseme.settings import Settings, request_rates, work_rates

_READING, _LONG = 0.16, 0.02
"""The shares of `max_work` that parsing and tokenizing may use, and that make a request long."""
_INTERVAL, _DISCONNECT_AFTER = 0.01, 1.0
"""Minimum seconds between two checks, and seconds until the connection is checked. A client that
has only ended its sending side looks like one that left; it gets responses that take less."""
_SMALL = 1 << 20
"""Responses of at most so many bytes need no room."""
_GONE = select.POLLERR | select.POLLHUP | getattr(select, "POLLRDHUP", 0)
_HINT = (
    "Send less in one request: fewer or shorter texts, fewer arrays, occurrences or neighbors."
    " `polyseme bulk` and `polyseme senses` read files of any size."
)
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Returns freed memory to the system (glibc). Small objects that stay, such as entries of caches,
would keep what a long request used: up to 50 MB for each thread."""
_KEY_PREFIX = "polyseme"
"""The first part of the names under which requests are counted."""
_REQUEST_SCOPE, _WORK_SCOPE = "global", "work"
"""The scopes of rates of requests and of processor time."""
_EXCEEDED = {
    _REQUEST_SCOPE: RateLimitedError.detail,
    _WORK_SCOPE: "The caller exceeds its rate of processor time.",
}
_REDIS_SECONDS = 0.25
"""Maximum time that a request waits for each answer of Redis."""
_RETRY_SECONDS = 2.0
"""Time until Redis is tried again after a failure."""
_log = logging.getLogger("polyseme")


class ApiKeyAuth:
    """Authentication by API keys from the settings and the key file."""

    def __init__(self, settings: Settings) -> None:
        self._file = settings.api_keys_file
        self._configured = digests_of_keys(key.get_secret_value() for key in settings.api_keys)
        self._keys = self._read()
        # An empty key file does not disable authentication.
        self.required = bool(self._configured) or self._file is not None

    def refresh(self) -> None:
        """Read the key file again; keep the previous keys if it cannot be used."""
        try:
            self._keys = self._read()
        except KeyFileError as error:
            # `str`, because the log shows only the type of an exception.
            _log.warning("polyseme: %s; the previous keys stay valid.", str(error))

    def find_caller(self, authorization: str) -> str | None:
        """Return the name of the key in an Authorization header, or None if it has no valid one."""
        scheme, _, key = authorization.partition(" ")
        return find_key(self._keys, key.strip()) if scheme.lower() == "bearer" else None

    def _read(self) -> dict[str, bytes]:
        file = self._file
        if file and (problem := permission_problem(file)):
            _log.warning("polyseme: %s.", problem)
        return {**self._configured, **(read_key_file(file) if file else {})}


class RateLimits:
    """The limits of the setting `rate_limit` on each key or, without a key, on each address.

    They count in memory or in Redis. While Redis fails, each worker counts in memory.
    """

    def __init__(self, settings: Settings) -> None:
        self._rates: dict[str, list[Any]] = {_REQUEST_SCOPE: [], _WORK_SCOPE: []}
        self.enabled, self.counts_work = bool(settings.rate_limit), False
        if not self.enabled:
            return
        from limits.storage import MemoryStorage, storage_from_string
        from limits.strategies import FixedWindowRateLimiter

        self._rates[_REQUEST_SCOPE] = sorted(request_rates(settings.rate_limit))
        self._rates[_WORK_SCOPE] = sorted(work_rates(settings.rate_limit))
        self.counts_work = bool(self._rates[_WORK_SCOPE])
        self._shared = self._local = FixedWindowRateLimiter(MemoryStorage())
        self._next_try = 0.0
        self._rounding = 0
        address = settings.rate_limit_storage.get_secret_value()
        if address != "memory://":
            # The name of this scheme differs from that of redis-py.
            address = address.replace("unix://", "redis+unix://", 1)
            self._shared = FixedWindowRateLimiter(storage_from_string(address, **_redis_options()))
            self._rounding = 1  # Redis reports whole seconds, rounded.

    def hit(
        self,
        caller: str,
        scope: str = _REQUEST_SCOPE,
        cost: int = 1,
        headers: list[tuple[str, str]] | None = None,
    ) -> RateLimitedError | None:
        """Count a request of a caller, or a cost in milliseconds of processor time.

        Return an error if a rate is exceeded, else None. Append the headers of
        draft-ietf-httpapi-ratelimit-headers-10 to `headers`, if given: the rates that were counted,
        and what is left of them.
        """
        for rate in self._rates[scope]:
            is_within = self._call("hit", rate, caller, scope, cost=cost)
            if is_within and headers is None:
                continue
            window = self._call("get_window_stats", rate, caller, scope)
            rest = math.ceil(window.reset_time - time.time()) + self._rounding
            seconds = int(min(max(rest, 1), rate.get_expiry()))
            if headers is not None:
                headers.append(("RateLimit", f'"{rate}";r={window.remaining};t={seconds}'))
                policy = f'"{rate}";q={rate.amount};w={rate.get_expiry()}'
                headers.append(("RateLimit-Policy", policy))
            if not is_within:
                return RateLimitedError(_EXCEEDED[scope], seconds)
        return None

    def _call(self, method: str, rate: Any, caller: str, scope: str, **cost: int) -> Any:
        """Call a method of the shared counter, or of this worker's while Redis fails.

        After a failure, one thread at a time tries Redis again.
        """
        names, now = (_KEY_PREFIX, caller, scope), time.monotonic()
        if now >= self._next_try:
            if self._next_try:  # other threads do not wait for a Redis that hangs
                self._next_try = now + _RETRY_SECONDS
            try:
                answer = getattr(self._shared, method)(rate, *names, **cost)
            except Exception:  # noqa: BLE001 - of Redis, its client or the network
                if not self._next_try:
                    _log.warning("polyseme: Redis fails; each worker counts rates in memory.")
                self._next_try = time.monotonic() + _RETRY_SECONDS
            else:
                self._next_try = 0.0
                return answer
        return getattr(self._local, method)(rate, *names, **cost)


def caller_name(context: RequestContext) -> str:
    """Return the name under which requests are counted: that of the key, else the address."""
    return f"key:{context.caller}" if context.caller else address_name(context.address)


def address_name(address: str) -> str:
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


class Capacity:
    """The permits for long requests and the room for large responses of one process.

    A quarter of the threads compute long requests. As many more may wait for a permit or for room;
    the other half of the threads is left for short requests.
    """

    def __init__(self, threads: int, room: int) -> None:
        self.permits, self.room = max(threads // 4, 1), room
        self._size, self._waiting = room, 0
        self._max_waiting = max(threads // 2 - self.permits, 0)
        self._changed = Condition()

    def take_permit(self, deadline: float, *, is_admitted: bool = False) -> None:
        """Take a permit for a long request; an admitted one always waits."""
        with self._changed:
            self._wait(lambda: self.permits > 0, deadline, is_admitted)
            self.permits -= 1

    def take_room(self, size: int, deadline: float) -> int:
        """Take room for a response, all of it for a larger one; return the size."""
        size = min(size, self._size)
        with self._changed:
            self._wait(lambda: self.room >= size, deadline)
            self.room -= size
        return size

    def give_back(self, *, permits: int = 0, room: int = 0) -> None:
        """Give back a permit or room."""
        with self._changed:
            self.permits += permits
            self.room += room
            self._changed.notify_all()

    def _wait(
        self, is_ready: Callable[[], bool], deadline: float, is_admitted: bool = False
    ) -> None:
        """Wait for a condition. Raises DeadlineError, or OverloadedError if too many wait."""
        if is_ready():
            return
        if self._waiting >= self._max_waiting and not is_admitted:
            raise OverloadedError("The process is busy with long requests.")
        self._waiting += 1
        try:
            if not self._changed.wait_for(is_ready, max(deadline - time.perf_counter(), 0)):
                raise DeadlineError
        finally:
            self._waiting -= 1


class RequestBudget(Budget):
    """The budget of one request, in its thread."""

    def __init__(
        self,
        context: RequestContext,
        settings: Settings,
        capacity: Capacity,
        rates: RateLimits,
        socket: Any,
    ) -> None:
        self._context, self._capacity, self._rates = context, capacity, rates
        self._max_work, self._socket = settings.max_work, socket
        self._deadline = context.arrived + settings.request_seconds
        self._next_check = 0.0
        self._started = time.thread_time()
        self._charged = 0.0
        self._room = 0
        self.has_permit = False
        """whether it has a permit for long requests"""
        self.is_received = False
        """whether the whole body is received; a client that sends it slowly holds no permit"""

    def check(self) -> None:
        """Raise an error if the request must end; wait for a permit once it is long."""
        now = time.perf_counter()
        if now < self._next_check:
            return
        self._next_check = now + _INTERVAL
        used = time.thread_time() - self._started
        reading = "tokens" not in self._context.stages
        limit = self._max_work * _READING if reading else self._max_work
        if used > limit:
            what = "Reading and tokenizing the request" if reading else "Computing the request"
            detail = f"{what} takes too many seconds of a processor"
            raise TooLargeError(detail, round(used, 3), "max_work", limit, _HINT)
        if now > self._deadline:
            raise DeadlineError
        if self._socket is not None and now - self._context.started > _DISCONNECT_AFTER:
            poll = select.poll()
            poll.register(self._socket, _GONE)
            if poll.poll(0):
                self._context.aborted = True
                raise AbortedError
        if self.is_received and used > self._max_work * _LONG:
            if self._rates.counts_work and (error := self.charge(used)):
                raise error
            self.take_permit()

    def reserve(self, size: int) -> None:
        """Take room for a large response; raise DeadlineError or OverloadedError."""
        if size > _SMALL:
            self._room += self._capacity.take_room(size, self._deadline)

    def pause(self) -> float:
        """Give back the permit while the client receives a part; return the time."""
        self.give_back_permit()
        return time.perf_counter()

    def resume(self, paused: float) -> None:
        """Move the deadline by the time of the client, and take a permit again."""
        self._deadline += time.perf_counter() - paused
        if time.thread_time() - self._started > self._max_work * _LONG:
            self.take_permit(is_admitted=True)

    def give_back_permit(self) -> None:
        """Give back the permit of a request whose result is computed."""
        if self.has_permit:
            self.has_permit = False
            self._capacity.give_back(permits=1)

    def close(self) -> None:
        """End the budget; record the processor time, and give back the room of the response."""
        set_budget(UNLIMITED)
        if self.has_permit:
            self.give_back_permit()
        used = time.thread_time() - self._started
        self._context.work = used * 1000
        if self._room:
            self._capacity.give_back(room=self._room)
            self._room = 0
        if self._rates.counts_work:
            self.charge(used)
        if used > self._max_work * _LONG and _malloc_trim:
            _malloc_trim(0)

    def take_permit(self, *, is_admitted: bool = False) -> None:
        """Take a permit for a long request; raise DeadlineError or OverloadedError."""
        if not self.has_permit:
            self._capacity.take_permit(self._deadline, is_admitted=is_admitted)
            self.has_permit = True

    def charge(self, used: float) -> RateLimitedError | None:
        """Charge processor time to the caller; return an error if it exceeds a rate.

        `used` is the time of the request until now, in seconds.
        """
        new, self._charged = used - self._charged, used
        milliseconds = math.ceil(new * 1000)
        return self._rates.hit(caller_name(self._context), _WORK_SCOPE, milliseconds)


def init_app(app: Flask, settings: Settings, auth: ApiKeyAuth, rates: RateLimits) -> None:
    """Check the key and the rates of every request, and give each POST request a budget."""
    capacity = Capacity(settings.threads, settings.max_concurrent_answer_bytes)
    is_limited = auth.required or rates.enabled

    @app.before_request
    def admit() -> None:
        environ = request.environ
        context: RequestContext = environ[CONTEXT]
        if is_limited:
            _check_access(context, settings, auth, rates)
        if environ["REQUEST_METHOD"] == "POST":
            socket = environ.get("gunicorn.socket")
            budget = context.budget = RequestBudget(context, settings, capacity, rates, socket)
            set_budget(budget)
            if rates.counts_work and (error := budget.charge(0.0)):
                raise error
            budget.check()


def _check_access(
    context: RequestContext, settings: Settings, auth: ApiKeyAuth, rates: RateLimits
) -> None:
    """Count a request, and require a key for it.

    /v1/… and /v2/… except /v2/health/… are protected, and /metrics according to the settings.
    Unknown routes and methods are counted too. Raises RateLimitedError or UnauthorisedError.
    """
    path = request.path
    if auth.required:
        context.caller = auth.find_caller(request.environ.get("HTTP_AUTHORIZATION", ""))
    protected = path.startswith(("/v1/", "/v2/")) and not path.startswith("/v2/health/")
    metrics = settings.metrics == "key" and path == "/metrics"
    if settings.cors_origins and request.method == "OPTIONS":
        # Browsers send a preflight request without a key.
        preflight = {"HTTP_ORIGIN", "HTTP_ACCESS_CONTROL_REQUEST_METHOD"}
        if preflight <= request.environ.keys():
            protected = metrics = False
    unauthorized = auth.required and context.caller is None and (protected or metrics)
    # Requests without a valid key are limited at /metrics too.
    if protected or unauthorized or request.routing_exception is not None:
        headers: list[tuple[str, str]] = []
        error = rates.hit(caller_name(context), headers=headers)

        @after_this_request
        def report(response: Response) -> Response:
            response.headers.extend(headers)
            return response

        if error:
            raise error
    if unauthorized:
        raise UnauthorisedError
