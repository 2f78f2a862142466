"""The course of a training: a bar on a terminal, lines elsewhere."""

import os
import pty
import re
import subprocess
import sys
import termios

import pytest

from polyseme.cli import progress
from tests.cli.test_progress import read_all
from tests.conftest import ROOT
from tests.training.world import world_model, write_tags

SCORES = {"auc": 61.234, "macro_f1": None}


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_off_a_terminal_lines_come_now_and_then_and_scores_at_once(clock, capsys):
    with progress.Telling() as told:
        told.step(0, {"step": 0, **SCORES})
        for step in range(1, 7):
            clock[0] += 4
            told.step(step / 6, {"step": step, "loss": 2.5 + step / 1000})
        told.step(1, {"step": 1007, "loss": 2.4, "auc": 62, "macro_f1": 70.0})
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: 0%, step 0, held out: AUC 61.23, macro-F1 –",
        "polyseme: 50%, step 3, loss 2.503, held out: AUC 61.23, macro-F1 –",
        "polyseme: 100%, step 6, loss 2.506, held out: AUC 61.23, macro-F1 –",
        "polyseme: 100%, step 1,007, loss 2.400, held out: AUC 62.00, macro-F1 70.00",
    ]


def test_on_a_terminal_there_is_a_bar_with_the_loss_and_the_scores(tmp_path):
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    pytest.importorskip("sklearn", reason="the extra [train] is not installed")
    world_model(tmp_path)
    tags = write_tags(tmp_path / "tags.jsonl", count=200)
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 150))
    arguments = ("train", "--model", "world", "--tags", tags, "--steps", 60, "--score-every", 30)
    with subprocess.Popen(
        [sys.executable, "-m", "polyseme", *map(str, arguments), "--models-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        os.close(terminal)
        err = read_all(master).decode()
        process.stdout.read()
    os.close(master)
    assert process.returncode == 0, err
    assert re.search(r"reading tags\.jsonl: +\d+%\|[^|]*\| [\d.]+k?/", err), err
    assert re.search(r"\rtraining +\d+%\|[^|]*\| \d\d:\d\d<.*step \d+, loss \d\.\d+", err), err
    assert re.search(r"polyseme: step 30, loss \d\.\d+, held out: AUC ", err), err
    assert "Traceback" not in err
