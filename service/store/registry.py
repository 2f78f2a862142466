"""The models a service has, by name."""

import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from service.errors import ModelFolderError, UnknownModelError
from service.store.folder import MANIFEST, read_manifest, read_model
from service.store.manifest import NAME_PATTERN, Manifest
from service.store.model import Model

_PACKAGE = Path(__file__).parent.parent


def bundled_models() -> Path:
    """The folder of the models that come with Polyseme: in the package, or in the checkout."""
    packaged = _PACKAGE / "bundled"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "models"


class Registry:
    """Model folders by name, each read when it is first asked for and kept."""

    def __init__(self, folders: Mapping[str, Path], default: str, *, verify: bool = True) -> None:
        self._folders = dict(folders)
        self._verify = verify
        self._models: dict[str, Model | ModelFolderError] = {}
        self._locks = {name: threading.Lock() for name in self._folders}
        self.default = default

    @classmethod
    def of(cls, models_dir: Path | None, default: str, *, verify: bool = True) -> "Registry":
        """The bundled models and those of a folder, which win where names are the same."""
        places = [bundled_models(), *([models_dir] if models_dir else [])]
        return cls(find_models(places), default, verify=verify)

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._folders)

    def manifest(self, name: str) -> Manifest:
        """What a model says of itself; raise UnknownModelError or ModelFolderError.

        A model that was found broken when it was loaded is so here too, whatever it says.
        """
        folder = self.folder(name)
        found = self._models.get(name)
        if isinstance(found, ModelFolderError):
            raise ModelFolderError(found.sentence)
        return read_manifest(folder)

    def folder(self, name: str) -> Path:
        """The folder of a model. The name is looked up, never made into a path."""
        if name not in self._folders:
            raise UnknownModelError
        return self._folders[name]

    def model(self, name: str | None = None) -> Model:
        """A model, the default one where no name is given; raise as `manifest` does."""
        name = self.default if name is None else name
        folder = self.folder(name)
        with self._locks[name]:
            if name not in self._models:
                self._models[name] = self._read(folder)
            found = self._models[name]
        if isinstance(found, ModelFolderError):
            raise ModelFolderError(found.sentence)
        return found

    def _read(self, folder: Path) -> Model | ModelFolderError:
        """A model, or why it is none: a broken folder is not read again for every request."""
        try:
            return read_model(folder, verify=self._verify)
        except ModelFolderError as error:
            return error

    def ready(self) -> bool:
        """Whether the default model can answer."""
        try:
            self.model()
        except (ModelFolderError, UnknownModelError):
            return False
        return True


def find_models(places: Iterable[Path]) -> dict[str, Path]:
    """The model folders in some places by name; a later place wins."""
    return {
        folder.name: folder
        for place in places
        if place.is_dir()
        for folder in sorted(place.iterdir())
        if re.fullmatch(NAME_PATTERN, folder.name) and (folder / MANIFEST).is_file()
    }
