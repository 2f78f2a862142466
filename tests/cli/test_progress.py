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

from polyseme.cli import progress
from polyseme.cli.main import polyseme
from polyseme.models.reader import read_model
from tests.cli.conftest import run
from tests.importing.files import many
from tests.training.world import world_model, write_tags


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that takes long enough for a progress bar."""
    path = tmp_path_factory.mktemp("large") / "large.txt"
    path.write_bytes(many("glove", 12_000, 100))
    return path


WITHOUT_WEIGHTS = ("--no-weights", "--no-subwords")


@pytest.mark.slow
def test_the_needed_memory_and_disk_space_are_printed_first(tmp_path, large):
    options = ("--dtype", "float16", "--limit", 11_000, *WITHOUT_WEIGHTS)
    done = run("models", "import", large, *options, models_dir=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode().splitlines()[0] == (
        "polyseme: 11,000 words of dimension 100: about 161 MB of memory to import, 2 MB on disk"
        " for its vectors, shared by all workers."
    )


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


def on_terminal(columns, *arguments):
    """Run `polyseme` with a terminal as standard error; return exit code, output and errors."""
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    out, err = io.StringIO(), []
    reader = Thread(target=lambda: err.append(read_all(master)))
    reader.start()
    with open(terminal, "w") as file, redirect_stderr(file), redirect_stdout(out):  # noqa: PTH123
        try:
            polyseme([str(argument) for argument in arguments], prog_name="polyseme")
        except SystemExit as end:
            code = end.code
    reader.join()
    os.close(master)
    return code, out.getvalue(), err[0].decode()


@pytest.mark.slow
def test_on_a_terminal_a_bar_shows_bytes_and_rows(tmp_path, large):
    command = ("models", "import", large, "--processes", 1, "--models-dir", tmp_path)
    code, out, err = on_terminal(100, *command, "--no-subwords")
    assert code == 0
    assert out == "large  12000 words  100 wide  float32  lower-case  closed form\n"
    size = re.escape(f"{large.stat().st_size / 1e6:.1f}M")
    assert re.search(rf"\rchecking: +\d+%\|[^|]*\| [\d.]+M?/{size} ", err), err
    assert re.search(rf"\rreading: +\d+%\|[^|]*\| [\d.]+M/{size} \[.*[\d,]+ rows\]", err), err
    assert "polyseme: 12,000 words of dimension 100: about 167 MB of memory to import" in err
    shown = err.split("\r")
    assert not shown[-1].strip() or shown[-1].startswith(("polyseme: ", "\n"))


@pytest.fixture
def clock(monkeypatch):
    """The time that progress sees, as the only item."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_is_written_every_ten_seconds(clock, capsys):
    with progress.ConsoleProgress().stage("reading", 7_000_000) as bar:
        for done in range(8):
            clock[0] += 4
            bar.reach(done * 1_000_000, done * 1000)
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading, 2 of 7 MB, 2,000 rows",
        "polyseme: reading, 5 of 7 MB, 5,000 rows",
    ]


def test_without_a_terminal_progress_that_is_no_bytes_is_counted(clock, capsys):
    with progress.ConsoleProgress().stage("sentences", 2000, in_bytes=False) as bar:
        clock[0] += 1
        bar.advance(500)
        clock[0] += 10
        bar.advance(1000)
    assert capsys.readouterr().err == "polyseme: sentences, 1,500 of 2,000\n"


def test_progress_that_is_no_bytes_is_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.ConsoleProgress().stage("sentences", 20, in_bytes=False) as bar:
        bar.advance(20)
    out, err = capsys.readouterr()
    assert out == "" and "sentences:" in err and "/20 " in err


@pytest.mark.slow
def test_without_a_terminal_there_is_no_progress_bar(tmp_path, large):
    done = run("models", "import", large, *WITHOUT_WEIGHTS, models_dir=tmp_path)
    err = done.stderr.decode()
    assert done.returncode == 0
    assert done.stdout == b"large  12000 words  100 wide  float32  lower-case  parameter-free\n"
    assert "\r" not in err
    assert "\x1b" not in err
    assert all(line.startswith("polyseme: ") for line in err.splitlines())
    assert np.isfinite(read_model(tmp_path / "large").vectors).all()


SCORES = {"auc": 61.234, "macro_f1": None}


def test_without_a_terminal_lines_are_throttled_and_scores_are_not(clock, capsys):
    with progress.TrainingProgress() as training:
        with training.stage("reading text.txt", 5_000_000) as bar:
            for _ in range(5):
                clock[0] += 4
                bar.advance(1_000_000)
        training.step(0, {"step": 0, **SCORES})
        for step in range(1, 7):
            clock[0] += 4
            training.step(step / 6, {"step": step, "loss": 2.5 + step / 1000})
        training.step(1, {"step": 1007, "loss": 2.4, "auc": 62, "macro_f1": 70.0})
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading text.txt, 3 of 5 MB",
        "polyseme: training, 0%, step 0, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 50%, step 3, loss 2.503, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 100%, step 6, loss 2.506, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 100%, step 1,007, loss 2.400, held out: AUC 62.00, macro-F1 70.00",
    ]


def test_a_resumed_training_shows_no_scores_before_its_first_evaluation(clock, capsys):
    with progress.TrainingProgress() as training:
        training.step(0.4, {"step": 4, "loss": 2.5})
        clock[0] += 10
        training.step(0.5, {"step": 5, "loss": 2.5})
    assert capsys.readouterr().err == "polyseme: training, 50%, step 5, loss 2.500\n"


@pytest.mark.slow
def test_on_a_terminal_the_progress_bar_has_loss_and_scores(tmp_path):
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("sklearn", reason="the extra [train] is not installed")
    world_model(tmp_path)
    tags = write_tags(tmp_path / "tags.jsonl", count=200)
    arguments = ("--model", "world", "--tags", tags, "--steps", 20, "--score-every", 10)
    code, _, err = on_terminal(150, "train", *arguments, "--models-dir", tmp_path)
    assert code == 0, err
    assert re.search(r"reading tags\.jsonl: +\d+%\|[^|]*\| [\d.]+k?/", err), err
    assert re.search(r"\rtraining +\d+%\|[^|]*\| \d\d:\d\d<.*step \d+, loss \d\.\d+", err), err
    assert re.search(r"polyseme: training, 50%, step 10, loss \d\.\d+, held out: AUC ", err), err
    assert "Traceback" not in err
