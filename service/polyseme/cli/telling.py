"""The course of a training on standard error: a bar on a terminal, else a line now and then."""

import math
import sys
import time
from typing import Any, NoReturn, Self

import click
from tqdm import tqdm

SECONDS = 10.0
"""Between two lines where there is no terminal."""


def shown(score: float | None) -> str:
    """A score as it is printed."""
    return "–" if score is None else f"{score:.2f}"


class Telling:
    """Tells of the course on standard error: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._bar: tqdm[NoReturn] | None = None
        self._last, self._scores = -math.inf, ""
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def step(self, done: float, told: dict[str, Any]) -> None:
        """Tell of a step; its scores at once, its loss now and then."""
        if "auc" in told:
            self._scores = f"AUC {shown(told['auc'])}, macro-F1 {shown(told['macro_f1'])}"
        loss = f", loss {told['loss']:.3f}" if "loss" in told else ""
        line = f"step {told['step']:,}{loss}, held out: {self._scores}"
        if not self._terminal:
            self._line(f"{done:.0%}, {line}", now="auc" in told)
            return
        if self._bar is None:
            form = "training {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self._bar = tqdm(total=1, bar_format=form, leave=False)
        self._bar.set_postfix_str(line, refresh=False)
        self._bar.update(done - self._bar.n)
        if "auc" in told:
            self._bar.write(f"polyseme: {line}", file=sys.stderr)

    def _line(self, line: str, *, now: bool = False) -> None:
        if now or time.monotonic() - self._last > SECONDS:
            self._last = time.monotonic()
            click.echo(f"polyseme: {line}", err=True)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
