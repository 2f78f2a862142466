"""The registry of models, which are loaded at their first use."""

import logging
import math
import re
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models.manifest import MANIFEST, NAME_PATTERN, TABLES, FileName, Manifest
from polyseme.models.model import Model
from polyseme.models.reader import (
    INVALID_NAME,
    NO_MANIFEST,
    base_folder,
    bundled_models,
    read_manifest,
    read_model,
    require_agreement,
)
from polyseme.models.staging import is_replacing, recover

_log = logging.getLogger("polyseme")
_RETRIES, _PAUSE = 5, 0.05
"""Number of attempts to find a missing folder, and the seconds after each.

On some file systems, a writer replaces a folder with two renames; in between, it is missing."""
_MAX_READS = 5
_CHECK_SECONDS = 2.0
"""Minimum seconds between two checks by `Registry.check`."""
_THREAD = "polyseme-models"


class FileVersion(NamedTuple):
    """The identity of a file, which changes if the file is replaced or overwritten."""

    device: int
    inode: int
    bytes: int
    modified_ns: int


FolderVersion: TypeAlias = Mapping[str, FileVersion | None]
"""The version of each possible file of a model or of its base, None for a missing one."""
Versions: TypeAlias = Mapping[str, tuple[Path, FolderVersion]]
"""The folder of each model, and its version."""


class ModelStatus(NamedTuple):
    """The status of a model, known without loading it."""

    status: Literal["loaded", "unloaded", "broken"]
    problem: str | None
    """why the folder is broken; also set for a loaded model whose folder is broken by now"""
    manifest: Manifest | None = None
    """None if the model is broken"""
    created: int = 0
    """seconds since 1970"""


