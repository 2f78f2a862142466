"""Writing model folders: a model appears or changes when its manifest is replaced.

The other files have names that contain their checksums, so a file never changes, and a reader of
the earlier manifest keeps the files that it has mapped. Files that the manifest does not name are
removed by the next writer. A lock of the folder lets one writer in at a time.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import save as save_tensors

from polyseme.atomic_files import TEMPORARY_PREFIX, atomic_files, atomic_write, sync_folder
from polyseme.engine import Floats
from polyseme.engine.layers import IDENTITY, Layer, Projection
from polyseme.engine.quantization import Rows, stored
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import (
    MANIFEST,
    NAME_PATTERN,
    SCALES_OF,
    FileEntry,
    FileName,
    Manifest,
    SubwordsEntry,
)
from polyseme.models.model import Model
from polyseme.models.reader import (
    INVALID_NAME,
    bundled_models,
    manifest_problem,
    read_files,
    read_manifest,
)
from polyseme.models.vocabulary import Index, map_file
from polyseme.models.weights import ContextProjection, layer_entry, tensors_from_layers

_BLOCK_ROWS = 4096
"""Rows of a table that are copied into C order at once."""
_GONE = "another command has removed or renamed the model."
_EXISTS = "a model of this name already exists."
_STEMS = "|".join(name.partition(".")[0] for name in get_args(FileName))
_WRITTEN = re.compile(
    rf"{re.escape(TEMPORARY_PREFIX)}[0-9a-f]{{16}}|(?:{_STEMS})-[0-9a-f]{{16}}\.[a-z]+"
)
"""The names of files that writers create."""


def write_model(
    folder: Path,
    words: Sequence[str],
    vectors: Rows,
    layers: Sequence[Layer] = (Layer(),),
    word_bias: Floats | None = None,
    *,
    subwords: Subwords | None = None,
    whitening: Projection = IDENTITY,
    senses: Callable[[Model], ContextProjection] | None = None,
    base: str | None = None,
    weights_dtype: Literal["float16", "float32"] = "float32",
    replace: bool = True,
    **details: Any,
) -> Manifest:
    """Write a model folder and check its files; return its manifest.

    `vectors` [V, d] and the table of `subwords` keep their dtypes: float16, float32, or int8 for
    quantized rows. `details` are the manifest fields that do not follow from the arrays: `cased`,
    `languages`, `licence`, `source`, `training` and `quality`.

    `senses` computes the content of `senses.safetensors` from the model that was written; without
    it, the model has no such file.

    If `base` is the name of a bundled model whose vocabulary, vectors and subwords are the same to
    the byte, the folder does not have them, and its manifest names the base.

    The tensors of the layers, `word_bias` and `whitening` are rounded to `weights_dtype`.

    With `replace`, an existing model is replaced. Raises ModelFolderError for an existing model
    without `replace`, for an existing file at the path, while another command writes the folder,
    and for arrays, words or layers that the format cannot represent; all new files are then
    removed.
    """
    if len(vectors.shape) != 2 or 0 in vectors.shape:
        raise ModelFolderError("the vectors are not a two-dimensional array, or it is empty.")
    if not layers:
        raise ModelFolderError("there are no layers.")
    with _writing(folder, replace=replace) as writer:
        try:
            with writer.create("vocabulary.txt") as file:
                file.writelines(f"{word}\n".encode() for word in words)
        except UnicodeEncodeError:
            raise ModelFolderError("a word is not valid Unicode.") from None
        with writer.path("vocabulary.txt").open("rb") as vocabulary:
            index = np.concatenate(Index.of(map_file(vocabulary)))
        writer.write_array("index.npy", index.astype("<u4", copy=False))
        writer.write_rows("vectors.npy", vectors)
        entry = None
        if subwords is not None:
            writer.write_rows("subwords.npy", subwords.table)
            if subwords.ngrams is not None:
                writer.write_array("ngrams.npy", subwords.ngrams.astype("<u4", copy=False))
            entry = _subwords_entry(subwords, vectors)
        shared = base is not None and _has_tables(base, writer.files)
        # safetensors writes wrong values for an array that is not C-contiguous.
        with np.errstate(over="ignore"):  # reading rejects infinite values
            tensors = {
                name: np.ascontiguousarray(tensor, weights_dtype)
                for name, tensor in tensors_from_layers(list(layers), word_bias, whitening).items()
            }
        if tensors:
            writer.write_tensors("attention.safetensors", tensors)
        details |= {
            "base": base if shared else None,
            "weights_dtype": weights_dtype,
            "dimension": vectors.shape[1],
            "vocabulary_size": vectors.shape[0],
            "dtype": vectors.dtype.name,
            "heads": layers[0].heads,
            "layers": [layer_entry(layer) for layer in layers],
            "tensors": {name: list(tensor.shape) for name, tensor in tensors.items()},
            "subwords": entry,
        }
        model = read_files(folder, writer.manifest(details), verify=True)
        expected = [layer.astype(weights_dtype).astype(np.float32) for layer in layers]
        if not all(map(_equal, model.layers, expected)):
            raise ModelFolderError("the format cannot represent these layers.")
        if senses is not None:
            writer.write_tensors("senses.safetensors", senses(model).tensors())
        manifest = writer.manifest(details)
        read_files(folder, manifest, verify=False)
        writer.commit(manifest)
    return manifest


def rewrite_model(
    folder: Path,
    model: Model,
    *,
    senses: Callable[[Model], ContextProjection] | None = None,
    **changes: Any,
) -> Manifest:
    """Replace the folder of a model by one with changed arguments of `write_model`.

    These are `layers`, `word_bias`, `whitening` and manifest fields; with `base=None`, the folder
    has all tables. What is not given stays the same, except the senses, which `senses` computes.
    Raises the errors of `write_model`.
    """
    of_model = ("layers", "word_bias", "whitening")
    of_manifest = ["base", "weights_dtype", "cased", "languages", "licence", "source"]
    of_manifest += ["training", "quality"]
    arguments = {name: getattr(model, name) for name in of_model}
    arguments |= {name: getattr(model.manifest, name) for name in of_manifest}
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    return write_model(
        folder, words, model.rows, subwords=model.subwords, senses=senses, **(arguments | changes)
    )


def remove_model(folder: Path) -> None:
    """Remove a model folder, whose manifest goes first. The target of a symbolic link remains.

    Processes that have mapped its files keep them. Raises ModelFolderError if the folder has gone
    or is being written.
    """
    with _locked(folder):
        if folder.is_symlink():
            folder.unlink()
        else:
            (folder / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder)
        sync_folder(folder.parent)


def rename_model(folder: Path, name: str) -> None:
    """Rename a model folder. The manifest keeps the name that it was written under.

    Raises ModelFolderError if the name is taken, or if the folder has gone or is being written.
    """
    target = folder.with_name(name)
    with _locked(folder):
        if os.path.lexists(target):
            raise ModelFolderError(_EXISTS)
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTDIR, errno.ENOTEMPTY}:
                raise
            raise ModelFolderError(_EXISTS) from None
        sync_folder(folder.parent)


def export_word2vec(model: Model, file: Path, limit: int | None = None) -> int:
    """Write the static vectors as word2vec text; return the number of skipped words.

    The format (Mikolov's `word2vec.c`) has a line with the number of words and the dimension, then
    a line per word with its values. It cannot represent words that contain whitespace. Values have
    the shortest decimal form that round-trips to float32.
    """
    size = model.manifest.vocabulary_size
    count = size if limit is None else min(size, limit)
    words = enumerate(map(model.vocabulary.word, range(count)))
    rows = {row: word for row, word in words if not any(map(str.isspace, word))}
    with atomic_files(file) as (out,):
        out.write(b"%d %d\n" % (len(rows), model.manifest.dimension))
        for row, word in rows.items():
            vector = np.ascontiguousarray(model.rows[row], np.float32)
            values = orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
            out.write(b"%s %s\n" % (word.encode(), values.replace(b",", b" ")))
    return count - len(rows)


class _Writer:
    """The new files of a locked folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[FileName, FileEntry] = {}

    def path(self, name: FileName) -> Path:
        return self.folder / self.files[name].stored_name(name)

    @contextmanager
    def create(self, name: FileName) -> Iterator[IO[bytes]]:
        """Write a file, which gets its name at the end."""
        temporary = self.folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        with temporary.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
            self.files[name] = FileEntry(sha256=checksum, bytes=file.tell())
        temporary.replace(self.path(name))

    def write_rows(self, name: FileName, rows: Rows) -> None:
        """Write a table, and the scales of quantized rows."""
        values, scales = stored(rows)
        self.write_array(name, values)
        if scales is not None:
            self.write_array(SCALES_OF[name], scales)

    def write_array(self, name: FileName, array: NDArray[Any]) -> None:
        """Write an array in C order, in blocks, so that no complete copy is made."""
        header = np.lib.format.header_data_from_array_1_0(array) | {"fortran_order": False}
        with self.create(name) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(array), _BLOCK_ROWS):
                file.write(np.ascontiguousarray(array[start : start + _BLOCK_ROWS]).data)

    def write_tensors(self, name: FileName, tensors: dict[str, NDArray[Any]]) -> None:
        with self.create(name) as file:
            file.write(save_tensors(tensors))

    def manifest(self, details: dict[str, Any]) -> Manifest:
        files = dict(sorted(self.files.items()))
        return Manifest(name=self.folder.name, files=files, **details)

    def commit(self, manifest: Manifest) -> None:
        content = manifest.model_dump(exclude_none=True)
        document = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        sync_folder(self.folder)
        atomic_write(self.folder / MANIFEST, document.encode())
        sync_folder(self.folder.parent)


