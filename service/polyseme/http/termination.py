"""Termination signals take precedence over reloads."""

import signal
from collections.abc import Callable
from typing import Any

SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}


class _Terminated(Exception):  # noqa: N818 - it ends a wait
    """A termination signal arrived while a reload waits for the old workers."""


def take_precedence(server: Any, draining: Callable[[], bool]) -> None:
    """Make gunicorn's master handle termination signals before reloads.

    gunicorn handles signals in the order in which they arrive, and each reload waits up to
    `graceful_timeout` for the old workers. With this, several waiting SIGHUPs cause one reload, a
    termination signal discards them and ends the wait, and a draining service does not reload.
    """
    received: list[int] = []
    wait, reload, reap = server.wait_for_signals, server.reload, server.reap_workers

    def on_signal(number: int, frame: Any) -> None:
        received.append(number)
        server.signal(number, frame)

    def wait_for_signals(timeout: float = 1.0) -> list[int]:
        signals = wait(timeout)
        reloads = [one for one in signals if one == signal.SIGHUP][:1]
        terminations = [one for one in signals if one in SIGNALS]
        others = [one for one in signals if one != signal.SIGHUP and one not in SIGNALS]
        return [*terminations, *others, *(() if terminations or draining() else reloads)]

    def reap_unless_terminated() -> None:
        reap()
        if received:
            raise _Terminated

    def reload_until_terminated() -> None:
        # While gunicorn reloads, it reaps workers only to wait for the old ones, as the last step.
        server.reap_workers = reap_unless_terminated
        try:
            reload()
        except _Terminated:
            server.log.info("a termination signal ends the wait for the old workers")
        finally:
            server.reap_workers = reap

    server.wait_for_signals, server.reload = wait_for_signals, reload_until_terminated
    for number in SIGNALS:
        signal.signal(number, on_signal)
