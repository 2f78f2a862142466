"""Progress of a training as lines; `tests/test_progress.py` has the bar of a terminal."""

from polyseme_lab.commands.train import TrainingProgress
from tests.test_progress import clock

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
