"""Reading a model folder: files are mapped, and no file is unpickled.

Tables are memory-mapped `.npy` files. Their header is matched with a regular expression, because
NumPy's reader parses a Python literal:
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import safetensors
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import load as load_tensors

from polyseme.engine import Flags
from polyseme.engine.layers import Layer, Projection
from polyseme.engine.quantization import LARGEST_SCALE, STEPS, QuantizedRows, Rows
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError, validation_message
from polyseme.models.manifest import (
    MANIFEST,
    NAME_PATTERN,
    SCALES_OF,
    FileName,
    Manifest,
    SubwordsEntry,
    TableDtype,
)
from polyseme.models.model import Model
from polyseme.models.vocabulary import Index, Vocabulary, map_file
from polyseme.models.weights import (
    WORD_BIAS,
    layers_from_tensors,
    projection_from_tensors,
    whitening_from_tensors,
)

NO_MANIFEST = "manifest.json is missing or cannot be read, so the folder is not a model."
INVALID_NAME = (
    "the folder's name is not a valid model name: at most 64 letters, digits, '.', '_' and '-', of"
    " which the first is a letter or digit."
)
_PACKAGE = Path(__file__).parent.parent
_MAX_MANIFEST_BYTES = 1 << 20
_VALUES_AT_ONCE = 1 << 16
_INVALID_TENSORS = (
    *(safetensors.SafetensorError, OSError),
    *(ValueError, KeyError, TypeError, AttributeError),
)
"""Errors that safetensors raises for arbitrary bytes."""
_INSTALL = "install the version of Polyseme that wrote the model, or train it again"
_IMPORT = "an earlier version of Polyseme wrote the model; import or train it again"
_MAX_HEADER_BYTES = 4096
_ALIGNMENT = 16
"""All versions of NumPy align the data to a multiple of this many bytes."""
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '([^']{1,16})', 'fortran_order': (True|False),"
    rb" 'shape': \((\d{1,12}),(?: (\d{1,12}))?\), \} *\n",
    re.DOTALL,
)


class ValueType(NamedTuple):
    """The dtype and the valid values of an array."""

    dtype: np.dtype[Any]
    is_valid: Callable[[NDArray[Any]], Flags]
    problem: str
    """the verb phrase of the error message "vectors.npy … in row 3." for an invalid value"""


VALUE_TYPES: Final[dict[TableDtype, ValueType]] = {
    "float16": ValueType(np.dtype("<f2"), np.isfinite, "is not finite"),
    "float32": ValueType(np.dtype("<f4"), np.isfinite, "is not finite"),
    "int8": ValueType(np.dtype("i1"), lambda values: values >= -STEPS, "has -128"),
}
SCALE: Final = ValueType(
    np.dtype("<f4"),
    lambda scales: (scales > 0) & (scales <= LARGEST_SCALE),
    "has a scale that is not positive or is too large",
)
HASH: Final = ValueType(np.dtype("<u4"), np.isfinite, "is not finite")


def bundled_models() -> Path:
    """Return the folder of the bundled models, in the package or in a checkout."""
    packaged = _PACKAGE / "bundled"
    return packaged if packaged.is_dir() else _PACKAGE.parents[1] / "models"


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


def base_folder(manifest: Manifest) -> Path | None:
    """Return the folder of the bundled model whose tables a model uses, None if it has its own.

    Raises ModelFolderError unless the manifest of the base lists these tables with the same
    checksums.
    """
    name = manifest.base
    if name is None:
        return None
    base = bundled_models() / name
    try:
        bundled = read_manifest(base)
    except ModelFolderError as error:
        if (base / MANIFEST).exists():
            raise ModelFolderError(f"its base {name}: {error.detail}") from None
        raise ModelFolderError(f"its base {name} is no bundled model; {_INSTALL}.") from None
    if bundled.base is not None:
        raise ModelFolderError(f"its base {name} has a base itself, which no base may have.")
    for file in filter(manifest.in_base, manifest.files):
        if bundled.files.get(file) != manifest.files[file]:
            has = f"with another {file}" if file in bundled.files else f"without {file}"
            raise ModelFolderError(f"its base {name} is another edition, {has}; {_INSTALL}.")
    return base


def read_model(folder: Path, *, verify: bool = False) -> Model:
    """Read a model folder; vocabulary, index and tables are memory-mapped, whatever their size.

    The sizes and headers of the files are checked. With `verify`, every file is read completely,
    those of the base as well: checksums are compared, values must be valid, and each word must
    occur once and be found by the index. Raises ModelFolderError if the folder is invalid.
    """
    while True:
        manifest = read_manifest(folder)
        try:
            return read_files(folder, manifest, verify=verify)
        except ModelFolderError:
            if read_manifest(folder) == manifest:
                raise
            # A writer has replaced the model meanwhile and removed its files.


def read_files(folder: Path, manifest: Manifest, *, verify: bool) -> Model:
    """Read the files that a manifest names, as `read_model` does."""
    base = base_folder(manifest)
    reader, tables = (_FolderReader(path, manifest, verify) for path in (folder, base or folder))
    try:
        vocabulary = tables.vocabulary()
        rows = tables.rows("vectors.npy", manifest.vocabulary_size)
        subwords = tables.subwords(manifest.subwords) if manifest.subwords else None
    except ModelFolderError as error:
        if base is None:
            raise
        raise ModelFolderError(f"its base {manifest.base}: {error.detail}") from None
    layers, word_bias, whitening = reader.attention()
    senses = None
    if "senses.safetensors" in manifest.files:
        senses = projection_from_tensors(reader.tensors("senses.safetensors"), manifest.dimension)
    return Model(manifest, vocabulary, rows, layers, word_bias, subwords, whitening, senses)


@dataclass(frozen=True)
class _FolderReader:
    """A reader of the files of a model."""

    folder: Path
    manifest: Manifest
    verify: bool

    def vocabulary(self) -> Vocabulary:
        with self.open("vocabulary.txt") as text, self.open("index.npy") as index:
            _, start = _read_header(index, self.manifest.stored_name("index.npy"), HASH.dtype, 1)
            values, words = np.frombuffer(map_file(index), "<u4", offset=start), map_file(text)
            size = self.manifest.vocabulary_size
            checked = Index.read(values, words, size, verify=self.verify)
            return Vocabulary(words, checked, self.manifest.languages)

    def rows(self, name: FileName, count: int | None) -> Rows:
        """Map a table of `count` rows (None: any), with the scales of int8 rows. -> [count, d]"""
        dtype = self.manifest.dtype_of(name)
        table = self.array(name, VALUE_TYPES[dtype], (count, self.manifest.dimension))
        if dtype != "int8":
            return table
        return QuantizedRows(table, self.array(SCALES_OF[name], SCALE, (len(table),)))

    def subwords(self, entry: SubwordsEntry) -> Subwords:
        subwords = Subwords(self.rows("subwords.npy", None), entry.min_n, entry.max_n)
        if entry.coverage is None:
            return subwords
        own_rows = bool(entry.own_rows)
        ngrams = self.array("ngrams.npy", HASH, (len(subwords.table) if own_rows else None,))
        if self.verify and not (ngrams[:-1] < ngrams[1:]).all():
            name = self.manifest.stored_name("ngrams.npy")
            raise ModelFolderError(f"{name} is not sorted, or has a number twice.")
        return replace(subwords, ngrams=ngrams, coverage=entry.coverage, own_rows=own_rows)

    def array(
        self, name: FileName, value_type: ValueType, shape: tuple[int | None, ...]
    ) -> NDArray[Any]:
        """Map an array; None in the shape stands for any size except 0.

        `verify` checks every value.
        """
        stored = self.manifest.stored_name(name)
        with self.open(name) as file:
            sizes, start = _read_header(file, stored, value_type.dtype, len(shape))
            fits = all(side in {None, size} for side, size in zip(shape, sizes, strict=True))
            require_agreement(fits and sizes[0] > 0, stored, "shape")
            if self.verify:
                file.seek(start)
                count = 0
                while len(values := np.fromfile(file, value_type.dtype, _VALUES_AT_ONCE)):
                    valid = value_type.is_valid(values)
                    if not valid.all():
                        row = (count + int(valid.argmin())) // math.prod(sizes[1:])
                        raise ModelFolderError(f"{stored} {value_type.problem} in row {row}.")
                    count += len(values)
            # Indexing a plain view is ten times as fast as indexing a memmap.
            return np.memmap(file, value_type.dtype, "r", start, sizes).view(np.ndarray)

    def attention(self) -> tuple[list[Layer], NDArray[np.float32] | None, Projection]:
        """Read the layers, the word bias and the whitening. -> L layers, [V], [d, d]"""
        manifest = self.manifest
        file: FileName = "attention.safetensors"
        tensors = self.tensors(file) if file in manifest.files else {}
        stored = manifest.stored_name(file) if file in manifest.files else file
        for name, tensor in tensors.items():
            if tensor.dtype != manifest.weights_dtype:
                expected = manifest.weights_dtype
                raise ModelFolderError(f"{stored}, {name}: the dtype is not {expected}.")
            if not np.isfinite(tensor).all():
                raise ModelFolderError(f"{stored}, {name}: a value is not finite.")
            tensors[name] = tensor.astype(np.float32, copy=False)
        shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
        require_agreement(shapes == manifest.tensors, stored, "set of tensors")
        layers = layers_from_tensors(tensors, manifest.layers, manifest.heads, manifest.dimension)
        word_bias = tensors.get(WORD_BIAS)
        if word_bias is None and any(layer.word_bias for layer in manifest.layers):
            raise ModelFolderError("manifest.json requires the tensor word_bias, which is missing.")
        if word_bias is not None:
            fits = word_bias.shape == (manifest.vocabulary_size,)
            require_agreement(fits, stored, "shape of word_bias")
        return layers, word_bias, whitening_from_tensors(tensors, manifest.dimension)

    def tensors(self, name: FileName) -> dict[str, NDArray[Any]]:
        try:
            with self.open(name) as file:
                return load_tensors(file.read())
        except _INVALID_TENSORS:
            stored = self.manifest.stored_name(name)
            raise ModelFolderError(f"{stored} is not a safetensors file.") from None

    @contextmanager
    def open(self, name: FileName) -> Iterator[BufferedReader]:
        """Open a file; raise ModelFolderError unless its size matches the manifest.

        `verify` also compares the checksum. Each file is opened once, so that the mapped file is
        the one that was checked. A pipe is not opened, because opening it blocks until the other
        end is opened.
        """
        stored = self.manifest.stored_name(name)
        path = self.folder / stored
        try:
            if not path.is_file():
                raise FileNotFoundError
            file = path.open("rb")
        except OSError:
            if (self.folder / name).exists():
                raise ModelFolderError(f"{name} has no checksum in its name: {_IMPORT}.") from None
            raise ModelFolderError(f"{stored} cannot be read.") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            require_agreement(size == self.manifest.files[name].bytes, stored, "number of bytes")
            if self.verify:
                try:
                    checksum = hashlib.file_digest(file, "sha256").hexdigest()
                except OSError:
                    raise ModelFolderError(f"{stored} cannot be read.") from None
                fits = checksum == self.manifest.files[name].sha256
                require_agreement(fits, stored, "checksum")
                file.seek(0)
            yield file


def _read_header(
    file: BufferedReader, name: str, dtype: np.dtype[Any], axes: int
) -> tuple[tuple[int, ...], int]:
    """Return the shape of an `.npy` file and the offset of its data.

    Raises ModelFolderError unless the file is a C-ordered array of this dtype.
    """
    match = _HEADER.match(file.read(_MAX_HEADER_BYTES))
    shape = tuple(int(side) for side in match.groups()[3:] if side) if match else ()
    end = match.end() if match else 0
    wrong_end = match and end != match.end(1) + int.from_bytes(match[1], "little")
    if not match or wrong_end or end % _ALIGNMENT or len(shape) != axes:
        raise ModelFolderError(f"{name} is not an array that can be memory-mapped.")
    if match[2].decode("latin1") != dtype.str:
        raise ModelFolderError(f"{name} does not have the dtype {dtype.name}.")
    if match[3] == b"True":
        raise ModelFolderError(f"{name} is not in C order.")
    size = end + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if os.fstat(file.fileno()).st_size != size:
        raise ModelFolderError(f"{name} has more or less data than its header declares.")
    return shape, end


def require_agreement(condition: bool, file: str, what: str) -> None:
    """Raise ModelFolderError unless a property of a file matches the manifest."""
    if not condition:
        raise ModelFolderError(f"{file}: the {what} differs from manifest.json.")
