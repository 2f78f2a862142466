"""How often each caller has asked: counted in Redis, and in memory while Redis does not answer.

Flask-Limiter has a fallback of its own. Of several threads that find Redis gone at the same time
it lets one through and fails the others, and it looks after Redis within requests, which wait.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from limits.storage import MemoryStorage, RedisStorage, Storage
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnectionError
from redis.retry import Retry

_log = logging.getLogger("polyseme")
_Answer = TypeVar("_Answer")

PATIENCE = 0.25
"""Seconds that a request waits for Redis, at most, to connect and again to answer."""
PAUSE = 0.5
"""Seconds between two looks whether Redis is back."""
_PROBE = "polyseme/probe"


class Counts(Storage):
    """A storage for `limits`, which finds it by its scheme."""

    STORAGE_SCHEME = ["polyseme"]  # noqa: RUF012 - as the library has it

    def __init__(self, uri: str | None = None, *, shared: str, **_: str) -> None:
        super().__init__(uri)
        self._own = MemoryStorage()
        self._shared = RedisStorage(
            shared,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            # A connection that Redis has closed meanwhile is made anew, once and at once.
            retry=Retry(NoBackoff(), 1, supported_errors=(NoConnectionError,)),  # type: ignore[arg-type]
        )
        self._away = False
        self._changing = threading.Lock()

    @property
    def base_exceptions(self) -> type[Exception] | tuple[type[Exception], ...]:
        """None comes out of it."""
        return ()

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count."""
        return self._ask(lambda storage: storage.incr(key, expiry, amount))

    def get(self, key: str) -> int:
        """How much was counted."""
        return self._ask(lambda storage: storage.get(key))

    def get_expiry(self, key: str) -> float:
        """When counting starts anew, in seconds of the clock, and not before."""
        # Redis says it in whole seconds, to the nearest.
        return self._ask(lambda storage: storage.get_expiry(key)) + 0.5

    def check(self) -> bool:
        """It always counts."""
        return True

    def reset(self) -> int | None:
        """Forget everything."""
        return self._ask(lambda storage: storage.reset())

    def clear(self, key: str) -> None:
        """Forget one caller."""
        self._ask(lambda storage: storage.clear(key))

    def _ask(self, question: Callable[[Storage], _Answer]) -> _Answer:
        if not self._away:
            try:
                return question(self._shared)
            except Exception as error:  # noqa: BLE001 - whatever it is, requests are answered
                self._lose(error)
        return question(self._own)

    def _lose(self, error: Exception) -> None:
        """Count in memory from now on, and look after Redis beside the requests."""
        with self._changing:
            if self._away:
                return
            self._away = True
        # What the error says may quote the address, and with it a password.
        _log.warning(
            "polyseme: the storage of the rate limit does not answer (%s);"
            " each worker counts by itself until it does.",
            type(error).__name__,
        )
        threading.Thread(target=self._await, name="counts", daemon=True).start()

    def _await(self) -> None:
        """Wait until Redis counts: one that is full, or reads its file, answers and does not."""
        while True:
            time.sleep(PAUSE)
            try:
                self._shared.incr(_PROBE, 1)
            except Exception:  # noqa: BLE001, S112 - it is not back
                continue
            self._away = False
            _log.warning("polyseme: the storage of the rate limit answers again.")
            return
