"""Stages are recorded for the request of the thread that runs them."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from polyseme.operations import limits
from polyseme.operations.limits import set_record, stage


@contextmanager
def recording():
    """The record of a block: its stages and token counts."""
    set_record(made := SimpleNamespace(stages={}, counts=None))
    yield made
    set_record(None)


@pytest.fixture
def clock(monkeypatch):
    """The time that stages see, as the only item."""
    now = [100.0]
    monkeypatch.setattr(limits, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def found():
    """The record of a request in this thread."""
    with recording() as made:
        yield made


def test_a_stage_has_its_first_start_its_last_end_and_the_sum_of_its_times(clock, found):
    for name, seconds in (("static", 1), ("write", 2), ("static", 4)):
        with stage(name):
            clock[0] += seconds
        clock[0] += 10
    assert found.stages == {"static": (100, 127, 5), "write": (111, 113, 2)}
    assert list(found.stages) == ["static", "write"]


def test_a_stage_that_raises_is_not_recorded(found):
    with pytest.raises(ValueError, match="no token"), stage("tokens"):
        raise ValueError("no token")
    assert found.stages == {}


def test_nothing_is_recorded_without_a_request_or_in_other_threads(found):
    other = threading.Thread(target=run)
    other.start()
    other.join()
    set_record(None)
    run()
    assert found.stages == {}


def run():
    with stage("tokens"):
        pass
