"""Signals to programs that tests start."""

import signal
from contextlib import contextmanager


def default_handling(number):
    """Give programs that start in the block the default handling of a signal.

    `nohup` and a shell's `&` start the tests with ignored signals, which child processes inherit.
    """
    # A started program resets a signal with a handler to its default, and an ignored one not.
    return handler_of(number, lambda *_: None)


@contextmanager
def handler_of(number, handler):
    """Handle a signal with a function in the block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
