"""Processes that a command starts."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process


def exit_with_parent() -> None:
    """End this child process when its parent ends, also if that is killed."""
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def interruptions_blocked() -> Iterator[None]:
    """Block SIGINT and SIGHUP while child processes start.

    Child processes inherit the blocked signals, so that only this process handles them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
