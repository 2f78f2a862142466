"""Taking leave: after SIGTERM the service says that it is not ready, and answers for a while yet.

A load balancer asks `/readyz` now and then; requests that it sends until it hears must not be lost.
"""

import mmap
import os
import signal
from typing import Any

_flag = mmap.mmap(-1, 1)
"""One byte that the master and its workers share: made before the workers are forked."""
_ENDINGS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}


def begin() -> None:
    """Say in every process that the service takes leave."""
    _flag[0] = 1


def draining() -> bool:
    """Whether the service takes leave."""
    return _flag[0] == 1


def take_over_endings(arbiter: Any, seconds: int) -> None:
    """Have gunicorn's master stop some seconds after SIGTERM; a second one stops it at once."""
    stop = arbiter.handle_term

    def handle_term() -> None:
        if draining() or not seconds:
            stop()
        begin()
        arbiter.log.info("stopping in %s seconds, no longer ready", seconds)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        signal.alarm(seconds)

    arbiter.handle_term = handle_term


def hold_endings() -> None:
    """Hold signals to end back while a worker is forked: here until that is done.

    In the worker they wait until it calls `release_endings`. Python forgets those that come before
    the first step of a new process, and the master's handlers, which stand for a while, put others
    into a queue that nobody reads; the master would wait for an answer that never comes.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)


def release_endings() -> None:
    """Handle signals to end from now on, also those that came before."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)


os.register_at_fork(after_in_parent=release_endings)