@contextmanager
def _writing(folder: Path, *, replace: bool) -> Iterator[_Writer]:
    """Lock a folder for a writer; remove what its manifest does not name at the end.

    A folder without a manifest is removed if nothing else is in it. Raises ModelFolderError if
    another command is writing, for a link, for an existing file, and for an existing model without
    `replace`.
    """
    if not re.fullmatch(NAME_PATTERN, folder.name):
        raise ModelFolderError(INVALID_NAME)
    if folder.is_symlink():
        raise ModelFolderError("the model's folder is a symbolic link, which is not replaced.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ModelFolderError("the path of the model's folder is a file.") from None
    with _locked(folder):
        if not replace and (folder / MANIFEST).exists():
            raise ModelFolderError(_EXISTS)
        try:
            yield _Writer(folder)
        except ValidationError as error:
            raise ModelFolderError(manifest_problem(error)) from None
        finally:
            _remove_unnamed(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder; raise ModelFolderError if it has gone, or another command has locked it."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise ModelFolderError(_GONE) from None
    try:
        with suppress(OSError):  # not every file system has locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ModelFolderError("another command is writing the model.") from None
        yield
    except FileNotFoundError:
        if folder.exists():
            raise
        raise ModelFolderError(_GONE) from None
    finally:
        os.close(lock)


def _remove_unnamed(folder: Path) -> None:
    """Remove the files of writers that the manifest of a folder does not name."""
    names = set()
    if (folder / MANIFEST).exists():
        try:
            manifest = read_manifest(folder)
        except ModelFolderError:
            return  # it may name any file
        names = {
            manifest.stored_name(name) for name in manifest.files if not manifest.in_base(name)
        }
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name not in names and _WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)
        if not (folder / MANIFEST).exists():
            folder.rmdir()


def _subwords_entry(subwords: Subwords, vectors: Rows) -> SubwordsEntry:
    own = subwords.table.dtype != vectors.dtype
    known = subwords.ngrams is not None
    return SubwordsEntry(
        min_n=subwords.min_n,
        max_n=subwords.max_n,
        dtype=subwords.table.dtype.name if own else None,
        coverage=subwords.coverage if known else None,
        own_rows=subwords.own_rows if known else None,
    )


def _has_tables(base: str, files: dict[FileName, FileEntry]) -> bool:
    """Return whether a bundled model has the same tables, all of its own."""
    try:
        bundled = read_manifest(bundled_models() / base)
    except ModelFolderError:  # there is no such model
        return False
    return bundled.base is None and files.items() <= bundled.files.items()


def _equal(a: Any, b: Any) -> bool:
    """Return whether two trees of dataclasses are equal, arrays included."""
    if is_dataclass(a) and type(a) is type(b):
        return all(_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return np.array_equal(a, b)
