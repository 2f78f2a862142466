"""Progress of a training: a bar on a terminal, lines elsewhere."""

import re

import pytest

from polyseme_lab.commands.train import TrainingProgress
from tests.lab.training.world import world_model, write_tags
from tests.test_progress import clock, on_terminal

__all__ = ["clock"]

SCORES = {"auc": 61.234, "macro_f1": None}


def test_without_a_terminal_lines_are_throttled_and_scores_are_not(clock, capsys):
    with TrainingProgress() as training:
        with training.stage("reading text.txt", 5_000_000) as bar:
            for _ in range(5):
                clock[0] += 4
                bar.advance(1_000_000)
        training.step(0, {"step": 0, **SCORES})
        for step in range(1, 7):
            clock[0] += 4
            training.step(step / 6, {"step": step, "loss": 2.5 + step / 1000})
        training.step(1, {"step": 1007, "loss": 2.4, "auc": 62, "macro_f1": 70.0})
    with TrainingProgress() as training:  # a resumed one has no scores before the first evaluation
        training.step(0.4, {"step": 4, "loss": 2.5})
        clock[0] += 10
        training.step(0.5, {"step": 5, "loss": 2.5})
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading text.txt, 3 of 5 MB",
        "polyseme: training, 0%, step 0, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 50%, step 3, loss 2.503, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 100%, step 6, loss 2.506, held out: AUC 61.23, macro-F1 –",
        "polyseme: training, 100%, step 1,007, loss 2.400, held out: AUC 62.00, macro-F1 70.00",
        "polyseme: training, 50%, step 5, loss 2.500",
    ]


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
