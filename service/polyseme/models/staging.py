"""Staging directories: a model folder appears, is replaced and disappears at once.

A writer creates a staging directory beside the model folders. Its name begins with `.writing-`:

    lock          a file that the writer has locked; the kernel unlocks it if the writer is killed
    new/NAME      the new folder until it is complete; after an exchange, the replaced folder
    old-N/NAME    the replaced folder, if the file system cannot exchange two folders
    old           a removed folder

Linux exchanges the new and the old folder in one step (`renameat2` with `RENAME_EXCHANGE`). File
systems without this, such as NFS, need two renames. If a writer is killed in between, `recover`
moves the old folder back.
"""

import ctypes
import errno
import fcntl
import itertools
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from polyseme.atomic_files import TEMPORARY_PREFIX, sync_folder
from polyseme.errors import ModelFolderError

NEW, OLD = "new", "old"
_LOCK = "lock"
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
"""The function of the C library; None outside Linux and in old libraries."""
_AT_FDCWD, _NOREPLACE, _EXCHANGE = -100, 1, 2
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""Errors of `renameat2` on kernels, file systems and in sandboxes without its flags."""


@contextmanager
def staging_directory(directory: Path) -> Iterator[Path]:
    """Create a staging directory in a directory of models; remove it at the end.

    First recovers from writers that were killed.
    """
    recover(directory, clean=True)
    while True:
        staging = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=directory))
        with suppress(FileNotFoundError):
            lock = _open_lock(staging)
            with suppress(OSError):  # without file locks, an abandoned folder is never removed
                fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:
                break
            os.close(lock)  # another writer removed the folder before it was locked
    try:
        yield staging
    finally:
        try:
            _restore(staging)
            _remove(staging)
        finally:
            os.close(lock)


def require_free(folder: Path, *, replace: bool) -> None:
    """Raise ModelFolderError for an existing file, and for an existing folder without `replace`.

    `stat` is called only once, because another writer may move the folder between two calls.
    """
    try:
        status = folder.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise ModelFolderError("the path of the model's folder is a file.")
    if not replace:
        raise ModelFolderError("a model of this name already exists.")


def move_into_place(new: Path, folder: Path, staging: Path, *, replace: bool) -> None:
    """Rename a finished folder, which replaces an existing one with `replace`.

    A rename never replaces a folder, so if another writer's folder appears or disappears in
    between, the rename fails and is retried.
    """
    for attempt in itertools.count(1):
        require_free(folder, replace=replace)
        try:
            if not (replace and os.path.lexists(folder)):
                rename_to_free_name(new, folder)
            elif not _rename(new, folder, _EXCHANGE):
                replaced = staging / f"{OLD}-{attempt:06}"
                replaced.mkdir()
                folder.rename(replaced / folder.name)
                rename_to_free_name(new, folder)
            break
        except FileExistsError:
            continue
        except FileNotFoundError:
            if not new.exists():
                raise
    sync_folder(folder.parent)


def rename_to_free_name(source: Path, target: Path) -> None:
    """Rename a folder; raise FileExistsError if the target exists.

    Without `renameat2`, an empty folder at the target is replaced.
    """
    if _rename(source, target, _NOREPLACE):
        return
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
            raise
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None


def _rename(source: Path, target: Path, flag: int) -> bool:
    """Rename with a flag of `renameat2`; return False if the system does not support it."""
    if _RENAMEAT2 is None:
        return False
    sys.audit("os.rename", str(source), str(target), -1, -1)  # as `os.rename` does
    paths = os.fsencode(source), os.fsencode(target)
    if _RENAMEAT2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(target))


def recover(directory: Path, *, clean: bool = False) -> None:
    """Restore the model folders that killed writers have moved away; `clean` removes other files.

    Staging directories of running writers are kept, as are those that this user cannot change.
    Only writers clean: on a file system whose locks are local to a machine, a service would remove
    the files of a writer on another machine.
    """
    with suppress(OSError):
        for staging in directory.glob(f"{TEMPORARY_PREFIX}*"):
            with suppress(OSError):  # it is locked, or this user cannot change it
                parts = {entry.name.partition("-")[0] for entry in staging.iterdir()}
                if not parts <= {_LOCK, NEW, OLD} or staging.is_symlink():
                    continue
                lock = _open_lock(staging)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _restore(staging)
                    if clean:
                        _remove(staging)
                finally:
                    os.close(lock)


def is_replacing(directory: Path) -> bool:
    """Return whether a folder is missing because it is between the two renames of a writer."""
    with suppress(OSError):
        for old in directory.glob(f"{TEMPORARY_PREFIX}*/{OLD}-*/*"):
            if not (directory / old.name).exists():
                return True
    return False


def _open_lock(staging: Path) -> int:
    return os.open(staging / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _restore(staging: Path) -> None:
    """Move the replaced folder back if the new one was not renamed and the name is free."""
    if any((staging / NEW).glob("*")):
        for old in sorted(staging.glob(f"{OLD}-*/*"), reverse=True):  # most recently moved first
            with suppress(OSError):
                rename_to_free_name(old, staging.parent / old.name)


def _remove(staging: Path) -> None:
    """Remove a staging directory.

    The new folder is removed first: if the removal is interrupted, no half of an old folder remains
    beside it, which `_restore` would move back.
    """
    shutil.rmtree(staging / NEW, ignore_errors=True)
    if not (staging / NEW).exists():
        shutil.rmtree(staging, ignore_errors=True)
