"""One thread of BLAS while a model of this process computes, as every worker of the service has it.

BLAS cuts large products among its threads, and where it cuts, sums are taken in another order: a
sentence of some hundred words would get other bits with two threads than with one.
"""

import threading
from functools import cache
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneThread:
    """A context that threads may be in at the same time: the last to leave gives back what was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                _let_any_thread_set()
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._within += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                _let_any_thread_set()
                self._limit.restore_original_limits()
                _let_any_thread_set()


@cache
def _controller() -> Any:
    """Of the libraries that are loaded by now: NumPy's is, and no other one computes here."""
    return ThreadpoolController()


def _let_any_thread_set() -> None:
    """Have threadpoolctl, since 3.8, heed others than the first thread that ever set a limit.

    It keeps threads from giving back what others have taken, which the count does here.
    """
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear:
            clear(force=True)


ONE_THREAD = _OneThread()
"""It is of the process: another thread's products meanwhile have one thread of BLAS as well."""
