"""Atomic writes of model folders: a folder appears complete or not at all."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import save as save_tensors

from polyseme.atomic_files import sync_folder
from polyseme.engine.arrays import Floats
from polyseme.engine.layers import IDENTITY, Layer, Projection
from polyseme.engine.quantization import Rows, stored
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.models.manifest import (
    ATTENTION,
    INDEX,
    MANIFEST,
    NGRAMS,
    SCALES_OF,
    SENSES,
    SUBWORDS,
    TABLES,
    VECTORS,
    VOCABULARY,
    FileEntry,
    FileName,
    Manifest,
    SubwordsEntry,
)
from polyseme.models.model import Model
from polyseme.models.reader import (
    bundled_models,
    fingerprint,
    manifest_problem,
    read_manifest,
    read_model,
)
from polyseme.models.staging import (
    NEW,
    OLD,
    move_into_place,
    recover,
    rename_to_free_name,
    require_free,
    staging_directory,
)
from polyseme.models.vocabulary import build_index, count_lines, map_file
from polyseme.models.weights import ContextProjection, layer_entry, tensors_from_layers

_BLOCK_ROWS = 4096
"""Rows of a table that are copied into C order at once."""
_GONE = "another command has removed or renamed the model."


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
    """Write a model folder and read it back; return its manifest.

    `vectors` [V, d] and the table of `subwords` keep their dtypes: float16, float32, or int8 for
    quantized rows. `details` are the manifest fields that do not follow from the arrays: `cased`,
    `languages`, `licence`, `source`, `training` and `quality`.

    `senses` computes the content of `senses.safetensors` from the model that was written; without
    it, the model has no such file.

    If `base` is the name of a bundled model whose vocabulary, vectors and subwords are the same to
    the byte, the folder does not have them, and its manifest names the base.

    The tensors of the layers, `word_bias` and `whitening` are rounded to `weights_dtype`.

    With `replace`, an existing folder is replaced. Raises ModelFolderError for an existing folder
    without `replace`, for an existing file at the path, and for arrays, words or layers that the
    format cannot represent; all new files are then removed.
    """
    if len(vectors.shape) != 2 or 0 in vectors.shape:
        raise ModelFolderError("the vectors are not a two-dimensional array, or it is empty.")
    if not layers:
        raise ModelFolderError("there are no layers.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with staging_directory(folder.parent) as staging:
        require_free(folder, replace=replace)
        new = staging / NEW / folder.name
        new.mkdir(parents=True)
        try:
            with (new / VOCABULARY).open("wb") as file:
                file.writelines(f"{word}\n".encode() for word in words)
        except UnicodeEncodeError:
            raise ModelFolderError("a word is not valid Unicode.") from None
        with (new / VOCABULARY).open("rb") as vocabulary:
            text = map_file(vocabulary)
        np.save(new / INDEX, build_index(text, count_lines(text)).astype("<u4", copy=False))
        _write_rows(new, VECTORS, vectors)
        if subwords is not None:
            _write_rows(new, SUBWORDS, subwords.table)
            if subwords.ngrams is not None:
                _write_array(new / NGRAMS, subwords.ngrams.astype("<u4", copy=False))
        shared = {} if base is None else _shared_tables(new, base)
        for name in shared:
            (new / name).unlink()
        details |= {"base": base if shared else None, "weights_dtype": weights_dtype}
        # safetensors writes wrong values for an array that is not C-contiguous.
        with np.errstate(over="ignore"):  # reading rejects infinite values
            tensors = {
                name: np.ascontiguousarray(tensor, weights_dtype)
                for name, tensor in tensors_from_layers(list(layers), word_bias, whitening).items()
            }
        if tensors:
            (new / ATTENTION).write_bytes(save_tensors(tensors))
        manifest = _write_manifest(new, vectors, layers, tensors, subwords, shared, details)
        expected = [layer.astype(weights_dtype).astype(np.float32) for layer in layers]
        model = read_model(new)
        if not _equal(list(model.layers), expected):
            raise ModelFolderError("the format cannot represent these layers.")
        if senses is not None:
            (new / SENSES).write_bytes(save_tensors(senses(model).tensors()))
            manifest = _write_manifest(new, vectors, layers, tensors, subwords, shared, details)
            read_model(new)
        sync_folder(new)
        move_into_place(new, folder, staging, replace=replace)
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
    kept = {name: getattr(model, name) for name in of_model}
    kept |= {name: getattr(model.manifest, name) for name in of_manifest}
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    return write_model(
        folder, words, model.rows, subwords=model.subwords, senses=senses, **(kept | changes)
    )


def remove_model(folder: Path) -> None:
    """Remove a model folder, which disappears at once. The target of a symbolic link remains.

    Processes that have mapped its files keep them. Raises ModelFolderError if the folder has gone.
    """
    with staging_directory(folder.parent) as staging:
        try:
            folder.rename(staging / OLD)
        except FileNotFoundError:
            raise ModelFolderError(_GONE) from None
        sync_folder(folder.parent)


def rename_model(folder: Path, name: str) -> None:
    """Rename a model folder atomically. The manifest keeps the name that it was written under.

    Raises ModelFolderError if the name is taken, or if the folder has gone.
    """
    recover(folder.parent, clean=True)
    target = folder.with_name(name)
    require_free(target, replace=False)
    try:
        rename_to_free_name(folder, target)
    except FileNotFoundError:
        raise ModelFolderError(_GONE) from None
    except FileExistsError:  # another writer was faster
        raise ModelFolderError("a model of this name already exists.") from None
    sync_folder(folder.parent)


def _shared_tables(folder: Path, base: str) -> dict[str, FileEntry]:
    """Return the tables in a new folder if those of a bundled model are the same, or else none."""
    try:
        bundled = read_manifest(bundled_models() / base)
    except ModelFolderError:  # there is no such model
        return {}
    tables: dict[str, FileEntry] = {}
    for name in TABLES:
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                tables[name] = fingerprint(file)
    same = bundled.base is None and tables.items() <= bundled.files.items()
    return tables if same else {}


def _write_rows(folder: Path, name: FileName, rows: Rows) -> None:
    """Write a table, and the scales of quantized rows."""
    values, scales = stored(rows)
    _write_array(folder / name, values)
    if scales is not None:
        _write_array(folder / SCALES_OF[name], scales)


def _write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array in C order, in blocks, so that no complete copy is made."""
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(array), _BLOCK_ROWS):
            file.write(np.ascontiguousarray(array[start : start + _BLOCK_ROWS]).data)


