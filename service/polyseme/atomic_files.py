"""Atomic writes: a file appears complete or not at all."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

TEMPORARY_PREFIX = ".writing-"
"""The prefix of the names of temporary files."""


def atomic_write(path: Path, data: bytes) -> None:
    """Write a file atomically; raise the same errors as `atomic_files`."""
    with atomic_files(path) as (file,):
        file.write(data)


@contextmanager
def atomic_files(*paths: Path) -> Iterator[list[IO[bytes]]]:
    """Open temporary files and rename them to `paths` once all are complete and synced to disk.

    Each temporary file is in the folder of its resolved path; its name begins with
    TEMPORARY_PREFIX. If the context ends with an exception, the temporary files are removed. A
    symbolic link is kept and its target is replaced; the new file has the permissions of the old
    one. Raises OSError if the folder does not exist, if a path exists and is not a regular file
    (such as /dev/stdout), if its links form a loop, or if a file cannot be written.
    """
    targets = [_resolve(path) for path in paths]
    with ExitStack() as stack:
        files = [stack.enter_context(_temporary_file(target)) for target in targets]
        yield list(files)
        for file in files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for file, target in zip(files, targets, strict=True):
            _rename(Path(file.name), target)


def _resolve(path: Path) -> Path:
    """Follow symbolic links, and check that the target can be a regular file."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "The path exists and is not a regular file", str(path))
    # Not `Path.resolve`: its result for a loop of links depends on the version of Python.
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))
    return target


@contextmanager
def _temporary_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a file beside the target, and remove it at the end unless it has been renamed.

    The name is chosen before the file is opened, so that an interrupted open is cleaned up too.
    """
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    try:
        with temporary.open("x+b") as file:
            yield file
    finally:
        temporary.unlink(missing_ok=True)


def _rename(temporary: Path, target: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.copymode(target, temporary)
    temporary.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that a power loss undoes no earlier rename."""
    with suppress(OSError):  # not every file system can sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
