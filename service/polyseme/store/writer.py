"""Writing a model folder: the only place that does. It appears whole, or not at all."""

import errno
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors.numpy import save as save_tensors

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import Layer
from polyseme.engine.quantization import Rows, stored
from polyseme.engine.subwords import Subwords
from polyseme.errors import ModelFolderError
from polyseme.store.draft import Draft, draft
from polyseme.store.fingerprint import fingerprint
from polyseme.store.folder import MANIFEST, manifest_problem, read_model
from polyseme.store.index import build
from polyseme.store.lines import count_lines, mapped
from polyseme.store.manifest import (
    ATTENTION,
    INDEX,
    SCALES_OF,
    SUBWORDS,
    VECTORS,
    VOCABULARY,
    FileEntry,
    FileName,
    Manifest,
    SubwordsEntry,
)
from polyseme.store.weights import entry_of, tensors_of

_ROWS = 4096
"""of a table that are brought into C order at one time"""


def write_model(
    folder: Path,
    words: Sequence[str],
    vectors: Rows,
    layers: Sequence[Layer] = (Layer(),),
    word_bias: Floats | None = None,
    *,
    subwords: Subwords | None = None,
    replace: bool = True,
    **facts: Any,
) -> Manifest:
    """Write a model folder and read it back; return its manifest.

    vectors [V, d] keep their dtype, float16 or float32, or are int8 where they come as
    `quantised(vectors)`; the table of `subwords` shares it.
    `facts` are the manifest's fields that do not follow from the arrays (`cased`, `languages`,
    `licence`, `source`, `training`, `quality`). A folder of that name is moved aside and goes when
    the new one stands. Raises ModelFolderError where there is one and it is not to be replaced, and
    where what was written would not be accepted by `read_model`; then nothing is left behind.
    """
    if len(vectors.shape) != 2 or 0 in vectors.shape:  # noqa: PLR2004 - [V, d]
        raise ModelFolderError("the vectors are not a table of one row for each word.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft(folder.parent) as place:
        _require_free(folder, replace=replace)
        part = place.new / folder.name
        part.mkdir()
        _write_words(part, words)
        _write_rows(part, VECTORS, vectors)
        if subwords is not None:
            _write_rows(part, SUBWORDS, subwords.table)
        shapes = _write_tensors(part / ATTENTION, layers, word_bias)
        manifest = _manifest(part, vectors, layers, shapes, subwords, facts)
        _write_manifest(part / MANIFEST, manifest)
        if not _same(list(read_model(part).layers), [one.astype(np.float32) for one in layers]):
            raise ModelFolderError("the format cannot hold these layers: they came back changed.")
        _put(place, part, folder, replace=replace)
    return manifest


def _manifest(
    part: Path,
    vectors: Rows,
    layers: Sequence[Layer],
    shapes: dict[str, list[int]],
    subwords: Subwords | None,
    facts: dict[str, Any],
) -> Manifest:
    try:
        n_grams = None
        if subwords is not None:
            n_grams = SubwordsEntry(min_n=subwords.min_n, max_n=subwords.max_n)
        return Manifest(
            name=part.name,
            dimension=vectors.shape[1],
            vocabulary_size=vectors.shape[0],
            dtype=vectors.dtype.name,
            heads=layers[0].heads,
            layers=[entry_of(layer) for layer in layers],
            tensors=shapes,
            subwords=n_grams,
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


def _require_free(folder: Path, *, replace: bool) -> None:
    """Look once: another writer may move away between two looks what it replaces."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise ModelFolderError("a file stands where the model's folder would be.")
    if not replace:
        raise ModelFolderError("a model of this name is there already.")


def _write_words(part: Path, words: Sequence[str]) -> None:
    """Write `vocabulary.txt`, and its index from what was written."""
    try:
        with (part / VOCABULARY).open("wb") as file:
            file.writelines(f"{word}\n".encode() for word in words)
    except UnicodeEncodeError:
        raise ModelFolderError("a word is not valid Unicode.") from None
    with (part / VOCABULARY).open("rb") as file:
        text = mapped(file)
    np.save(part / INDEX, build(text, count_lines(text)).astype("<u4", copy=False))


def _write_rows(part: Path, name: FileName, rows: Rows) -> None:
    """Write a table, and the scales of its rows where they have some."""
    numbers, scales = stored(rows)
    _write_table(part / name, numbers)
    if scales is not None:
        _write_table(part / SCALES_OF[name], scales)


def _write_table(path: Path, table: NDArray[Any]) -> None:
    """Write a table in C order, part by part, so that no other order is copied whole."""
    header = {
        "descr": np.lib.format.dtype_to_descr(table.dtype),
        "fortran_order": False,
        "shape": table.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(table), _ROWS):
            file.write(np.ascontiguousarray(table[start : start + _ROWS]).data)


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


def _write_manifest(path: Path, manifest: Manifest) -> None:
    absent = {"subwords"} if manifest.subwords is None else None
    document = json.dumps(manifest.model_dump(exclude=absent), indent=1, ensure_ascii=False) + "\n"
    with path.open("wb") as file:
        file.write(document.encode())
        file.flush()
        os.fsync(file.fileno())


def _entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return fingerprint(file)


def _put(place: Draft, part: Path, folder: Path, *, replace: bool) -> None:
    """Move a finished folder to its place; what was there goes only when the new one stands.

    A rename never takes the place of a folder with something in it, so that of two writers at once
    each sees what the other has put there.
    """
    while True:
        _require_free(folder, replace=replace)
        if replace:
            place.move_aside(folder)
        try:
            part.rename(folder)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise
        else:
            return
