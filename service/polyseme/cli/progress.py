"""The course of long work on standard error: a bar on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click
from tqdm import tqdm

from polyseme.importing.progress import Bar

SECONDS = 10.0
"""Between two lines where there is no terminal."""


class ConsoleProgress:
    """Draws bars, or writes lines."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Bar]:
        """Begin a stretch of a number of bytes."""
        if not sys.stderr.isatty():
            yield _Written(name, total)
            return
        bar: tqdm[NoReturn] = tqdm(desc=name, total=total, unit="B", unit_scale=True, leave=False)
        with bar:
            yield _Drawn(bar)

    def say(self, sentence: str) -> None:
        """Say something, on a line of its own."""
        with tqdm.external_write_mode(file=sys.stderr):
            click.echo(f"polyseme: {sentence}", err=True)


class _Drawn:
    def __init__(self, bar: "tqdm[NoReturn]") -> None:
        self._bar = bar

    def reach(self, done: int, rows: int = 0) -> None:
        if rows:
            self._bar.set_postfix_str(f"{rows:,} rows", refresh=False)
        self._bar.update(done - self._bar.n)


class _Written:
    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._last = name, total, time.monotonic()

    def reach(self, done: int, rows: int = 0) -> None:
        if time.monotonic() - self._last < SECONDS:
            return
        self._last = time.monotonic()
        part = f"{done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
        click.echo(f"polyseme: {self._name}, {part}, {rows:,} rows", err=True)
