"""Progress of long work on standard error: a bar on a terminal, else a line every 10 seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click
from tqdm import tqdm

from polyseme.progress import Progress, ProgressBar

SECONDS = 10.0
"""Between two lines without a terminal."""


class ConsoleProgress(Progress):
    """Draws bars, or writes lines."""

    @contextmanager
    def stage(self, name: str, total: int, *, in_bytes: bool = True) -> Iterator[ProgressBar]:
        """Begin a stage; `total` counts bytes, or items if `in_bytes` is False."""
        if not sys.stderr.isatty():
            yield _Lines(name, total, in_bytes=in_bytes)
            return
        unit = "B" if in_bytes else "it"
        bar: tqdm[NoReturn] = tqdm(
            desc=name, total=total, unit=unit, unit_scale=in_bytes, leave=False
        )
        with bar:
            yield _Drawn(bar)

    def say(self, sentence: str) -> None:
        """Write a sentence on a line of its own."""
        with tqdm.external_write_mode(file=sys.stderr):
            click.echo(f"polyseme: {sentence}", err=True)


class _Drawn(ProgressBar):
    def __init__(self, bar: "tqdm[NoReturn]") -> None:
        super().__init__()
        self._bar = bar

    def reach(self, done: int, rows: int = 0) -> None:
        if rows:
            self._bar.set_postfix_str(f"{rows:,} rows", refresh=False)
        self._bar.update(done - self.done)
        self.done = done


class _Lines(ProgressBar):
    def __init__(self, name: str, total: int, *, in_bytes: bool) -> None:
        super().__init__()
        self._name, self._total, self._last = name, total, time.monotonic()
        self._in_bytes = in_bytes

    def reach(self, done: int, rows: int = 0) -> None:
        self.done = done
        if time.monotonic() - self._last < SECONDS:
            return
        self._last = time.monotonic()
        part = f"{done:,} of {self._total:,}"
        if self._in_bytes:
            part = f"{done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
        suffix = f", {rows:,} rows" if rows else ""
        click.echo(f"polyseme: {self._name}, {part}{suffix}", err=True)
