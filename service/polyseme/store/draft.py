"""A draft: the hidden folder beside a model's place in which it is written, until it stands.

Its writer holds a lock on a file in it; the kernel lets go of the lock when the writer ends,
however it ends. So the next writer knows the drafts of the dead from those of the living.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from polyseme.atomic_files import TEMPORARY_PREFIX

_LOCK, _NEW, _OLD = "lock", "new", "old"


class Draft:
    """A folder `new`, for what is written, and folders `old-…` for what it takes the place of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moved = 0
        self.new = folder / _NEW
        self.new.mkdir()

    def move_aside(self, folder: Path) -> None:
        """Move a folder into the draft, where there is one."""
        self._moved += 1
        aside = self._folder / f"{_OLD}-{self._moved:06}"
        aside.mkdir()
        with suppress(FileNotFoundError):
            folder.rename(aside / folder.name)


@contextmanager
def draft(place: Path) -> Iterator[Draft]:
    """A draft in a folder of models; it is gone afterwards, and so are those of dead writers.

    What was moved aside for a new one that never came is put back.
    """
    for left in place.glob(f"{TEMPORARY_PREFIX}*"):
        _clear(place, left)
    folder, lock = _locked_folder(place)
    try:
        yield Draft(folder)
    finally:
        _put_back(place, folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(place: Path) -> tuple[Path, int]:
    """A new folder with its lock held. It is made again where it was cleared before it had one."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=place))
        with suppress(FileNotFoundError):
            lock = _open_lock(folder)
            with suppress(OSError):  # on a file system without locks nobody clears what is left
                fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:
                return folder, lock
            os.close(lock)


def _open_lock(folder: Path) -> int:
    return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _clear(place: Path, folder: Path) -> None:
    """Remove a draft whose writer is dead; leave one that is locked, or that is another's."""
    try:
        if not _is_draft(folder):
            return
        lock = _open_lock(folder)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _put_back(place, folder)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


def _is_draft(folder: Path) -> bool:
    """Whether a folder holds what a draft holds, however early its writer died."""
    kinds = {entry.name.partition("-")[0] for entry in folder.iterdir()}
    return kinds <= {_LOCK, _NEW, _OLD} and not folder.is_symlink()


def _put_back(place: Path, draft: Path) -> None:
    """Move what was put aside back to its place, unless the new one or another has taken that."""
    if not any((draft / _NEW).glob("*")):
        return
    for old in sorted(draft.glob(f"{_OLD}-*/*"), reverse=True):  # the last one that stood there
        with suppress(OSError):
            if not (place / old.name).exists():
                old.rename(place / old.name)
