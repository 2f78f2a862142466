"""Requests that are over, until the worker's loop counts them and writes their lines.

To count and to log take locks that all threads share and system calls, each of which may cost a
thread the interpreter for milliseconds. So the threads only leave behind what there is to do, and
the loop does it for many requests at once: when no request is left, or four times a second.
"""

from collections import deque
from contextlib import suppress

from polyseme.http import tally
from polyseme.http.accounts import Account

PATIENCE = 0.25
"""Seconds that what there is to do may wait."""


class Ledger:
    """Accounts that are closed and not yet counted."""

    def __init__(self) -> None:
        self.patient = False
        """whether somebody will settle it; else each account is counted at once"""
        self._accounts: deque[Account] = deque()

    def enter(self, account: Account) -> None:
        """Have a request counted."""
        self._accounts.append(account)
        if not self.patient:
            self.settle()

    def settle(self) -> None:
        """Count what there is; a thread that answers /metrics may do it beside the loop."""
        accounts = []
        with suppress(IndexError):
            while True:
                accounts.append(self._accounts.popleft())
        if accounts:
            tally.count(accounts)


ledger = Ledger()
