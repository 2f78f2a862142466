"""Progress of long tasks on standard error: a bar on a terminal, else a line every ten seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Literal, NoReturn, TypeAlias

import click
from tqdm import tqdm

from polyseme.progress import Progress, ProgressBar

SECONDS = 10.0
"""The interval between two lines if standard error is not a terminal."""
Unit: TypeAlias = Literal["bytes", "items", "share"]


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
