"""Polyseme: contextual word vectors from static ones, as a service."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyseme.client.local import LocalModel

__version__ = "0.1.0"


def load(name: str | None = None, models_dir: str | Path | None = None) -> "LocalModel":
    """Map a model of this machine into this process: `polyseme.load().encode(["the river bank"])`.

    One that is bundled, one of `models_dir`, or one of this user. Without a name it is the default
    model. Raises PolysemeError where it cannot be read.
    """
    from polyseme.client.local import LocalModel  # noqa: PLC0415 - to know the version is cheap

    return LocalModel.of(name, None if models_dir is None else Path(models_dir))
