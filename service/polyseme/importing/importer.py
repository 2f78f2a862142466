"""From a file of pretrained vectors to a model folder."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.quantization import Rows, as_floats, quantize
from polyseme.engine.subwords import Subwords
from polyseme.importing import fasttext
from polyseme.importing.attention import PARAMETER_FREE, Attention, in_closed_form, with_word_bias
from polyseme.importing.compression import open_plain
from polyseme.importing.cost import Cost
from polyseme.importing.formats import Format, guess, head_of
from polyseme.importing.loading import CHANGED, load
from polyseme.importing.order import sorted_by_frequency
from polyseme.importing.progress import Progress
from polyseme.importing.refusal import VectorFileError
from polyseme.importing.rows import VectorFile
from polyseme.importing.scan import scan
from polyseme.importing.weights import Convention, read_weights
from polyseme.models.manifest import NAME_PATTERN, Dtype, Manifest
from polyseme.models.writer import write_model


@dataclass(frozen=True)
class Wishes:
    """How a file is to be imported."""

    format: Format | None = None
    """guessed when left out"""
    member: str | None = None
    limit: int | None = None
    dtype: Dtype = "float32"
    encoding: str = "utf-8"
    skip: bool = False
    """leave out rows that cannot be used"""
    sorted: bool | None = None
    """by frequency; tested when left out"""
    weights: Path | None = None
    attention: bool = True
    """False: parameter-free"""
    convention: Convention = "row"
    heads: int | None = None
    replace: bool = False
    processes: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)
    """of the manifest: `licence`, `source`, `languages`"""


@dataclass(frozen=True)
class Table:
    """What a file holds."""

    words: list[str]
    vectors: Rows
    """[V, d]"""
    counts: NDArray[np.int64] | None = None
    """[V], how often each word was seen, where the file says so"""
    subwords: Subwords | None = None
    left_out: int = 0


def import_vectors(path: Path, folder: Path, wishes: Wishes, progress: Progress) -> Manifest:
    """Make a model folder of a file; it appears whole, or not at all.

    Raises VectorFileError or ModelFolderError with one sentence on what is wrong.
    """
    check_place(folder, replace=wishes.replace)
    head_of(path, wishes.member)
    kind, state = wishes.format or guess(path, wishes.member), _state(path)
    if kind == "fasttext":
        table = _fasttext(path, wishes, folder, progress)
    else:
        table = _rows(VectorFile(path, kind, wishes.member, wishes.limit), wishes, folder, progress)
    source = {"format": kind, "sha256": _digest(path), "left_out": table.left_out}
    if _state(path) != state:  # words of one file would have the vectors of another
        raise VectorFileError(CHANGED)
    if table.left_out:
        progress.say(f"{table.left_out} rows could not be used and were left out.")
    attention = _attention(table, wishes, progress)
    name = path.name.encode(errors="replace").decode()  # any bytes can be a file's name
    facts = {"source": name, **wishes.facts}
    with progress.stage("writing", table.vectors.nbytes):
        return write_model(
            folder,
            table.words,
            table.vectors,
            attention.layers,
            attention.word_bias,
            subwords=table.subwords,
            replace=wishes.replace,
            cased=any(word != word.lower() for word in table.words),
            training={**attention.facts, "file": source},
            **facts,
        )


def check_name(name: str) -> None:
    """Refuse a name that no model can have."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise VectorFileError(
            "A model's name is letters, digits, `.`, `_` and `-`, at most 64 and the first a letter"
            " or digit; give one by --name."
        )


def check_place(folder: Path, *, replace: bool) -> None:
    """Refuse a name that no model can have, or that one has already."""
    check_name(folder.name)
    if folder.exists() and not replace:
        raise VectorFileError(
            "A model of this name is there already; --replace puts the new one in its place."
        )


