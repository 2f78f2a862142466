"""Where a command's answer goes: standard output, or a file that is there once it is whole."""

import errno
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from service.cli.interruption import cleaning_up

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
        with cleaning_up(), _beside(file) as out:
            yield out


@contextmanager
def _beside(file: Path) -> Iterator[IO[bytes]]:
    """A file beside the one it will be, gone at the end unless it has taken its place."""
    place = file.resolve()
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder for", str(file))
    begun = place.with_name(f".writing-{secrets.token_hex(8)}")
    try:
        with begun.open("xb") as out:
            yield out
        if place.exists():
            shutil.copymode(place, begun)
        begun.replace(place)
    finally:
        begun.unlink(missing_ok=True)
