"""The course of an import: what it takes, a bar on a terminal, lines elsewhere."""

import os
import pty
import re
import subprocess
import sys
import termios

import numpy as np
import pytest

from polyseme.cli import progress
from polyseme.models.reader import read_model
from tests.conftest import ROOT
from tests.importing.files import many
from tests.importing.work import Work


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that takes long enough for a bar to be seen."""
    path = tmp_path_factory.mktemp("large") / "large.txt"
    path.write_bytes(many("glove", 30_000, 100))
    return path


def test_the_memory_and_the_disk_that_it_takes_are_said_before(tmp_path, large):
    with Work(tmp_path, large, "--dtype", "float16", "--limit", "20000") as work:
        code, _, err = work.end()
    # 20,000 · (200 bytes of numbers + 250 of a word); 20,000 · 200 bytes.
    assert code == 0
    assert err.splitlines()[0] == (
        "polyseme: 20,000 words of 100 numbers: about 139 MB of memory to import, 4 MB on disk,"
        " which all workers that serve it share."
    )


def read_all(master):
    """What was written to a terminal until nobody has it open."""
    written = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # Linux's way to say so
            return written
        if not part:
            return written
        written += part


def test_on_a_terminal_a_bar_shows_bytes_and_rows(tmp_path, large):
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 100))
    command = [sys.executable, "-m", "polyseme", "models", "import", large, "--processes", "1"]
    with subprocess.Popen(
        [*map(str, command), "--models-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(terminal)
        err = read_all(master).decode()
        out = process.stdout.read().decode()
    os.close(master)
    assert process.returncode == 0
    assert out == "large  30000 words  100 wide  float32  lower-case  closed form\n"
    assert re.search(r"\rchecking: +\d+%\|[^|]*\| [\d.]+M?/36\.7M ", err), err
    assert re.search(r"\rreading: +\d+%\|[^|]*\| [\d.]+M/36\.7M \[.*[\d,]+ rows\]", err), err
    assert "polyseme: 30,000 words of 100 numbers: about 150 MB of memory to import" in err
    shown = err.split("\r")
    assert not shown[-1].strip() or shown[-1].startswith(("polyseme: ", "\n"))


def test_off_a_terminal_a_line_is_written_now_and_then(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.ConsoleProgress().stage("reading", 7_000_000) as bar:
        for done in range(8):
            now[0] += 4
            bar.reach(done * 1_000_000, done * 1000)
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading, 2 of 7 MB, 2,000 rows",
        "polyseme: reading, 5 of 7 MB, 5,000 rows",
    ]


def test_off_a_terminal_there_is_no_bar(tmp_path, large):
    with Work(tmp_path, large, "--processes", "1") as work:
        code, out, err = work.end()
    assert code == 0
    assert out == "big  30000 words  100 wide  float32  lower-case  parameter-free\n"
    assert "\r" not in err
    assert "\x1b" not in err
    assert all(line.startswith("polyseme: ") for line in err.splitlines())
    assert np.isfinite(read_model(work.models / "big").vectors).all()