def _rows(file: VectorFile, wishes: Wishes, folder: Path, progress: Progress) -> Table:
    size = _size(file.path)
    with progress.stage("checking", size) as bar:
        dtype = _floating(wishes.dtype)
        found = scan(file, bar, encoding=wishes.encoding, dtype=dtype, skip=wishes.skip)
    cost = Cost.of_rows(len(found.words), found.width, wishes.dtype)
    cost.announce(folder, progress)
    stored = _weights(wishes, cost.words, cost.width)
    if stored and stored.lacks_word_bias:
        _require_order(found.words, wishes)
    with progress.stage("reading", size) as bar:
        vectors = load(found, bar, wishes.dtype, wishes.processes)
    return Table(list(found.words), vectors, left_out=len(found.left_out))


def _fasttext(path: Path, wishes: Wishes, folder: Path, progress: Progress) -> Table:
    size = _size(path)
    with progress.stage("checking", size) as bar, open_plain(path, wishes.member) as plain:
        walked = fasttext.walk(plain, bar, wishes.encoding, skip=wishes.skip)
    header = walked.header
    cost = Cost.of_fasttext(header.words, header.bucket, header.dim, wishes.dtype)
    cost.announce(folder, progress)
    words = header.words - len(walked.left_out)
    _weights(wishes, min(words, wishes.limit or words), header.dim)
    with progress.stage("reading", size) as bar:
        with fasttext.expanded(path, wishes.member, bar) as file:
            read = fasttext.read(file, walked, wishes.encoding)
        bar.reach(size, header.words)
    kept = slice(wishes.limit)
    subwords = read.subwords
    if subwords:
        table = _narrowed(as_floats(subwords.table), wishes.dtype)
        subwords = Subwords(table, subwords.min_n, subwords.max_n)
    vectors = _narrowed(read.vectors[kept], wishes.dtype)
    return Table(read.words[kept], vectors, read.counts[kept], subwords, len(walked.left_out))


def _narrowed(vectors: Floats, dtype: Dtype) -> Rows:
    with np.errstate(over="ignore"):
        narrow: Floats = vectors.astype(_floating(dtype), copy=False)
    if not np.isfinite(narrow).all():
        raise VectorFileError(f"The file has a number that is not finite as {narrow.dtype}.")
    return quantize(narrow) if dtype == "int8" else narrow


def _floating(dtype: Dtype) -> str:
    """What the numbers of a file have to be finite in."""
    return "float32" if dtype == "int8" else dtype


def _attention(table: Table, wishes: Wishes, progress: Progress) -> Attention:
    stored = _weights(wishes, *table.vectors.shape)
    if stored and stored.lacks_word_bias:
        return with_word_bias(stored, len(table.words), table.counts)
    if stored:
        return stored
    if not wishes.attention:
        return PARAMETER_FREE
    if table.counts is not None:
        return in_closed_form(table.vectors, table.counts, by_rank=False)
    by_rank = wishes.sorted
    if by_rank is None:
        by_rank = sorted_by_frequency(table.words)
        if not by_rank:
            progress.say(_UNTOLD if by_rank is None else _UNSORTED)
    with progress.stage("weighing", 1):
        return in_closed_form(table.vectors, None, by_rank=bool(by_rank))


def _weights(wishes: Wishes, words: int, width: int) -> Attention | None:
    """The stored weights, where there are some; looked at also before any number is converted."""
    if not wishes.weights:
        return None
    return read_weights(wishes.weights, width, words, wishes.heads, wishes.convention)


def _require_order(words: Iterable[str], wishes: Wishes) -> None:
    """Refuse weights whose word bias is lacking where the words' ranks cannot give it."""
    by_rank = sorted_by_frequency(words) if wishes.sorted is None else wishes.sorted
    if not by_rank:
        raise VectorFileError("The weights' metadata ask for a tensor word_bias, which is lacking.")


_UNSORTED = (
    "Warning: the words are not in the order of their frequency, so each counts as informative as"
    " the next, which separates senses less well; --sorted insists that they are."
)
_UNTOLD = (
    "Warning: too few English function words to tell whether the words are in the order of their"
    " frequency, so each counts as informative as the next; --sorted says that they are."
)


def _size(path: Path) -> int:
    return path.stat().st_size


def _state(path: Path) -> tuple[int, int, int]:
    """What is another when a file was changed."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
