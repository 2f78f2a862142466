"""One model folder of a service: the model that was read from it, and what is wrong with it."""

import stat
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from polyseme.errors import ModelFolderError
from polyseme.store.folder import MANIFEST, read_manifest, read_model
from polyseme.store.manifest import Manifest
from polyseme.store.model import Model

MOMENTS, MOMENT = 5, 0.05
"""How often a folder that is away is looked for, and the seconds between: one that is replaced is
away between two renames."""
_TIMES_READ = 5
_NO_MANIFEST = "manifest.json cannot be read."
_STALE = "the folder was changed, and the model read before answers: "


class Mark(NamedTuple):
    """What tells a changed folder from an unchanged one: where its manifest is, and its state."""

    folder: Path
    inode: int
    modified_ns: int
    bytes: int


class State(NamedTuple):
    """How a model stands, without loading it."""

    status: Literal["loaded", "unloaded", "broken"]
    problem: str | None
    """one sentence; a loaded model has one where its folder was changed into a broken one"""
    manifest: Manifest | None = None
    """of the model that answers or would answer; none of a broken one"""
    created: int = 0
    """seconds since 1970"""


class _File(NamedTuple):
    """What tells a file that was replaced or written over from the one that was read."""

    device: int
    inode: int
    bytes: int
    modified_ns: int


_Files: TypeAlias = Mapping[str, _File | None]
"""The files of a model by name; None for one that is away."""


class _Held(NamedTuple):
    """What was read at last: a model, or why there is none, or neither before the first use."""

    mark: Mark | None = None
    model: Model | None = None
    problem: str | None = None
    files: _Files = MappingProxyType({})


_UNREAD = _Held()


class Slot:
    """A model folder, read at its first use.

    What it holds is one tuple that is swapped whole, so that whoever reads it needs no lock; the
    lock is held by whoever reads the folder.
    """

    def __init__(self, folder: Path, *, verify: bool) -> None:
        self.folder = folder
        self._verify = verify
        self._lock = threading.Lock()
        self._held = _UNREAD
        self._seen: tuple[Mark, Manifest] | None = None

    def model(self) -> Model:
        """The model; raise ModelFolderError. A broken folder is not read for every request."""
        held = self._held
        if held is _UNREAD:
            with self._lock:
                if self._held is _UNREAD:
                    self._held = self._read()
                held = self._held
        if held.model is None:
            raise ModelFolderError(held.problem)
        return held.model

    def manifest(self) -> Manifest:
        """What the model says of itself; raise ModelFolderError.

        A model that was found broken when it was read is so here too, whatever it says.
        """
        held = self._held
        if held.model is not None:
            return held.model.manifest
        if held.problem is not None:
            raise ModelFolderError(held.problem)
        return self._manifest(_mark(self.folder))

    def state(self) -> State:
        """How the model stands. One that was not read yet is looked at: its files are measured."""
        held = self._held
        if held.model is not None:
            return State("loaded", held.problem, held.model.manifest, _created(held.mark))
        if held.problem is not None:
            return State("broken", held.problem)
        mark = _mark(self.folder)
        try:
            manifest = self._manifest(mark)
            _require_files(self.folder, manifest)
        except ModelFolderError as error:
            return State("broken", error.sentence)
        return State("unloaded", None, manifest, _created(mark))

    def refresh(self, folder: Path) -> None:
        """Read the model anew where its folder has changed, or was broken.

        The model read before answers until then, and goes on where the folder is broken now. But
        not where one of its files was written over in place: it is mapped, so that what was checked
        is not there any more, and to read what was cut off would end the process.
        """
        with self._lock:
            self.folder = folder
            held = self._held
            if held is _UNREAD:
                return
            files = _files(folder, held.files)
            if held.model is not None and held.mark == _mark(folder) and held.files == files:
                self._held = held._replace(problem=None)
                return
            read = self._read()
            if read.model is None and held.model is not None and not _written_over(held, files):
                read = held._replace(problem=f"{_STALE}{read.problem}")
            self._held = read

    def _read(self) -> _Held:
        """Read the folder, again where it was replaced meanwhile: files of two must not mix."""
        for _ in range(_TIMES_READ):
            mark = _mark_soon(self.folder)
            held = self._read_once(mark)
            if mark == _mark(self.folder):
                return held
        return _Held(problem="the folder does not stop changing while it is read.")

    def _read_once(self, mark: Mark | None) -> _Held:
        if mark is None:
            return _Held(problem=_NO_MANIFEST)
        try:
            # Before they are read: what changes from now on is seen the next time.
            files = _files(self.folder, self._manifest(mark).files)
            return _Held(mark, read_model(self.folder, verify=self._verify), files=files)
        except ModelFolderError as error:
            return _Held(problem=error.sentence)
        except (OSError, MemoryError):
            return _Held(problem="its files cannot be read, or do not fit into memory.")

    def _manifest(self, mark: Mark | None) -> Manifest:
        """The manifest, parsed again only where it has changed: probes ask for it all the time."""
        seen = self._seen
        if mark is None:
            raise ModelFolderError(_NO_MANIFEST)
        if seen is None or seen[0] != mark:
            self._seen = seen = mark, read_manifest(self.folder)
        return seen[1]


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, as far as this user can see."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _mark(folder: Path) -> Mark | None:
    """The mark of a folder; none where its manifest is not a file, such as a pipe."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Mark(folder, found.st_ino, found.st_mtime_ns, found.st_size)


def _mark_soon(folder: Path) -> Mark | None:
    """The mark of a folder that may be away for a moment."""
    for _ in range(MOMENTS):
        if is_folder(folder):
            break
        time.sleep(MOMENT)
    return _mark(folder)


def _files(folder: Path, names: Iterable[str]) -> _Files:
    """The files of a folder as they are."""
    return {name: _file(folder / name) for name in names}


def _file(path: Path) -> _File | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _File(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _written_over(held: _Held, files: _Files) -> bool:
    """Whether a file that was read has other content: it, and not another that has its name now."""
    return any(
        now is not None and old is not None and now[:2] == old[:2] and now != old
        for old, now in ((held.files[name], files[name]) for name in held.files)
    )


def _created(mark: Mark | None) -> int:
    return mark.modified_ns // 10**9 if mark else 0


def _require_files(folder: Path, manifest: Manifest) -> None:
    """Raise ModelFolderError where a file that the manifest names is missing or of another size."""
    if manifest.name != folder.name:
        raise ModelFolderError("the folder's name is not the name in manifest.json.")
    for name, entry in manifest.files.items():
        try:
            found = (folder / name).stat()
        except OSError:
            raise ModelFolderError(f"{name} cannot be read.") from None
        if not stat.S_ISREG(found.st_mode) or found.st_size != entry.bytes:
            raise ModelFolderError(f"{name} has another number of bytes than manifest.json says.")
