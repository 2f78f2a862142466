"""A context in which BLAS uses one thread."""

import threading
from functools import cached_property
from typing import Any

from threadpoolctl import ThreadpoolController


class SingleThread:
    """A context manager in which BLAS uses one thread, as it does in the workers of the service.

    BLAS divides large products among its threads, which changes the order of sums: the last bits
    of the results for a few hundred words would depend on the number of threads. The limit applies
    to the whole process. Several threads may be in the context at the same time; the last one to
    leave restores the previous limits. If BLAS has one thread already, nothing is changed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside and any(one.num_threads != 1 for one in self._blas.lib_controllers):
                self._release_controlling_thread()
                self._limit = self._blas.limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limit is not None:
                self._release_controlling_thread()
                self._limit.restore_original_limits()
                self._release_controlling_thread()
                self._limit = None

    @cached_property
    def _blas(self) -> Any:
        """The controller of the libraries loaded when the context is first entered."""
        return ThreadpoolController().select(user_api="blas")

    def _release_controlling_thread(self) -> None:
        """Allow any thread to set limits.

        Once a thread has set a limit, threadpoolctl 3.8 ignores limits that other threads set, so
        that threads do not undo each other's. This class counts the threads inside instead.
        """
        for library in self._blas.lib_controllers:
            clear = getattr(library, "clear_controlling_thread", None)
            if clear:
                clear(force=True)


SINGLE_THREAD = SingleThread()
"""The context of all models of this process."""
