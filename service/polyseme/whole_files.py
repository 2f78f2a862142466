"""Files that are there whole, or not at all."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

BEGUN = ".writing-"
"""How the names of files begin that are not whole yet."""


def write_whole(place: Path, data: bytes) -> None:
    """Write a file that takes its place when it is whole. Raises as `whole_files` does."""
    with whole_files(place) as (file,):
        file.write(data)


@contextmanager
def whole_files(*places: Path) -> Iterator[list[IO[bytes]]]:
    """Open files that take their places when all of them are whole and on the disk.

    Until then each lies in its place's folder under a name that begins with BEGUN; it is gone at
    the end if it has not taken its place. What a link leads to is replaced, and not the link; what
    stood there leaves its permissions. Raises OSError where there is no such folder, where
    something else than a file is there, such as /dev/stdout, and where nothing can be written.
    """
    found = [_checked(place) for place in places]
    with ExitStack() as stack:
        written = [stack.enter_context(_begun(place)) for place in found]
        yield list(written)
        for one in written:
            one.flush()
            os.fsync(one.fileno())
            one.close()
        for one, place in zip(written, found, strict=True):
            _put(Path(one.name), place)


def _checked(place: Path) -> Path:
    """Where a file is to stand."""
    if place.exists() and not place.is_file():
        raise FileExistsError(errno.EEXIST, "Something else than a file is there", str(place))
    there = place.resolve()
    if not there.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(place.parent))
    return there


@contextmanager
def _begun(place: Path) -> Iterator[IO[bytes]]:
    """A file beside the one it will be, gone at the end unless it has taken its place.

    It has its name before it is there, so that an interruption never comes between the two.
    """
    begun = place.with_name(f"{BEGUN}{secrets.token_hex(8)}")
    try:
        with begun.open("x+b") as file:
            yield file
    finally:
        begun.unlink(missing_ok=True)


def _put(begun: Path, place: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.copymode(place, begun)
    begun.replace(place)
    with suppress(OSError):  # not every file system can bring names to the disk
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
