"""Work that is told to end: nothing half-written stays behind."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the work as Ctrl-C does, so that nothing half-written is left.

    One that is ignored stays so, as `nohup` has it.
    """
    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, _end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
