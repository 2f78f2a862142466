"""The files in which all processes of the service count, so that any of them can tell the sum.

prometheus_client names them by process id, and each worker that is replaced would leave some
behind. Here a worker has a slot, the lowest that is free, and goes on with the files of whoever had
it before.

They are memory that is mapped. Where one has a hole and the disk is full, to count is SIGBUS, which
ends the process; so each gets all its room before it is used.
"""

import atexit
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

_log = logging.getLogger("polyseme")

MASTER = "master"
ROOM = {
    "counter": 20 << 16,
    "histogram": 1 << 18,
    "gauge_livesum": 1 << 16,
    "gauge_livemax": 1 << 16,
    "gauge_mostrecent": 1 << 16,
}
"""The files of a process and the bytes of each; a test fills them with all there can be."""
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "polyseme-metrics-"
_LOCK = "lock"
_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder is this user's alone


class Shares:
    """A folder of files, and who has which."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        """None: each process counts for itself"""
        self._slot = MASTER
        self._taken: dict[int, str] = {}
        self._lock = -1
        self._refused = False

    def open(self, slots: int) -> None:
        """Make a folder with room for a number of workers, before any metric is made."""
        for place in _places():
            with suppress(OSError):
                _sweep(place)
            try:
                self._open(place, slots)
            except OSError:
                self.close()
            else:
                break
        if self.folder is None:
            self._refused = True
            return
        os.environ[_VARIABLE] = str(self.folder)
        values.ValueClass = values.MultiProcessValue(lambda: self._slot)  # type: ignore[no-untyped-call]
        atexit.register(self._close_in, os.getpid())

    def _open(self, place: Path, slots: int) -> None:
        """Make the folder; under its own name only when it is locked, or it may be swept."""
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=place))
        self.folder = made
        self._lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.folder = made.rename(place / made.name[1:])
        for slot in (MASTER, *map(str, range(slots))):
            self._reserve(slot)

    def _reserve(self, slot: str) -> None:
        for kind, size in ROOM.items():
            handle = os.open(self._file(kind, slot), os.O_CREAT | os.O_RDWR, 0o600)
            try:
                os.posix_fallocate(handle, 0, size)
            finally:
                os.close(handle)

    def _file(self, kind: str, slot: str) -> Path:
        return (self.folder or Path()) / f"{kind}_{slot}.db"

    def _close_in(self, process: int) -> None:
        """Remove the folder with the process that made it; workers inherit what runs at exit."""
        if os.getpid() == process:
            self.close()

    def close(self) -> None:
        """Remove the folder."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # In the master

    def give(self, worker: Any) -> None:
        """Give a worker that is to be forked the lowest slot that is free."""
        if self._refused:
            self._refused = False
            _log.warning(
                "polyseme: no folder has room for the metrics that workers share;"
                " each of them counts for itself, and /metrics tells of one."
            )
        slot = next(one for one in map(str, count()) if one not in self._taken.values())
        self._taken[worker.age] = worker.slot = slot
        if self.folder is not None:
            try:
                self._reserve(slot)
            except OSError:
                _log.warning("polyseme: there is no room for the metrics of one more worker.")

    def free(self, worker: Any) -> None:
        """Take the slot of a worker that has ended back; what it had at the moment is nothing."""
        slot = self._taken.pop(worker.age, None)
        if slot is None or self.folder is None:
            return
        for kind in ("gauge_livesum", "gauge_livemax"):
            with suppress(OSError):
                file = MmapedDict(str(self._file(kind, slot)))  # type: ignore[no-untyped-call]
                for key, _, _ in list(file.read_all_values()):  # type: ignore[no-untyped-call]
                    file.write_value(key, 0.0, 0.0)  # type: ignore[no-untyped-call]
                file.close()  # type: ignore[no-untyped-call]

    # In a worker

    def take(self, worker: Any) -> None:
        """Count in the files of one's slot from now on."""
        self._slot = worker.slot


def _places() -> Iterator[Path]:
    """Where the folder may be: where who runs this says, in memory, on the disk."""
    if given := os.environ.get(_VARIABLE):
        yield Path(given)
    yield _MEMORY
    yield Path(tempfile.gettempdir())


def _sweep(place: Path) -> None:
    """Remove the folders of services that were killed: nobody holds their locks.

    One without a lock was being removed while a worker that began made files in it.
    """
    for folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            try:
                lock = os.open(folder / _LOCK, os.O_RDWR)
            except FileNotFoundError:
                shutil.rmtree(folder)
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


shares = Shares()