def _write_manifest(
    folder: Path,
    vectors: Rows,
    layers: Sequence[Layer],
    tensors: Mapping[str, NDArray[Any]],
    subwords: Subwords | None,
    shared: dict[str, FileEntry],
    details: dict[str, Any],
) -> Manifest:
    """Write `manifest.json` with the checksums of the other files; return the manifest."""
    files = dict(shared)
    for path in folder.iterdir():
        if path.name == MANIFEST:
            continue
        with path.open("rb") as file:
            os.fsync(file.fileno())
            files[path.name] = fingerprint(file)
    try:
        ngrams = None
        if subwords is not None:
            own = subwords.table.dtype != vectors.dtype
            known = subwords.ngrams is not None
            ngrams = SubwordsEntry(
                min_n=subwords.min_n,
                max_n=subwords.max_n,
                dtype=subwords.table.dtype.name if own else None,
                coverage=subwords.coverage if known else None,
                own_rows=subwords.own_rows if known else None,
            )
        manifest = Manifest(
            name=folder.name,
            dimension=vectors.shape[1],
            vocabulary_size=vectors.shape[0],
            format_version=2 if shared or details["weights_dtype"] == "float16" else 1,
            dtype=vectors.dtype.name,
            heads=layers[0].heads,
            layers=[layer_entry(layer) for layer in layers],
            tensors={name: list(tensor.shape) for name, tensor in tensors.items()},
            subwords=ngrams,
            files=dict(sorted(files.items())),
            **details,
        )
    except ValidationError as error:
        raise ModelFolderError(manifest_problem(error)) from None
    content = manifest.model_dump()
    if manifest.base is None:
        del content["base"]
    if manifest.weights_dtype == "float32":
        del content["weights_dtype"]
    if manifest.subwords is None:
        del content["subwords"]
    else:
        content["subwords"] = manifest.subwords.model_dump(exclude_none=True)
    document = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with (folder / MANIFEST).open("wb") as file:
        file.write(document.encode())
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _equal(a: Any, b: Any) -> bool:
    """Return whether two trees of dataclasses, lists and arrays are equal."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is not None and b is not None and np.array_equal(a, b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if is_dataclass(a) and type(a) is type(b):
        return all(_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)
