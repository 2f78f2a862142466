"""Signals to programs that tests start."""

import signal
from contextlib import contextmanager


@contextmanager
def heard(number):
    """Let programs that start meanwhile hear a signal.

    Whoever runs the tests may have it ignored, as `nohup` and a shell's `&` do, and that is passed
    on.
    """
    before = signal.signal(number, lambda *_: None)  # a program that starts has the default instead
    try:
        yield
    finally:
        signal.signal(number, before)
