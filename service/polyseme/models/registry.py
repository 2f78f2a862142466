"""The registry of models, which are mapped at their first use."""

import logging
import re
import stat
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.models.manifest import MANIFEST, NAME_PATTERN, Manifest
from polyseme.models.model import Model
from polyseme.models.reader import (
    base_folder,
    bundled_models,
    read_manifest,
    read_model,
    require_agreement,
)

_log = logging.getLogger("polyseme")


class FileVersion(NamedTuple):
    """The identity of a file, which changes if the file is replaced or overwritten."""

    device: int
    inode: int
    bytes: int
    modified_ns: int


class ModelStatus(NamedTuple):
    """The status of a model, known without loading it."""

    status: Literal["loaded", "unloaded", "broken"]
    problem: str | None
    """why the folder is broken; also set for a loaded model whose folder is broken by now"""
    manifest: Manifest | None = None
    """None if the model is broken"""
    created: int = 0
    """seconds since 1970"""


class LoadedModel(NamedTuple):
    """A model and the manifest that it was loaded from, or the problem of a folder.

    It has both after a failed reload: the previous model, and why the folder is broken now.
    """

    paths: Sequence[Path] = ()
    """manifests of the name, of which the first that exists takes precedence"""
    path: Path | None = None
    """the manifest"""
    version: FileVersion | None = None
    """that of the manifest"""
    model: Model | None = None
    problem: str | None = None


class Registry:
    """The models of some directories by name, each mapped at its first use.

    The directories are not watched: each request for a model compares the version of its manifest,
    and a name that is not loaded is searched in the directories. Threads may share a registry.
    """

    def __init__(self, directories: Iterable[Path], default: str, *, preload: bool = False) -> None:
        self.default = default
        self._directories = tuple(directories)
        self._preload = preload
        self._lock = threading.Lock()
        self._loaded: dict[str, LoadedModel] = {}

    @classmethod
    def of(cls, models_dir: Path | None, default: str, *, preload: bool = False) -> "Registry":
        """Return a registry of the bundled models and of `models_dir`, which takes precedence."""
        directories = [bundled_models(), *([models_dir] if models_dir else [])]
        return cls(directories, default, preload=preload)

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(find_models(self._directories))

    def folder(self, name: str) -> Path:
        """Return the folder of a model; raise UnknownModelError.

        The name is looked up, never used as a path.
        """
        folders = find_models(self._directories)
        if name not in folders:
            known = sorted(folders, key=lambda other: (other != self.default, other))
            raise UnknownModelError(known, name)
        return folders[name]

    def model(self, name: str | None = None) -> Model:
        """Return a model (None: the default one); raise UnknownModelError or ModelFolderError.

        A changed model is loaded again. If that is not possible, the one before stays in use.
        """
        loaded = self._current(self.default if name is None else name)
        if loaded.model is None:
            raise ModelFolderError(loaded.problem)
        return loaded.model

    def manifest(self, name: str) -> Manifest:
        """Return the manifest of a model; raise UnknownModelError or ModelFolderError."""
        status = self.state(name)
        if status.manifest is None:
            raise ModelFolderError(status.problem)
        return status.manifest

    def state(self, name: str) -> ModelStatus:
        """Return the status of a model without loading it; raise UnknownModelError."""
        return self._state(name, self.folder(name))

    def states(self) -> dict[str, ModelStatus]:
        """Return the status of each model by name, sorted."""
        folders = find_models(self._directories)
        for name in self._loaded.keys() - folders.keys():
            self._loaded.pop(name, None)
        return {name: self._state(name, folder) for name, folder in sorted(folders.items())}

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
            with suppress(ModelFolderError, UnknownModelError):
                self.model(name)

    def _current(self, name: str) -> LoadedModel:
        """Return a model that is loaded from the present folder, or with its present problem."""
        loaded = self._loaded.get(name)
        if loaded and not loaded.problem:
            present = ((path, version) for path in loaded.paths if (version := file_version(path)))
            if next(present, None) == (loaded.path, loaded.version):
                return loaded
        with self._lock:
            loaded = self._loaded[name] = self._load(name)
        return loaded

    def _load(self, name: str) -> LoadedModel:
        before = self._loaded.get(name)
        try:
            folder = self.folder(name)
            path = folder / MANIFEST
            version = file_version(path)
            if before and before.model and (before.path, before.version) == (path, version):
                return before._replace(problem=None)  # it is as before, or was just loaded
            model = read_model(folder)
        except UnknownModelError:
            self._loaded.pop(name, None)
            raise
        except (OSError, MemoryError):
            problem = "the model's files cannot be read or do not fit into memory."
        except ModelFolderError as error:
            problem = error.detail
        else:
            if before:
                _log.info("polyseme: changed model: %s", name)
            paths = [directory / name / MANIFEST for directory in reversed(self._directories)]
            return LoadedModel(paths, path, version, model)
        if before is None or before.problem != problem:
            _log.warning("polyseme: %s: %s", name, problem)
        return (before or LoadedModel())._replace(problem=problem)

    def _state(self, name: str, folder: Path) -> ModelStatus:
        loaded = self._current(name) if name in self._loaded else None
        if loaded and loaded.model is None:
            return ModelStatus("broken", loaded.problem)
        version = file_version(folder / MANIFEST)
        manifest, problem = None, loaded.problem if loaded else None
        try:
            manifest = _read_manifest(folder, version)
            _check_sizes(folder, manifest)
        except ModelFolderError as error:
            problem = error.detail
        if loaded and loaded.model:
            created = _created(loaded.version)
            return ModelStatus("loaded", problem, loaded.model.manifest, created)
        if problem:
            return ModelStatus("broken", problem)
        return ModelStatus("unloaded", None, manifest, _created(version))


def _check_sizes(folder: Path, manifest: Manifest) -> None:
    """Raise ModelFolderError unless each file is there and has its size."""
    base = base_folder(manifest)
    for name, entry in manifest.files.items():
        stored = manifest.stored_name(name)
        file = file_version((base if base and manifest.in_base(name) else folder) / stored)
        if file is None:
            raise ModelFolderError(f"{stored} cannot be read.")
        require_agreement(file.bytes == entry.bytes, stored, "number of bytes")


@lru_cache(256)
def _read_manifest(folder: Path, _version: FileVersion | None) -> Manifest:
    """Read a manifest again only after a change, because probes are frequent."""
    return read_manifest(folder)


def find_models(directories: Iterable[Path]) -> dict[str, Path]:
    """Return the model folders in some directories by name; later directories take precedence.

    Raises ModelFolderError if a directory cannot be read.
    """
    folders = {}
    for directory in filter(_is_folder, directories):
        try:
            entries = sorted(directory.iterdir())
        except OSError:
            raise ModelFolderError("The folder of models cannot be read by this user.") from None
        for entry in entries:
            if re.fullmatch(NAME_PATTERN, entry.name) and file_version(entry / MANIFEST):
                folders[entry.name] = entry
    return folders


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder; False if this user may not access it."""
    try:
        return path.is_dir()
    except OSError:
        return False


def file_version(path: Path) -> FileVersion | None:
    """Return the version of a file, None if it is missing or not a regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileVersion(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _created(version: FileVersion | None) -> int:
    return version.modified_ns // 10**9 if version else 0
