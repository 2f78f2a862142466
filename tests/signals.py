"""Signals to programs that tests start."""

import signal
from contextlib import contextmanager


@contextmanager
def heard(number):
    """Restore the default handling of a signal for programs that start meanwhile.

    The parent of the tests may ignore it, as `nohup` and a shell's `&` do, and children inherit
    that.
    """
    before = signal.signal(number, lambda *_: None)  # a program that starts has the default instead
    try:
        yield
    finally:
        signal.signal(number, before)
