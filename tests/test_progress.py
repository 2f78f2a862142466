"""Progress of long work: a bar on a terminal, lines elsewhere."""

import sys

import pytest

from polyseme import progress


@pytest.fixture
def clock(monkeypatch):
    """The time that progress sees, as the only item."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_is_written_every_ten_seconds(clock, capsys):
    with progress.Progress().stage("reading", 7_000_000) as bar:
        for done in range(8):
            clock[0] += 4
            bar.reach(done * 1_000_000, done * 1000)
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading, 2 of 7 MB, 2,000 rows",
        "polyseme: reading, 5 of 7 MB, 5,000 rows",
    ]


def test_without_a_terminal_progress_that_is_no_bytes_is_counted(clock, capsys):
    with progress.Progress().stage("sentences", 2000, in_bytes=False) as bar:
        clock[0] += 1
        bar.advance(500)
        clock[0] += 9
        bar.advance(1000)
    assert capsys.readouterr().err == "polyseme: sentences, 1,500 of 2,000\n"


def test_on_a_terminal_progress_is_a_bar_below_messages(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = progress.Progress()
    with shown.stage("reading", 7_000_000) as bar:
        bar.reach(3_500_000, 2000)
        bar.show(7_000_000, "3,000 rows")
        shown.say("A message.")
    with shown.stage("sentences", 20, in_bytes=False) as bar:
        bar.advance(20)
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading: 100%" in err and "7.00M/7.00M [" in err and ", 3,000 rows]" in err
    assert "polyseme: A message.\n" in err
    assert "sentences:" in err and "/20 [" in err


def test_progress_that_is_not_shown_writes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.SILENT.stage("reading", 7) as bar:
        bar.advance(7)
    progress.SILENT.say("A message.")
    assert capsys.readouterr() == ("", "")
