"""What is left to be counted, which two threads may want to count at the same time."""

from collections import deque

import pytest
from polyseme.http import ledger, tally
from polyseme.http.accounts import Account

from polyseme.encoding.encode import Timings


class Contested(deque[Account]):
    """Accounts of which the last is taken by another thread between a look and a hand."""

    def popleft(self) -> Account:
        if len(self) == 1:
            self.clear()
        return super().popleft()


def test_an_account_that_another_thread_takes_at_the_moment_harms_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[Account] = []
    monkeypatch.setattr(tally, "count", counted.extend)
    kept = ledger.Ledger()
    kept.patient = True
    accounts = [Account(str(number), Timings(), 0.0) for number in range(3)]
    monkeypatch.setattr(kept, "_accounts", Contested())
    for one in accounts:
        kept.enter(one)
    assert counted == []
    kept.settle()
    assert counted == accounts[:2]
    kept.settle()
    assert counted == accounts[:2]
