"""The size and the checksum of a file, and whether they are those that the manifest says."""

import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

from polyseme.errors import ModelFolderError
from polyseme.store.manifest import FileEntry

Watch: TypeAlias = Callable[[int, memoryview], None]
"""Sees each chunk of a file, and where in the file it starts, while it is in the cache."""
_CHUNK = 1 << 18


def fingerprint(file: BufferedReader, watch: Watch | None = None) -> FileEntry:
    """Read a file from its start to its end, once."""
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(file):
        digest.update(chunk)
        if watch is not None:
            watch(size, chunk)
        size += len(chunk)
    return FileEntry(sha256=digest.hexdigest(), bytes=size)


def _chunks(file: BufferedReader) -> Iterator[memoryview]:
    """The content of a file; each chunk is written over by the next.

    Mapped memory is given back at once; what the heap gave, a worker may keep for good.
    """
    file.seek(0)
    with mmap.mmap(-1, _CHUNK) as buffer, memoryview(buffer) as view:
        while count := file.readinto(buffer):
            with view[:count] as chunk:
                yield chunk


@contextmanager
def opened(path: Path, entry: FileEntry) -> Iterator[BufferedReader]:
    """A file of the size that the manifest says; raise ModelFolderError where there is none.

    It is opened once, so that what is checked is what is mapped. A pipe is not opened: who opens
    one waits for its other end.
    """
    try:
        if not path.is_file():
            raise FileNotFoundError
        file = path.open("rb")
    except OSError:
        raise ModelFolderError(f"{path.name} cannot be read.") from None
    with file:
        require_said(os.fstat(file.fileno()).st_size == entry.bytes, path.name, "number of bytes")
        yield file


def require_checksum(
    file: BufferedReader, name: str, entry: FileEntry, watch: Watch | None = None
) -> None:
    """Read a file through; raise ModelFolderError where it is not the one of the manifest."""
    try:
        found = fingerprint(file, watch)
    except OSError:
        raise ModelFolderError(f"{name} cannot be read.") from None
    require_said(found == entry, name, "checksum")


def require_said(condition: bool, file: str, what: str) -> None:
    """Raise ModelFolderError where a file is not what the manifest says of it."""
    if not condition:
        raise ModelFolderError(f"{file} has another {what} than manifest.json says.")
