"""The models a service has, by name."""

import re
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from polyseme.errors import ModelFolderError, UnknownModelError
from polyseme.store.folder import MANIFEST
from polyseme.store.manifest import NAME_PATTERN, Manifest
from polyseme.store.model import Model
from polyseme.store.slot import MOMENT, MOMENTS, Slot, State, is_folder

_PACKAGE = Path(__file__).parent.parent


def bundled_models() -> Path:
    """The folder of the models that come with Polyseme: in the package, or in the checkout."""
    packaged = _PACKAGE / "bundled"
    return packaged if packaged.is_dir() else _PACKAGE.parents[1] / "models"


class Registry:
    """The model folders of some places by name, each read when it is first asked for and kept.

    `refresh` finds what has changed. Its threads share a registry: what one asks for never waits
    for another name, and never for a model that is read anew.
    """

    def __init__(
        self, places: Iterable[Path], default: str, *, verify: bool = True, preload: bool = False
    ) -> None:
        self.default = default
        self._places = tuple(places)
        self._verify, self._preload = verify, preload
        self._refreshing = threading.Lock()
        self._slots: Mapping[str, Slot] = self._arrange(find_models(self._places), {})

    @classmethod
    def of(
        cls, models_dir: Path | None, default: str, *, verify: bool = True, preload: bool = False
    ) -> "Registry":
        """The bundled models and those of a folder, which win where names are the same."""
        places = [bundled_models(), *([models_dir] if models_dir else [])]
        return cls(places, default, verify=verify, preload=preload)

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._slots)

    def folder(self, name: str) -> Path:
        """The folder of a model. The name is looked up, never made into a path."""
        return self._slot(name).folder

    def manifest(self, name: str) -> Manifest:
        """What a model says of itself; raise UnknownModelError or ModelFolderError."""
        return self._slot(name).manifest()

    def state(self, name: str) -> State:
        """How a model stands, without loading it; raise UnknownModelError."""
        return self._slot(name).state()

    def states(self) -> dict[str, State]:
        """How each model stands, by name, sorted."""
        return {name: slot.state() for name, slot in sorted(self._slots.items())}

    def model(self, name: str | None = None) -> Model:
        """A model, the default one where no name is given; raise as `manifest` does."""
        return self._slot(self.default if name is None else name).model()

    def ready(self) -> bool:
        """Whether the default model can answer."""
        try:
            self.model()
        except (ModelFolderError, UnknownModelError):
            return False
        return True

    def load(self) -> None:
        """Read the default model, or every one with `preload`, as far as they can be read."""
        for name in self.names if self._preload else [self.default]:
            with suppress(ModelFolderError, UnknownModelError):
                self.model(name)

    def refresh(self) -> None:
        """Find models that are new, changed, repaired or gone.

        A model that was read before and has changed answers as it was until the new one is read.
        Raises ModelFolderError where a place cannot be read; then nothing has changed.
        """
        with self._refreshing:
            folders = self._find()
            self._slots = self._arrange(folders, self._slots)
            for name, folder in folders.items():
                self._slots[name].refresh(folder)
            self.load()

    def _find(self) -> dict[str, Path]:
        """The folders there are. One that was there and is not is looked for again for a moment."""
        before = {slot.folder for slot in self._slots.values()}
        for _ in range(MOMENTS):
            folders = find_models(self._places)
            if before <= set(folders.values()):
                break
            time.sleep(MOMENT)
        return folders

    def _arrange(self, folders: Mapping[str, Path], old: Mapping[str, Slot]) -> dict[str, Slot]:
        """A slot for each folder, the one it had where it had one."""
        return {
            name: old.get(name) or Slot(folder, verify=self._verify)
            for name, folder in folders.items()
        }

    def _slot(self, name: str) -> Slot:
        slot = self._slots.get(name)
        if slot is None:
            raise UnknownModelError
        return slot


def find_models(places: Iterable[Path]) -> dict[str, Path]:
    """The model folders in some places by name; a later place wins.

    A folder that lacks a manifest is a broken model, but not in the bundled place, which is in a
    checkout also the place of scripts. Raises ModelFolderError where a place cannot be read.
    """
    found = {}
    for place in filter(is_folder, places):
        whole = place == bundled_models()
        for folder in _folders(place):
            if not whole or (folder / MANIFEST).is_file():
                found[folder.name] = folder
    return found


def _folders(place: Path) -> list[Path]:
    try:
        inside = sorted(place.iterdir())
    except OSError:
        raise ModelFolderError("The folder of models cannot be read by this user.") from None
    return [one for one in inside if re.fullmatch(NAME_PATTERN, one.name) and is_folder(one)]