class Registry:
    """The models of some directories by name, each loaded at its first use.

    `refresh` finds new, changed and removed models. With `follow`, the registry finds them itself:
    it checks the directories whenever an unknown name is requested, and at most every
    `_CHECK_SECONDS` when a model is used or `check` is called. Threads may share a registry: a
    request for a known model waits neither for the loading of another model nor for a reload.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        default: str,
        *,
        verify: bool = True,
        preload: bool = False,
        follow: bool = False,
    ) -> None:
        self.default = default
        self._directories = tuple(directories)
        self._changing = [folder for folder in self._directories if folder != bundled_models()]
        """without the bundled models, which do not change"""
        self._verify, self._preload, self._follow = verify, preload, follow
        self._refreshing = threading.Lock()
        self._next_check = time.monotonic() + _CHECK_SECONDS if follow else math.inf
        self._seen = self._versions()
        self._handles: Mapping[str, ModelHandle] = {}
        self._handles = {
            name: ModelHandle(folder, verify=verify) for name, folder in self._find_models().items()
        }

    @classmethod
    def of(cls, models_dir: Path | None, default: str, **options: bool) -> "Registry":
        """Return a registry of the bundled models and of `models_dir`, which takes precedence."""
        directories = [bundled_models(), *([models_dir] if models_dir else [])]
        return cls(directories, default, **options)

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._handles)

    def shadows(self, name: str) -> bool:
        """Return whether a model is used in place of a bundled one of the same name."""
        directories = {directory.resolve() for directory in self._directories}
        return sum(name in find_models([directory]) for directory in directories) > 1

    def folder(self, name: str) -> Path:
        """Return the folder of a model. The name is looked up, never used as a path."""
        return self._handle(name).folder

    def manifest(self, name: str) -> Manifest:
        """Return the manifest of a model; raise UnknownModelError or ModelFolderError."""
        return self._handle(name).manifest()

    def state(self, name: str) -> ModelStatus:
        """Return the status of a model without loading it; raise UnknownModelError."""
        return self._handle(name).status()

    def states(self) -> dict[str, ModelStatus]:
        """Return the status of each model by name, sorted."""
        return {name: handle.status() for name, handle in sorted(self._handles.items())}

    def model(self, name: str | None = None) -> Model:
        """Return a model (None: the default one); raise UnknownModelError or ModelFolderError."""
        return self._handle(self.default if name is None else name).model()

    def ready(self) -> bool:
        """Return whether the default model can be used."""
        try:
            self.model()
        except (ModelFolderError, UnknownModelError):
            return False
        return True

    def load(self) -> None:
        """Load the default model, or every model with `preload`; skip broken ones."""
        for name in self.names if self._preload else [self.default]:
            if handle := self._handles.get(name):
                with suppress(ModelFolderError):
                    handle.model()

    def refresh_if_changed(self) -> bool:
        """Refresh if a folder has changed since the last refresh; return whether one has.

        Does nothing in a registry that does not follow its directories, or if a directory cannot
        be read.
        """
        if not self._follow:
            return False
        try:
            with self._refreshing:
                before, now = self._seen, self._versions()
                if now == before:
                    return False
                self._refresh(now)
        except ModelFolderError:  # a directory cannot be read
            return False
        changed = sorted(n for n in now.keys() | before.keys() if now.get(n) != before.get(n))
        _log.info("polyseme: changed models: %s", ", ".join(changed))
        for name in changed:
            handle = self._handles.get(name)
            if handle and (problem := handle.status().problem):
                _log.warning("polyseme: %s: %s", name, problem)
        return True

    def check(self) -> None:
        """Call `refresh_if_changed` in a thread if the last check is `_CHECK_SECONDS` or more ago.

        The caller does not wait, because a file system may be slow and reading a model takes time.
        """
        if time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + _CHECK_SECONDS
            if not self._refreshing.locked():
                thread = threading.Thread(target=self.refresh_if_changed, name=_THREAD, daemon=True)
                with suppress(RuntimeError):  # the process may not start another thread
                    thread.start()

    def _versions(self) -> Versions:
        folders = find_models(self._changing)
        return {name: (folder, _folder_version(folder)) for name, folder in folders.items()}

    def refresh(self) -> None:
        """Find models that were added, changed, repaired or removed.

        A changed model stays in use until the new one is loaded. Raises ModelFolderError if a
        directory cannot be read; the registry is then unchanged.
        """
        with self._refreshing:
            self._refresh(self._versions())

    def _refresh(self, seen: Versions) -> None:
        folders = self._find_models()
        handles = {
            name: self._handles.get(name) or ModelHandle(folder, verify=self._verify)
            for name, folder in folders.items()
        }
        self._handles = handles
        for name, folder in folders.items():
            handles[name].refresh(folder)
        self.load()
        self._seen = seen  # the next check finds what has changed since

    def _find_models(self) -> dict[str, Path]:
        """Return the folders by name; retry while a folder is missing, which may be temporary.

        First restores folders that are missing because a writer was killed.
        """
        before = {handle.folder for handle in self._handles.values()}
        for _ in range(_RETRIES):
            for directory in self._changing:
                recover(directory)
            folders = find_models(self._directories)
            if before <= set(folders.values()) and not any(map(is_replacing, self._changing)):
                break
            time.sleep(_PAUSE)
        return folders

    def _handle(self, name: str) -> "ModelHandle":
        if time.monotonic() >= self._next_check:
            self.check()
        handle = self._handles.get(name)
        if handle is None:
            self.refresh_if_changed()
            handle = self._handles.get(name)
        if handle is None:
            known = [
                other
                for other, its_handle in sorted(self._handles.items())
                if file_version(its_handle.folder / MANIFEST)
            ]
            raise UnknownModelError(sorted(known, key=lambda other: other != self.default), name)
        return handle


def find_models(directories: Iterable[Path]) -> dict[str, Path]:
    """Return the model folders in some directories by name; later directories take precedence.

    A folder without a manifest is a broken model, except in the folder of the bundled models, which
    has other content in a checkout. Raises ModelFolderError if a directory cannot be read.
    """
    folders = {}
    for directory in filter(_is_folder, directories):
        bundled = directory == bundled_models()
        try:
            entries = sorted(directory.iterdir())
        except OSError:
            raise ModelFolderError("The folder of models cannot be read by this user.") from None
        for entry in entries:
            named = re.fullmatch(NAME_PATTERN, entry.name) is not None
            if named and _is_folder(entry) and (not bundled or (entry / MANIFEST).is_file()):
                folders[entry.name] = entry
    return folders


def unusable_entries(directory: Path) -> dict[str, str]:
    """Return the files and folders in a directory that cannot be models, and the reasons.

    Hidden entries are left out. The result is empty for the folder of the bundled models, which has
    other content in a checkout.
    """
    if not _is_folder(directory) or directory.resolve() == bundled_models().resolve():
        return {}
    models = find_models([directory])
    others = sorted(entry for entry in directory.iterdir() if entry.name not in models)
    not_a_folder = "it is not a folder; `polyseme models import` creates a model from a file."
    return {
        entry.name: INVALID_NAME if _is_folder(entry) else not_a_folder
        for entry in others
        if not entry.name.startswith(".")
    }


class LoadResult(NamedTuple):
    """The result of reading a folder: a model, or the problem of the folder.

    It has both after a failed reload: the previous model, and why the folder is broken now.
    """

    version: FolderVersion
    model: Model | None
    problem: str | None = None


class ModelHandle:
    """A model folder, and the model loaded from it at its first use.

    `_result` is replaced atomically and read without the lock; the lock serializes loading.
    """

    def __init__(self, folder: Path, *, verify: bool) -> None:
        self.folder = folder
        self._verify = verify
        self._lock = threading.Lock()
        self._result: LoadResult | None = None
        self._examined: tuple[FolderVersion, ModelStatus] | None = None

    def model(self) -> Model:
        """Return the model; raise ModelFolderError if it is broken.

        The model or its error is cached, so a broken folder is not read for each request.
        """
        loaded = self._result
        if loaded is None:
            with self._lock:
                loaded = self._result = self._result or self._read()
        if loaded.model is None:
            raise ModelFolderError(loaded.problem)
        return loaded.model

    def manifest(self) -> Manifest:
        """Return the manifest; raise ModelFolderError if the model is broken."""
        status = self.status()
        if status.manifest is None:
            raise ModelFolderError(status.problem)
        return status.manifest

    def status(self) -> ModelStatus:
        """Return the status; check the manifest and the file sizes of an unread folder."""
        loaded = self._result
        if loaded is not None and loaded.model is not None:
            manifest, created = loaded.model.manifest, _created(loaded.version)
            return ModelStatus("loaded", loaded.problem, manifest, created)
        if loaded is not None:
            return ModelStatus("broken", loaded.problem)
        version = _folder_version(self.folder)
        # Probes are frequent, so the manifest is parsed again only after a change.
        if self._examined is None or self._examined[0] != version:
            try:
                _require_file(version, MANIFEST)
                manifest = read_manifest(self.folder)
                base_folder(self.folder, manifest)
                for name, entry in manifest.files.items():
                    size = _require_file(version, name).bytes
                    require_agreement(size == entry.bytes, name, "number of bytes")
                status = ModelStatus("unloaded", None, manifest, _created(version))
            except ModelFolderError as error:
                status = ModelStatus("broken", error.detail)
            self._examined = version, status
        return self._examined[1]

    def refresh(self, folder: Path) -> None:
        """Reload the model if its folder has changed or was broken.

        The old model stays in use until the new one is loaded. If the new folder is broken, the old
        model also stays in use, unless one of its files was overwritten in place: the file is
        memory-mapped, and reading beyond the end of a truncated file would kill the process.
        """
        with self._lock:
            self.folder = folder
            old = self._result
            if old is None:
                return
            version = _folder_version(folder)
            if old.model is not None and old.version == version:
                self._result = old._replace(problem=None)
                return
            new = self._read()
            if new.model is None and old.model is not None:
                pairs = [(old.version[name], version[name]) for name in old.model.manifest.files]
                if not any(a and b and a[:2] == b[:2] and a != b for a, b in pairs):
                    before = "the folder has changed, and the previous model is in use"
                    new = old._replace(problem=f"{before}: {new.problem}")
            self._result = new

    def _read(self) -> LoadResult:
        """Read the folder; retry if it changes meanwhile, so that files of two models never mix."""
        for _ in range(_MAX_READS):
            for _ in range(_RETRIES):
                if _is_folder(self.folder):
                    break
                time.sleep(_PAUSE)
            version = _folder_version(self.folder)
            try:
                _require_file(version, MANIFEST)
                loaded = LoadResult(version, read_model(self.folder, verify=self._verify))
            except ModelFolderError as error:
                loaded = LoadResult(version, None, error.detail)
            except (OSError, MemoryError):
                problem = "the model's files cannot be read or do not fit into memory."
                loaded = LoadResult(version, None, problem)
            if version == _folder_version(self.folder):
                return loaded
        return LoadResult(version, None, "the folder kept changing while it was read.")


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder; False if this user may not access it."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _folder_version(folder: Path) -> FolderVersion:
    version = {name: file_version(folder / name) for name in (MANIFEST, *get_args(FileName))}
    if manifest := version[MANIFEST]:
        with suppress(ModelFolderError):
            if base := _base_of(folder, manifest):
                version |= {n: version[n] or file_version(base / n) for n in TABLES}
    return version


@lru_cache(1024)
def _base_of(folder: Path, _manifest: FileVersion) -> Path | None:
    """Return the folder of the base that a version of a manifest names, which may not exist."""
    name = read_manifest(folder).base
    return None if name is None else bundled_models() / name


def file_version(path: Path) -> FileVersion | None:
    """Return the version of a file, None if it is missing or not a regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileVersion(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _require_file(version: FolderVersion, name: str) -> FileVersion:
    """Return the version of a file; raise ModelFolderError if it is missing."""
    file = version[name]
    if file is None:
        raise ModelFolderError(NO_MANIFEST if name == MANIFEST else f"{name} cannot be read.")
    return file


def _created(version: FolderVersion) -> int:
    manifest = version[MANIFEST]
    return manifest.modified_ns // 10**9 if manifest else 0
