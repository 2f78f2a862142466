"""Progress of a training on standard error."""

from typing import Any, Self

from polyseme.progress import ConsoleBar, ConsoleProgress

SCORES = {"auc": "AUC", "macro_f1": "macro-F1", "held_out_loss": "loss", "named": "named"}
"""The labels of held-out scores."""
_RESOLUTION = 1_000_000
"""The total of a stage with the unit `share`, which counts millionths of the work."""


class TrainingProgress(ConsoleProgress):
    """Progress of training: the stages of reading the files, then the training steps."""

    def __init__(self) -> None:
        self._steps: ConsoleBar | None = None
        self._scores = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._steps is not None:
            self._steps.close()

    def step(self, done: float, metrics: dict[str, Any]) -> None:
        """Show a step; `done` is the completed share, from 0 to 1.

        New scores also get a line of their own. Without a terminal, the loss is written every ten
        seconds.
        """
        if self._steps is None:
            self._steps = ConsoleBar("training", _RESOLUTION, "share")
        found = [
            f"{label} {format_score(metrics[key])}"
            for key, label in SCORES.items()
            if key in metrics
        ]
        if found:
            self._scores = f", held out: {', '.join(found)}"
        loss = f", loss {metrics['loss']:.3f}" if "loss" in metrics else ""
        note = f"step {metrics['step']:,}{loss}{self._scores}"
        self._steps.show(round(done * _RESOLUTION), note, line=bool(found))


def format_score(score: float | None) -> str:
    """Return a score with two decimals, or a dash."""
    return "–" if score is None else f"{score:.2f}"
