"""Progress of long work: a bar on a terminal, lines elsewhere."""

import io
import os
import pty
import re
import sys
import termios
from contextlib import redirect_stderr, redirect_stdout
from threading import Thread

import numpy as np
import pytest

from polyseme import progress
from polyseme.cli.main import polyseme


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that takes long enough for a progress bar."""
    path = tmp_path_factory.mktemp("large") / "large.txt"
    vectors = np.random.default_rng(3).standard_normal((300, 100))
    values = [" ".join(map("{:.9g}".format, vector)) for vector in vectors]
    path.write_text("".join(f"gnu{i} {values[i % 300]}\n" for i in range(12_000)))
    return path


def read_all(master):
    """The bytes that are written to a terminal until it is closed."""
    written = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # EIO on Linux when the terminal is closed
            return written
        if not part:
            return written
        written += part


def on_terminal(columns, *arguments, both=False):
    """Run `polyseme` with a terminal as standard error; return exit code, output and errors.

    With `both`, standard output is the terminal, too.
    """
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    out, err = io.StringIO(), []
    reader = Thread(target=lambda: err.append(read_all(master)))
    reader.start()
    with (
        open(terminal, "w") as file,  # noqa: PTH123
        redirect_stderr(file),
        redirect_stdout(file if both else out),
    ):
        try:
            polyseme([str(argument) for argument in arguments], prog_name="polyseme")
        except SystemExit as end:
            code = end.code
    reader.join()
    os.close(master)
    return code, out.getvalue(), err[0].decode()


@pytest.mark.slow
def test_on_a_terminal_a_bar_shows_bytes_and_rows(tmp_path, large):
    command = ("models", "import", large, "--models-dir", tmp_path)
    code, out, err = on_terminal(100, *command, "--no-subwords")
    assert code == 0
    assert out == "large  12000 words  100 wide  float32  lower-case  closed form\n"
    size = re.escape(f"{large.stat().st_size / 1e6:.1f}M")
    assert re.search(rf"\rreading: +\d+%\|[^|]*\| [\d.]+M/{size} \[.*[\d,]+ rows\]", err), err
    assert "polyseme: 12,000 words of dimension 100." in err
    shown = err.split("\r")
    assert not shown[-1].strip() or shown[-1].startswith(("polyseme: ", "\n"))


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


def test_progress_that_is_no_bytes_is_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.Progress().stage("sentences", 20, in_bytes=False) as bar:
        bar.advance(20)
    out, err = capsys.readouterr()
    assert out == "" and "sentences:" in err and "/20 " in err
