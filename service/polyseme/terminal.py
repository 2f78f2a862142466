"""Output of the command line: lines with texts of files and names of models, and progress.

Progress of long tasks is not shown, or is on standard error: on a terminal a bar, otherwise a line
every ten seconds.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal, TypeAlias

import click

SECONDS = 10.0
"""The interval between two lines if standard error is not a terminal."""
Unit: TypeAlias = Literal["bytes", "items", "share"]
# Control characters, line breaks, bidirectional controls, and bytes that are not UTF-8.
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def echo(line: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Write a line, or without `nl` a part of one, to standard output or to standard error."""
    # With another `color`, click removes escape sequences in a pipe.
    click.echo(visible(line, sys.stderr if err else sys.stdout), nl=nl, err=err, color=True)


def visible(line: str, stream: Any) -> str:
    r"""Return a line of output, with the escapes of JSON for control characters on a terminal.

    A text could otherwise change the title of the window, hide other lines, or reorder words. In a
    pipe or a file, the line stays as it is.
    """
    if stream is None or not stream.isatty():
        return line
    return _CONTROLS.sub(lambda match: _escape(match[0]), line)


def _escape(character: str) -> str:
    return r"\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


class ProgressBar:
    """The progress of one stage of a task, as a bar or as lines; not shown without a name."""

    def __init__(self, name: str = "", total: int = 0, unit: Unit = "items") -> None:
        self.done = 0
        self._name, self._total, self._unit = name, total, unit
        self._last = time.monotonic()
        self._bar: Any = None
        if name and sys.stderr.isatty():
            from tqdm import tqdm

            share = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self._bar = tqdm(
                desc=name,
                total=total,
                unit="B" if unit == "bytes" else "it",
                unit_scale=unit == "bytes",
                bar_format=share if unit == "share" else None,
                leave=False,
            )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def advance(self, count: int) -> None:
        """Add to the completed part."""
        self.reach(self.done + count)

    def reach(self, done: int, rows: int = 0) -> None:
        """Set the completed part of the stage, and the number of completed rows."""
        self.show(done, f"{rows:,} rows" if rows else "")

    def show(self, done: int, note: str, *, line: bool = False) -> None:
        """Set the completed part and a note; `line` writes a line immediately."""
        increment, self.done = done - self.done, done
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(increment)
        elif self._name and time.monotonic() - self._last >= SECONDS:
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


class Progress:
    """The progress of a task in consecutive stages, on standard error if it is shown."""

    def __init__(self, *, is_shown: bool = True) -> None:
        self.is_shown = is_shown

    @contextmanager
    def stage(self, name: str, total: int, *, in_bytes: bool = True) -> Iterator[ProgressBar]:
        """Begin a stage; `total` counts bytes, or items if `in_bytes` is False."""
        unit: Unit = "bytes" if in_bytes else "items"
        with closing(ProgressBar(name if self.is_shown else "", total, unit)) as bar:
            yield bar

    def say(self, sentence: str) -> None:
        """Write a message on a separate line, above the bar if there is one."""
        if self.is_shown:
            _write_line(sentence)


def _write_line(text: str) -> None:
    from tqdm import tqdm

    if sys.stderr:  # tqdm would write to standard output
        tqdm.write(visible(f"polyseme: {text}", sys.stderr), file=sys.stderr)


SILENT = Progress(is_shown=False)
