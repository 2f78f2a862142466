"""Taking leave: after SIGTERM the service says that it is not ready, and answers for a while yet.

A load balancer asks `/readyz` now and then; requests that it sends until it hears must not be lost.
"""

import mmap
import os
import signal
from typing import Any

_flag = mmap.mmap(-1, 1)
"""One byte that the master and its workers share: made before the workers are forked."""


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
