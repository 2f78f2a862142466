"""Progress of long tasks on standard error: a bar on a terminal, else a line every ten seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal, NoReturn, Self, TypeAlias

import click
from tqdm import tqdm

from polyseme.progress import Progress, ProgressBar

SECONDS = 10.0
"""The interval between two lines if standard error is not a terminal."""
Unit: TypeAlias = Literal["bytes", "items", "share"]
SCORES = {"auc": "AUC", "macro_f1": "macro-F1", "held_out_loss": "loss", "named": "named"}
"""The labels of held-out scores."""
_RESOLUTION = 1_000_000
"""The total of a stage with the unit `share`, which counts millionths of the work."""


class ConsoleBar(ProgressBar):
    """The progress of one stage, as a bar or as lines."""

    def __init__(self, name: str, total: int, unit: Unit) -> None:
        super().__init__()
        self._name, self._total, self._unit = name, total, unit
        self._last = time.monotonic()
        self._bar: tqdm[NoReturn] | None = None
        if sys.stderr.isatty():
            bar_format = None
            if unit == "share":
                bar_format = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self._bar = tqdm(
                desc=name,
                total=total,
                unit="B" if unit == "bytes" else "it",
                unit_scale=unit == "bytes",
                bar_format=bar_format,
                leave=False,
            )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def reach(self, done: int, rows: int = 0) -> None:
        """Set the completed part of the stage, and the number of rows in it."""
        self.show(done, f"{rows:,} rows" if rows else "")

    def show(self, done: int, note: str, *, line: bool = False) -> None:
        """Set the completed part and a note; `line` writes a line immediately."""
        increment, self.done = done - self.done, done
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(increment)
        elif time.monotonic() - self._last >= SECONDS:
            line = True
        if not line:
            return
        self._last = time.monotonic()
        amount = f"{done:,} of {self._total:,}"
        if self._unit == "bytes":
            amount = f"{done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
        elif self._unit == "share":
            amount = f"{done / self._total:.0%}"
        _write_line(", ".join(filter(None, (self._name, amount, note))))


def _write_line(text: str) -> None:
    """Write a line to standard error, above the bar if there is one."""
    with tqdm.external_write_mode(file=sys.stderr):
        click.echo(f"polyseme: {text}", err=True)


class ConsoleProgress(Progress):
    """Progress on standard error, in stages."""

    @contextmanager
    def stage(self, name: str, total: int, *, in_bytes: bool = True) -> Iterator[ProgressBar]:
        """Begin a stage; `total` counts bytes, or items if `in_bytes` is False."""
        with closing(ConsoleBar(name, total, "bytes" if in_bytes else "items")) as bar:
            yield bar

    def say(self, sentence: str) -> None:
        """Write a message on a separate line."""
        _write_line(sentence)


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
