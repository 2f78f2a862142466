"""Reading a model folder. Nothing in it is trusted before it is checked, nothing is unpickled."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import load as load_tensors

from polyseme.engine.layers import Layer
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.store.fingerprint import opened, require_checksum, require_said
from polyseme.store.manifest import (
    ATTENTION,
    INDEX,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    Manifest,
)
from polyseme.store.model import Model
from polyseme.store.table import read_rows
from polyseme.store.vocabulary import Vocabulary
from polyseme.store.weights import WORD_BIAS, layers_from

MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 1 << 20


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`; raise ModelFolderError where it is not one."""
    path = folder / MANIFEST
    try:
        if not path.is_file():
            raise FileNotFoundError
        if path.stat().st_size > _LARGEST_MANIFEST:
            raise ModelFolderError("manifest.json is larger than 1 MiB.")
        return Manifest.model_validate_json(path.read_bytes())
    except OSError:
        raise ModelFolderError("manifest.json cannot be read.") from None
    except ValidationError as error:
        raise ModelFolderError(manifest_problem(error)) from None


def manifest_problem(error: ValidationError) -> str:
    """One sentence on what is wrong with a manifest."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"manifest.json, {place or 'top'}: {first['msg']}."


def read_model(folder: Path, *, verify: bool = True) -> Model:
    """Read a model folder; words, index and vectors are mapped, not copied.

    `verify` also compares the checksum of each file, looks for numbers that no vector may have and
    for words that are there twice or that the index does not find, which reads every file once
    more. Raises ModelFolderError with one sentence on what is wrong.
    """
    manifest = read_manifest(folder)
    if manifest.name != folder.name:
        raise ModelFolderError("the folder's name is not the name in manifest.json.")
    vocabulary = _read_vocabulary(folder, manifest, verify=verify)
    rows = read_rows(folder, VECTORS, manifest, manifest.vocabulary_size, verify=verify)
    subwords = _read_subwords(folder, manifest, verify=verify)
    layers, word_bias = _read_attention(folder, manifest, verify=verify)
    return Model(manifest, vocabulary, rows, layers, word_bias, subwords)


def _read_vocabulary(folder: Path, manifest: Manifest, *, verify: bool) -> Vocabulary:
    with ExitStack() as stack:
        files = {}
        for name in (VOCABULARY, INDEX):
            if entry := manifest.files.get(name):
                files[name] = stack.enter_context(opened(folder / name, entry))
                if verify:
                    require_checksum(files[name], name, entry)
        size = manifest.vocabulary_size
        return Vocabulary.read(files[VOCABULARY], files.get(INDEX), size, verify=verify)


def _read_subwords(folder: Path, manifest: Manifest, *, verify: bool) -> Subwords | None:
    lengths = manifest.subwords
    if lengths is None:
        return None
    table = read_rows(folder, SUBWORDS, manifest, None, verify=verify)
    return Subwords(table, lengths.min_n, lengths.max_n)


def _read_attention(
    folder: Path, manifest: Manifest, *, verify: bool
) -> tuple[list[Layer], NDArray[np.float32] | None]:
    tensors = _read_tensors(folder, manifest, verify=verify)
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    require_said(shapes == manifest.tensors, ATTENTION, "set of tensors")
    layers = layers_from(tensors, manifest.layers, manifest.heads, manifest.dimension)
    word_bias = tensors.get(WORD_BIAS)
    if word_bias is None and any(entry.word_bias for entry in manifest.layers):
        raise ModelFolderError("manifest.json asks for the tensor word_bias, which is not there.")
    if word_bias is not None:
        fits = word_bias.shape == (manifest.vocabulary_size,)
        require_said(fits, ATTENTION, "shape of word_bias")
    return layers, word_bias


def _read_tensors(
    folder: Path, manifest: Manifest, *, verify: bool
) -> dict[str, NDArray[np.float32]]:
    entry = manifest.files.get(ATTENTION)
    if entry is None:
        return {}
    try:
        with opened(folder / ATTENTION, entry) as file:
            if verify:
                require_checksum(file, ATTENTION, entry)
            file.seek(0)
            tensors = load_tensors(file.read())
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ModelFolderError(f"{ATTENTION} is not a safetensors file.") from None
    for name, tensor in tensors.items():
        if tensor.dtype != np.float32:
            raise ModelFolderError(f"{ATTENTION}, {name}: the dtype is not float32.")
        if not np.isfinite(tensor).all():
            raise ModelFolderError(f"{ATTENTION}, {name}: not finite.")
    return tensors
