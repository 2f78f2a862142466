"""Reading a model folder. Nothing in it is trusted before it is checked, nothing is unpickled."""

import hashlib
import re
from pathlib import Path

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import load as load_tensors

from service.engine.arrays import Floats
from service.engine.layer import Layer
from service.errors import ModelFolderError
from service.store.manifest import ATTENTION, VECTORS, VOCABULARY, Manifest
from service.store.model import Model
from service.store.vocabulary import Vocabulary
from service.store.weights import WORD_BIAS, layers_from

MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 1 << 20
_CHUNK = 8192

_LARGEST_HEADER = 4096
_MAGIC = b"\x93NUMPY\x01\x00"
# What NumPy writes before a table: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
_HEADER = re.compile(
    re.escape(_MAGIC) + rb"(..)\{'descr': '([^']{1,16})', 'fortran_order': (True|False),"
    rb" 'shape': \((\d{1,12}), (\d{1,12})\), \} *\n",
    re.DOTALL,
)


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`; raise ModelFolderError where it is not one."""
    path = folder / MANIFEST
    try:
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
    """Read a model folder; the vectors are mapped, not copied.

    `verify` also compares the checksum of each file and looks for NaN and infinity in the vectors,
    which reads the whole table once. Raises ModelFolderError with one sentence on what is wrong.
    """
    manifest = read_manifest(folder)
    if manifest.name != folder.name:
        raise ModelFolderError("the folder's name is not the name in manifest.json.")
    for name, entry in manifest.files.items():
        _check_file(folder / name, entry.bytes, entry.sha256 if verify else None)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    _require(len(vocabulary) == manifest.vocabulary_size, "vocabulary.txt", "number of words")
    vectors = _read_vectors(folder / VECTORS, manifest)
    if verify:
        _require_finite(vectors)
    layers, word_bias = _read_attention(folder, manifest)
    return Model(manifest, vocabulary, vectors, layers, word_bias)


def _check_file(path: Path, size: int, sha256: str | None) -> None:
    try:
        _require(path.stat().st_size == size, path.name, "number of bytes")
        if sha256 is not None:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            _require(digest == sha256, path.name, "checksum")
    except OSError:
        raise ModelFolderError(f"{path.name} cannot be read.") from None


def _require(condition: bool, file: str, what: str) -> None:
    if not condition:
        raise ModelFolderError(f"{file} has another {what} than manifest.json says.")


def _read_vectors(path: Path, manifest: Manifest) -> Floats:
    """Map the table. The header is matched, not evaluated as NumPy's reader does."""
    try:
        with path.open("rb") as file:
            header = _HEADER.match(file.read(_LARGEST_HEADER))
    except OSError:
        raise ModelFolderError("vectors.npy cannot be read.") from None
    if header is None or header.end() != len(_MAGIC) + 2 + int.from_bytes(header[1], "little"):
        raise ModelFolderError("vectors.npy is not an array that can be mapped.")
    dtype = np.dtype(manifest.dtype).newbyteorder("<")
    shape = (int(header[4]), int(header[5]))
    _require(header[2].decode() == dtype.str, path.name, "dtype")
    if header[3] == b"True":
        raise ModelFolderError("vectors.npy is not in C order.")
    _require(shape == (manifest.vocabulary_size, manifest.dimension), path.name, "shape")
    size = header.end() + shape[0] * shape[1] * dtype.itemsize
    _require(path.stat().st_size == size, path.name, "number of numbers")
    return np.memmap(path, dtype, "r", header.end(), shape)


def _require_finite(vectors: Floats) -> None:
    for start in range(0, len(vectors), _CHUNK):
        finite = np.isfinite(vectors[start : start + _CHUNK]).all(axis=1)
        if not finite.all():
            raise ModelFolderError(f"vectors.npy is not finite in row {start + finite.argmin()}.")


def _read_attention(
    folder: Path, manifest: Manifest
) -> tuple[list[Layer], NDArray[np.float32] | None]:
    tensors = _read_tensors(folder / ATTENTION) if ATTENTION in manifest.files else {}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    _require(shapes == manifest.tensors, ATTENTION, "set of tensors")
    layers = layers_from(tensors, manifest.layers, manifest.heads, manifest.dimension)
    word_bias = tensors.get(WORD_BIAS)
    if word_bias is None and any(entry.word_bias for entry in manifest.layers):
        raise ModelFolderError("manifest.json asks for the tensor word_bias, which is not there.")
    if word_bias is not None:
        _require(word_bias.shape == (manifest.vocabulary_size,), ATTENTION, "shape of word_bias")
    return layers, word_bias


def _read_tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    try:
        tensors = load_tensors(path.read_bytes())
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ModelFolderError(f"{path.name} is not a safetensors file.") from None
    for name, tensor in tensors.items():
        if tensor.dtype != np.float32:
            raise ModelFolderError(f"{path.name}, {name}: the dtype is not float32.")
        if not np.isfinite(tensor).all():
            raise ModelFolderError(f"{path.name}, {name}: not finite.")
    return tensors
