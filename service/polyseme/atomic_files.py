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
    targets = []
    for path in paths:
        if path.exists() and not path.is_file():
            message = "The path exists and is not a regular file"
            raise FileExistsError(errno.EEXIST, message, str(path))
        # Not `Path.resolve`: its result for a loop of links depends on the version of Python.
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(path.parent))
        targets.append(target)
    # Names are chosen before files are opened, so that an interrupted open is cleaned up too.
    temporary = [t.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}") for t in targets]
    try:
        with ExitStack() as stack:
            files: list[IO[bytes]] = [stack.enter_context(new.open("x+b")) for new in temporary]
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for new, target in zip(temporary, targets, strict=True):
            with suppress(FileNotFoundError):
                shutil.copymode(target, new)
            new.replace(target)
            sync_folder(target.parent)
    finally:
        for new in temporary:
            new.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that a power loss undoes no earlier rename."""
    with suppress(OSError):  # not every file system can sync a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
