"""Where a command's answer goes: standard output, or a file that is there once it is whole."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from polyseme.cli.interruption import cleaning_up
from polyseme.whole_files import whole_files

output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default="-",
    help="A file.",
)


@contextmanager
def written_to(file: Path) -> Iterator[IO[bytes]]:
    """Open what is to be written: `-` is standard output, a file takes its place at the end."""
    if str(file) == "-":
        yield sys.stdout.buffer
    elif file.exists() and not file.is_file():
        # What leads elsewhere, such as /dev/stdout, is not to be replaced.
        with file.open("wb") as out:
            yield out
    else:
        with cleaning_up(), whole_files(file) as (out,):
            yield out
