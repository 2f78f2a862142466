"""The log into a pipe whose reader is asleep: nobody waits, and lines that follow are whole."""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator

import pytest
from polyseme.http import lines

LINE = {"event": "request", "message": "a" * 1000}
LONG = {"event": "fault", "places": ["a place that is named"] * 2000}


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[lines.StandardError, int]]:
    """A log that writes into a pipe, and the end to read it from."""
    reading, writing = os.pipe()
    monkeypatch.setattr(lines, "_STANDARD_ERROR", writing)
    monkeypatch.setattr(lines, "_PATIENCE_MS", 1)
    yield lines.StandardError("json"), reading
    os.close(writing)
    os.close(reading)


def tell(log: lines.StandardError, fields: dict[str, object]) -> None:
    """Write a line, which may not take for ever."""
    one = threading.Thread(target=log.tell, args=(logging.INFO, fields), daemon=True)
    one.start()
    one.join(10)
    assert not one.is_alive()


def read(reading: int) -> bytes:
    os.set_blocking(reading, False)
    found = bytearray()
    try:
        while piece := os.read(reading, 1 << 16):
            found += piece
    except BlockingIOError:
        pass
    return bytes(found)


def test_a_line_for_which_there_is_no_room_at_once_holds_nobody_up(
    pipe: tuple[lines.StandardError, int],
) -> None:
    log, reading = pipe
    for _ in range(200):
        tell(log, LINE)
    # Room for a piece of the next line, and not for all of it.
    os.read(reading, 8192)
    tell(log, LONG)
    rest = read(reading)
    tell(log, LINE)
    tell(log, LONG)
    told = (rest + read(reading)).splitlines()
    # Of the one that found no room there is a beginning at most, and the next is whole.
    *_, lost, short, long = told
    assert b'"fault"' in lost and len(lost) <= 8192
    assert json.loads(short)["message"] == LINE["message"]
    assert len(json.loads(long)["places"]) == 2000


def test_a_reader_who_did_not_read_is_waited_for_once(
    pipe: tuple[lines.StandardError, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, reading = pipe
    for _ in range(200):
        tell(log, LINE)
    read(reading)
    tell(log, LINE)  # there was room: the next that finds none waits again
    monkeypatch.setattr(lines, "_PATIENCE_MS", 500)
    began = time.monotonic()
    for _ in range(200):
        tell(log, LINE)
    assert 0.5 <= time.monotonic() - began < 1.5
