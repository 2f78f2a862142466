"""Lines of output, which may have texts of files and names of models."""

import json
import re
import sys
from typing import Any

import click

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
