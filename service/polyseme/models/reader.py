"""Reading a model folder: every file is checked before use, and no file is unpickled."""

import hashlib
import mmap
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import load as load_tensors

from polyseme.engine.layers import Layer, Projection
from polyseme.engine.quantization import QuantizedRows, Rows
from polyseme.engine.subwords import MAX_WORDS, Subwords
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import (
    ATTENTION,
    INDEX,
    MANIFEST,
    NAME_PATTERN,
    NGRAMS,
    SCALES_OF,
    SENSES,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    FileEntry,
    FileName,
    Manifest,
    SubwordsEntry,
)
from polyseme.models.model import Model
from polyseme.models.senses import ContextProjection, projection_from_tensors
from polyseme.models.vectors import (
    HASH,
    SCALE,
    VALUE_TYPES,
    InvalidValueFinder,
    ValueType,
    map_array,
    read_header,
)
from polyseme.models.vocabulary import Vocabulary
from polyseme.models.weights import WORD_BIAS, layers_from_tensors, whitening_from_tensors
from polyseme.validation import validation_message

ChunkObserver: TypeAlias = Callable[[int, memoryview], None]
"""A callback that receives the offset and content of each chunk of a file as it is read."""
NO_MANIFEST = "manifest.json is missing or cannot be read, so the folder is no model."
INVALID_NAME = (
    "the folder's name is not a valid model name: at most 64 letters, digits, '.', '_' and '-', of"
    " which the first is a letter or digit."
)
_MAX_MANIFEST_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 18


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`; raise ModelFolderError if it is invalid.

    The model's name is the folder's name, because a folder may be renamed.
    """
    name = folder.absolute().name
    if not re.fullmatch(NAME_PATTERN, name):
        raise ModelFolderError(INVALID_NAME)
    path = folder / MANIFEST
    try:
        if not path.is_file():
            raise FileNotFoundError
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise ModelFolderError("manifest.json is larger than 1 MiB.")
        manifest = Manifest.model_validate_json(path.read_bytes())
    except OSError:
        raise ModelFolderError(NO_MANIFEST) from None
    except ValidationError as error:
        raise ModelFolderError(manifest_problem(error)) from None
    return manifest.model_copy(update={"name": name})


def manifest_problem(error: ValidationError) -> str:
    """Return a message about the first problem of a manifest."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"manifest.json{', ' if field else ''}{field}: {validation_message(first)}."


def read_model(folder: Path, *, verify: bool = True) -> Model:
    """Read a model folder; vocabulary, index and vectors are memory-mapped, not copied.

    With `verify`, every file is read completely: checksums are compared, values must be valid, and
    each word must occur once and be found by the index. Raises ModelFolderError if the folder is
    invalid.
    """
    manifest = read_manifest(folder)
    vocabulary = _read_vocabulary(folder, manifest, verify=verify)
    rows = _read_rows(folder, VECTORS, manifest, manifest.vocabulary_size, verify=verify)
    subwords = None
    if manifest.subwords:
        subwords = _read_subwords(folder, manifest, manifest.subwords, vocabulary, verify=verify)
    layers, word_bias, whitening = _read_attention(folder, manifest, verify=verify)
    senses = _read_senses(folder, manifest, verify=verify)
    return Model(manifest, vocabulary, rows, layers, word_bias, subwords, whitening, senses)


def _read_vocabulary(folder: Path, manifest: Manifest, *, verify: bool) -> Vocabulary:
    with ExitStack() as stack:
        files = {}
        for name in (VOCABULARY, INDEX):
            if entry := manifest.files.get(name):
                files[name] = stack.enter_context(_open(folder / name, entry))
                if verify:
                    _verify_checksum(files[name], name, entry)
        size = manifest.vocabulary_size
        return Vocabulary.read(files[VOCABULARY], files.get(INDEX), size, verify=verify)


def _read_rows(
    folder: Path, name: FileName, manifest: Manifest, count: int | None, *, verify: bool
) -> Rows:
    """Map a table of `count` rows (None: any), with the scales of int8 rows. -> [count, d]"""
    shape = (count, manifest.dimension)
    dtype = manifest.dtype_of(name)
    value_type = VALUE_TYPES[dtype]
    table = _read_array(folder, name, manifest, value_type, shape, verify=verify)
    if dtype != "int8":
        return table
    scales = _read_array(folder, SCALES_OF[name], manifest, SCALE, (len(table),), verify=verify)
    return QuantizedRows(table, scales)


def _read_subwords(
    folder: Path,
    manifest: Manifest,
    entry: SubwordsEntry,
    vocabulary: Vocabulary,
    *,
    verify: bool,
) -> Subwords:
    """Read the subwords. A folder of an earlier version has no file of the known n-grams."""
    table = _read_rows(folder, SUBWORDS, manifest, None, verify=verify)
    subwords = Subwords(table, entry.min_n, entry.max_n)
    if entry.coverage is None:
        most = range(min(len(vocabulary), MAX_WORDS))
        return subwords.restricted([vocabulary.word(row) for row in most])
    shape = (len(table) if entry.own_rows else None,)
    ngrams = _read_array(folder, NGRAMS, manifest, HASH, shape, verify=verify)
    if verify and not (ngrams[:-1] < ngrams[1:]).all():
        raise ModelFolderError(f"{NGRAMS} is not sorted, or has a number twice.")
    return replace(subwords, ngrams=ngrams, coverage=entry.coverage, own_rows=bool(entry.own_rows))


def _read_array(
    folder: Path,
    name: FileName,
    manifest: Manifest,
    value_type: ValueType,
    shape: tuple[int | None, ...],
    *,
    verify: bool,
) -> NDArray[Any]:
    """Map an array; None in the shape stands for any size except 0.

    `verify` compares the checksum and checks every value in one pass.
    """
    entry = manifest.files[name]
    with _open(folder / name, entry) as file:
        header = read_header(file, name, value_type.dtype, len(shape))
        sizes = zip(shape, header.shape, strict=True)
        fits = all(size in {None, found} for size, found in sizes)
        require_agreement(fits and header.shape[0] > 0, name, "shape")
        if verify:
            finder = InvalidValueFinder(value_type, header)
            _verify_checksum(file, name, entry, finder)
            if finder.row is not None:
                raise ModelFolderError(f"{name} {value_type.problem} in row {finder.row}.")
        return map_array(file, value_type.dtype, header)


def _read_attention(
    folder: Path, manifest: Manifest, *, verify: bool
) -> tuple[list[Layer], NDArray[np.float32] | None, Projection]:
    """Read the layers, the word bias and the whitening. -> L layers, [V], [d, d]"""
    tensors = _read_tensors(folder, ATTENTION, manifest, verify=verify)
    for name, tensor in tensors.items():
        if tensor.dtype != np.float32:
            raise ModelFolderError(f"{ATTENTION}, {name}: the dtype is not float32.")
        if not np.isfinite(tensor).all():
            raise ModelFolderError(f"{ATTENTION}, {name}: a value is not finite.")
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    require_agreement(shapes == manifest.tensors, ATTENTION, "set of tensors")
    layers = layers_from_tensors(tensors, manifest.layers, manifest.heads, manifest.dimension)
    word_bias = tensors.get(WORD_BIAS)
    if word_bias is None and any(layer.word_bias for layer in manifest.layers):
        raise ModelFolderError("manifest.json requires the tensor word_bias, which is missing.")
    if word_bias is not None:
        fits = word_bias.shape == (manifest.vocabulary_size,)
        require_agreement(fits, ATTENTION, "shape of word_bias")
    return layers, word_bias, whitening_from_tensors(tensors, manifest.dimension)


def _read_senses(folder: Path, manifest: Manifest, *, verify: bool) -> ContextProjection | None:
    if SENSES not in manifest.files:
        return None
    tensors = _read_tensors(folder, SENSES, manifest, verify=verify)
    return projection_from_tensors(tensors, manifest.dimension)


def _read_tensors(
    folder: Path, name: FileName, manifest: Manifest, *, verify: bool
) -> dict[str, NDArray[Any]]:
    """Read a safetensors file; return no tensors if the manifest does not list it."""
    entry = manifest.files.get(name)
    if entry is None:
        return {}
    try:
        with _open(folder / name, entry) as file:
            if verify:
                _verify_checksum(file, name, entry)
            file.seek(0)
            return load_tensors(file.read())
    except (
        *(safetensors.SafetensorError, OSError),
        *(ValueError, KeyError, TypeError, AttributeError),
    ):
        raise ModelFolderError(f"{name} is not a safetensors file.") from None


def fingerprint(file: BufferedReader, observer: ChunkObserver | None = None) -> FileEntry:
    """Read a file from start to end; return its size and checksum.

    The buffer is mapped memory, which is returned to the operating system immediately; freed heap
    memory may stay in the process.
    """
    digest, size = hashlib.sha256(), 0
    file.seek(0)
    with mmap.mmap(-1, _CHUNK_BYTES) as buffer, memoryview(buffer) as view:
        while count := file.readinto(buffer):
            with view[:count] as chunk:
                digest.update(chunk)
                if observer is not None:
                    observer(size, chunk)
            size += count
    return FileEntry(sha256=digest.hexdigest(), bytes=size)


@contextmanager
def _open(path: Path, entry: FileEntry) -> Iterator[BufferedReader]:
    """Open a file; raise ModelFolderError unless its size matches the manifest.

    Each file is opened once, so that the mapped file is the one that was checked. A pipe is not
    opened, because opening it blocks until the other end is opened.
    """
    try:
        if not path.is_file():
            raise FileNotFoundError
        file = path.open("rb")
    except OSError:
        raise ModelFolderError(f"{path.name} cannot be read.") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        require_agreement(size == entry.bytes, path.name, "number of bytes")
        yield file


def _verify_checksum(
    file: BufferedReader, name: str, entry: FileEntry, observer: ChunkObserver | None = None
) -> None:
    """Read a file; raise ModelFolderError unless its checksum matches the manifest."""
    try:
        found = fingerprint(file, observer)
    except OSError:
        raise ModelFolderError(f"{name} cannot be read.") from None
    require_agreement(found == entry, name, "checksum")


def require_agreement(condition: bool, file: str, what: str) -> None:
    """Raise ModelFolderError unless a property of a file matches the manifest."""
    if not condition:
        raise ModelFolderError(f"{file}: the {what} differs from manifest.json.")
