"""Polyseme: contextual word vectors from static ones, as a service."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyseme.api.app import create_app
    from polyseme.client import AsyncClient, Client, LocalModel

__all__ = ["AsyncClient", "Client", "__version__", "create_app", "load"]
__version__ = "0.1.0"
_MODULES = {
    "AsyncClient": "polyseme.client.async_client",
    "Client": "polyseme.client.client",
    "create_app": "polyseme.api.app",
}
"""Imported on first use: `import polyseme` loads neither Flask nor httpx nor NumPy."""


def load(name: str | None = None, models_dir: str | Path | None = None) -> "LocalModel":
    """Load a local model into this process: `polyseme.load().encode(["the river bank"])`.

    `name` is a bundled model or a model in `models_dir`; None is the default model. `models_dir`
    defaults to POLYSEME_MODELS_DIR, or else to the user's models folder. Raises PolysemeError if
    the model cannot be read, ValueError if a setting is invalid or `models_dir` does not exist.
    """
    from polyseme.client.local import LocalModel  # noqa: PLC0415 - `import polyseme` stays cheap

    return LocalModel.of(name, None if models_dir is None else Path(models_dir))


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
