"""The files of prometheus_client's multiprocess mode, in which each process counts.

Their pages are allocated before they are written, so that a full folder costs metrics and no
worker. The files of processes that have exited are merged, so that reloads do not fill the folder.
"""

import fcntl
import logging
import mmap
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import mark_process_dead

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_ENTRY = 28
"""Maximum size of an entry without its key, in bytes: length, padding, value and timestamp."""
_ATTEMPTS, _PAUSE = 20, 0.01
"""Number of attempts to merge while metrics are read, and seconds between two of them."""
_log = logging.getLogger("polyseme")


class AllocatedFile(MmapedDict):
    """A file of metrics that is allocated before it is written. Raises OSError without space.

    Writing to a page of a memory-mapped file that is not allocated ends the process with SIGBUS if
    the file system is full.
    """

    def __init__(self, filename: str) -> None:
        """Open a file, or create it with one page of zeros."""
        if not Path(filename).exists():
            # A reader finds no file or a whole one.
            new = Path(f"{filename}.new")
            try:
                with new.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, mmap.PAGESIZE)
                new.replace(filename)
            except OSError:
                new.unlink(missing_ok=True)
                raise
        super().__init__(filename)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        size = capacity = self._capacity
        while self._used + len(key.encode()) + _ENTRY > size:
            size *= 2
        if size > capacity:
            self._allocate(size)
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def _allocate(self, size: int) -> None:
        file: Any = self._f
        os.posix_fallocate(file.fileno(), 0, size)


class CountingFile(AllocatedFile):
    """A file in which this process counts; without space, it counts in memory that nobody reads."""

    full = False
    """whether a file could not be allocated since the last warning"""

    def __init__(self, filename: str) -> None:
        """Open or create a file."""
        try:
            super().__init__(filename)
        except OSError:
            self._count_in_memory(b"")

    def _allocate(self, size: int) -> None:
        try:
            super()._allocate(size)
        except OSError:
            file, content = self._f, self._m
            self._count_in_memory(content[:])
            file.close()

    def _count_in_memory(self, content: bytes) -> None:
        memory = os.memfd_create("polyseme-metrics")
        os.write(memory, content)
        MmapedDict.__init__(self, memory)  # type: ignore[no-untyped-call]
        CountingFile.full = True


def count_in_allocated_files() -> None:
    """Make prometheus_client use `CountingFile`, before the first metric is defined."""
    values.MmapedDict = CountingFile  # type: ignore[attr-defined, assignment]


def warn_if_full() -> None:
    """Log a warning if a file could not be allocated since the last call."""
    if CountingFile.full:
        CountingFile.full = False
        _log.warning(
            "polyseme: the folder of the metrics is full. This worker counts incompletely until it"
            " is replaced; free space, or set %s to another folder.",
            DIRECTORY,
        )


@contextmanager
def reading(directory: str) -> Iterator[None]:
    """Keep files from being merged, so that no sample is missing or counted twice."""
    with _locked(directory, fcntl.LOCK_SH):
        yield


def remove_dead(dead: int, live: Collection[int]) -> None:
    """Remove the gauges of a process that has exited, and merge the counts of all but `live`.

    The counts stay in separate files if metrics are being read at this moment or a file system is
    full; the next call merges them.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    with suppress(OSError):
        mark_process_dead(dead, directory)  # type: ignore[no-untyped-call]
        for _ in range(_ATTEMPTS):
            with suppress(BlockingIOError), _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _merge(Path(directory), live)
                return
            time.sleep(_PAUSE)


def remove_directory() -> None:
    """Remove the directory."""
    if directory := os.environ.get(DIRECTORY):
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _locked(directory: str, operation: int) -> Iterator[None]:
    with Path(directory, "lock").open("ab") as file:
        fcntl.flock(file, operation)
        yield


def _merge(directory: Path, live: Collection[int]) -> None:
    for kind in ("counter", "histogram"):
        merged = directory / f"{kind}_merged.db"
        for file in sorted(directory.glob(f"{kind}_[0-9]*.db")):
            if int(file.stem.partition("_")[2]) in live:
                continue
            if merged.exists():
                _add(file, merged)
                file.unlink()
            else:
                file.rename(merged)


def _add(file: Path, merged: Path) -> None:
    """Add the values of a file to those of another one, in place: this needs hardly any space."""
    found = [entry[:2] for entry in MmapedDict.read_all_values_from_file(file)]  # type: ignore[no-untyped-call]
    total = AllocatedFile(str(merged))
    try:
        for key, _ in found:
            total.read_value(key)  # type: ignore[no-untyped-call] # allocates new entries
        for key, value in found:
            total.write_value(key, total.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]
    finally:
        total.close()  # type: ignore[no-untyped-call]
