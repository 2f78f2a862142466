"""Polyseme: contextual word vectors from static ones, as a service."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from polyseme.client import AsyncClient, Client, LocalModel
    from polyseme.http import create_app
    from polyseme.senses.inventory import SenseInventory

__all__ = [
    "AsyncClient",
    "Client",
    "__version__",
    "create_app",
    "from_vectors",
    "load",
    "load_senses",
]
__version__ = "1.0.0"
_MODULES = {
    "AsyncClient": "polyseme.client.client",
    "Client": "polyseme.client.client",
    "create_app": "polyseme.http",
}
"""Imported on first use: `import polyseme` loads neither Flask nor httpx nor NumPy."""


def load(
    name: str | None = None,
    models_dir: str | Path | None = None,
    *,
    max_sentence_tokens: int | None = None,
) -> "LocalModel":
    """Load a local model into this process: `polyseme.load().encode(["the river bank"])`.

    `name` is a bundled model or a model in `models_dir`; None is the default model. `models_dir`
    defaults to POLYSEME_MODELS_DIR, or else to the user's models folder. A sentence of more than
    `max_sentence_tokens` tokens is rejected; the default is POLYSEME_MAX_SENTENCE_TOKENS, or 1024.
    Raises PolysemeError if the model cannot be read, ValueError if a setting is invalid or
    `models_dir` does not exist.
    """
    from polyseme.client.local import LocalModel

    folder = None if models_dir is None else Path(models_dir)
    return LocalModel.of(name, folder, max_sentence_tokens)


def from_vectors(
    vectors: Any,
    words: Iterable[str] | None = None,
    *,
    name: str = "own",
    texts: Iterable[str | Sequence[str]] | None = None,
    weights: str | Path | Literal[False] | None = None,
    subwords: bool | None = None,
    by_frequency: bool | None = None,
    limit: int | None = None,
    dtype: Literal["float32", "float16", "int8"] = "float32",
    progress: bool = False,
) -> "LocalModel":
    """Make a model of static vectors in memory, as `polyseme models import` makes it of a file.

    Parameters
    ----------
    vectors
        gensim's `KeyedVectors` or `FastTextKeyedVectors`, a mapping of words to vectors [d], or
        a matrix [V, d] of the vectors of `words`.
    name
        The name of the model; `save` stores it under another one.
    texts
        Texts, or lists of words, that tell the frequencies of words, and how senses are found; a
        random sample is used.
    weights
        A .safetensors file of attention weights, the name of bundled ones, or False for
        parameter-free attention; by default, the weights are computed in closed form.
    subwords
        Whether unknown words are composed of vectors of character n-grams; by default, if there are
        at least 1,000 words.
    by_frequency
        Whether the words are sorted by frequency; by default this is detected.
    limit
        The maximum number of words, the first ones.
    dtype
        The data type of the vectors; int8 has a scale for each row.
    progress
        Whether progress is written to standard error.

    Raises TypeError or ValueError for arguments that no model can have. The vectors are stored in a
    temporary file (TMPDIR) until the process ends.
    """
    from polyseme.client.local import LocalModel
    from polyseme.errors import ModelFolderError
    from polyseme.importing import ImportOptions, ImportProblem
    from polyseme.importing.importer import check_name, model_of_vectors
    from polyseme.importing.texts import TextSample
    from polyseme.importing.weights import weights_file
    from polyseme.terminal import SILENT, Progress

    try:
        check_name(name)
        options = ImportOptions(
            limit=limit,
            dtype=dtype,
            sorted=by_frequency,
            weights=weights_file(weights) if weights else None,
            attention=weights is not False,
            subwords=subwords,
            texts=None if texts is None else TextSample.of(texts),
        )
        shown = Progress() if progress else SILENT
        return LocalModel(model_of_vectors(vectors, words, options, name, shown))
    except ImportProblem as problem:
        arguments = {"sorted": "by_frequency", "convention": "weights"}
        hints = [f"`{arguments.get(option, option)}`" for option in problem.options]
        hint = f"; see the argument {' or '.join(hints)}." if hints else "."
        raise ValueError(str(problem).removesuffix(".") + hint) from None
    except ModelFolderError as error:
        raise ValueError(str(error)) from None


def load_senses(path: str | Path) -> "SenseInventory":
    """Read an inventory that `save` of a result of `senses` has written, for `apply` of a model.

    Raises OSError if the file cannot be read, InvalidError, a PolysemeError, if it is no inventory.
    """
    from polyseme.senses.inventory import load_inventory

    return load_inventory(path)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
