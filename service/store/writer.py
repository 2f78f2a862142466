"""Writing a model folder: the only place that does. It appears whole, or not at all."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors.numpy import save as save_tensors

from service.engine.arrays import Floats
from service.engine.layer import Layer
from service.errors import ModelFolderError
from service.store.folder import MANIFEST, manifest_problem, read_model
from service.store.manifest import ATTENTION, VECTORS, VOCABULARY, FileEntry, Manifest
from service.store.weights import entry_of, tensors_of


def write_model(
    folder: Path,
    words: Sequence[str],
    vectors: Floats,
    layers: Sequence[Layer] = (Layer(),),
    word_bias: Floats | None = None,
    **facts: Any,
) -> Manifest:
    """Write a model folder and read it back; return its manifest.

    vectors [V, d] are kept in their dtype, float16 or float32; `facts` are the manifest's fields
    that do not follow from the arrays (`cased`, `languages`, `licence`, `source`, `training`,
    `quality`). A folder of that name is moved aside and goes when the new one stands. Raises
    ModelFolderError where what was written would not be accepted by `read_model`; then nothing is
    left behind.
    """
    if vectors.ndim != 2 or not vectors.size:  # noqa: PLR2004 - [V, d]
        raise ModelFolderError("the vectors are not a table of one row for each word.")
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError("a file stands where the model's folder would be.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder.parent) as parent:
        part = Path(parent) / folder.name
        part.mkdir()
        _write_vocabulary(part / VOCABULARY, words)
        np.save(part / VECTORS, np.ascontiguousarray(vectors), allow_pickle=False)
        shapes = _write_tensors(part / ATTENTION, layers, word_bias)
        manifest = _manifest(part, vectors, layers, shapes, facts)
        document = json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False) + "\n"
        (part / MANIFEST).write_text(document, encoding="utf-8")
        if not _same(list(read_model(part).layers), [one.astype(np.float32) for one in layers]):
            raise ModelFolderError("the format cannot hold these layers: they came back changed.")
        _put(part, folder)
    return manifest


def _manifest(
    part: Path,
    vectors: Floats,
    layers: Sequence[Layer],
    shapes: dict[str, list[int]],
    facts: dict[str, Any],
) -> Manifest:
    try:
        return Manifest(
            name=part.name,
            dimension=vectors.shape[1],
            vocabulary_size=vectors.shape[0],
            dtype=vectors.dtype.name,
            heads=layers[0].heads,
            layers=[entry_of(layer) for layer in layers],
            tensors=shapes,
            files={file.name: _entry(file) for file in sorted(part.iterdir())},
            **facts,
        )
    except ValidationError as error:
        raise ModelFolderError(manifest_problem(error)) from None


def _same(a: Any, b: Any) -> bool:
    """Whether two trees of dataclasses, lists and arrays are equal."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if is_dataclass(a) and type(a) is type(b):
        return all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)


def _write_vocabulary(path: Path, words: Sequence[str]) -> None:
    try:
        path.write_bytes("".join(f"{word}\n" for word in words).encode())
    except UnicodeEncodeError:
        raise ModelFolderError("a word is not valid Unicode.") from None


def _write_tensors(
    path: Path, layers: Sequence[Layer], word_bias: Floats | None
) -> dict[str, list[int]]:
    """Write the tensors, if there are any; return their shapes.

    safetensors writes the wrong numbers for an array that is not C-contiguous.
    """
    tensors = {
        name: np.ascontiguousarray(tensor, np.float32)
        for name, tensor in tensors_of(list(layers), word_bias).items()
    }
    if tensors:
        path.write_bytes(save_tensors(tensors))
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def _entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return FileEntry(sha256=digest, bytes=path.stat().st_size)


def _put(part: Path, folder: Path) -> None:
    """Move a finished folder to its place; what was there goes only when the new one stands."""
    old = part.parent / "replaced"
    if folder.exists():
        folder.rename(old)
    try:
        part.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
