"""Progress of long work on standard error: a bar on a terminal, else a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, Self, TypeAlias

import click
from tqdm import tqdm

SECONDS = 10.0
"""Between two lines where there is no terminal."""
Unit: TypeAlias = Literal["bytes", "items", "fraction"]


class Stage:
    """One stage of long work: `total` bytes or items, or a fraction of 1."""

    def __init__(self, name: str, total: float, unit: Unit) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._done: float = 0
        self._last = time.monotonic()
        self._bar: tqdm[NoReturn] | None = None
        if sys.stderr.isatty():
            form = None
            if unit == "fraction":
                form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self._bar = tqdm(
                desc=name,
                total=total,
                unit="B" if unit == "bytes" else "it",
                unit_scale=unit == "bytes",
                bar_format=form,
                leave=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def reach(self, done: float, rows: int = 0) -> None:
        """Set how much is done, and how many rows that is."""
        self.update(done - self._done, f"{rows:,} rows" if rows else "")

    def update(self, more: float, note: str = "", *, line: bool = False) -> None:
        """Add to what is done, with a note beside it; `line` writes a line at once."""
        self._done += more
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(more)
        elif time.monotonic() - self._last >= SECONDS:
            line = True
        if not line:
            return
        self._last = time.monotonic()
        amount = f"{self._done:,} of {self._total:,}"
        if self._unit == "bytes":
            amount = f"{self._done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
        elif self._unit == "fraction":
            amount = f"{self._done:.0%}"
        write_line(", ".join(filter(None, (self._name, amount, note))))


def write_line(text: str) -> None:
    """Write a line to standard error, above the bar if there is one."""
    with tqdm.external_write_mode(file=sys.stderr):
        click.echo(f"polyseme: {text}", err=True)


class ConsoleProgress:
    """Progress of an import or a bulk job."""

    def stage(self, name: str, total: int) -> Stage:
        """Begin a stage of a number of bytes."""
        return Stage(name, total, "bytes")

    def say(self, sentence: str) -> None:
        """Write a sentence on a line of its own."""
        write_line(sentence)


@contextmanager
def item_progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Progress of an evaluation; yields a function that adds to the number of items done."""
    with Stage(name, total, "items") as stage:
        yield stage.update


class TrainingProgress:
    """Progress of a training: the files that are read, then the steps."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._done: float | None = None
        """how much of the training is done, from 0 to 1"""
        self._scores = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stage is not None:
            self._stage.close()

    def _begin(self, name: str, total: int, unit: Unit) -> Stage:
        if self._stage is not None:
            self._stage.close()
        self._stage = Stage(name, total, unit)
        return self._stage

    def reading(self, name: str, size: int) -> Callable[[int], None]:
        """Begin to read a file; returns a function that adds to the number of bytes read."""
        return self._begin(f"reading {name}", size, "bytes").update

    def step(self, done: float, metrics: dict[str, Any]) -> None:
        """Show a step: its scores at once, its loss now and then."""
        if self._stage is None or self._done is None:
            self._stage, self._done = self._begin("training", 1, "fraction"), 0.0
        if "auc" in metrics:
            auc, macro_f1 = format_score(metrics["auc"]), format_score(metrics["macro_f1"])
            self._scores = f"AUC {auc}, macro-F1 {macro_f1}"
        loss = f", loss {metrics['loss']:.3f}" if "loss" in metrics else ""
        note = f"step {metrics['step']:,}{loss}, held out: {self._scores}"
        self._stage.update(done - self._done, note, line="auc" in metrics)
        self._done = done


def format_score(score: float | None) -> str:
    """A score with two decimals, or a dash."""
    return "–" if score is None else f"{score:.2f}"
