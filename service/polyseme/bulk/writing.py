"""One shard: its sentences are encoded and written by the same process, vectors never travel."""

import io
import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from polyseme.bulk.folder import shard_path
from polyseme.bulk.job import Job, Packing, written
from polyseme.bulk.refusal import BulkError
from polyseme.bulk.shards import Shard
from polyseme.bulk.table import Group, record_batch, schema
from polyseme.encoding.choice import Choice, Part
from polyseme.encoding.cutting import Text
from polyseme.encoding.encoder import Batch, in_dtype
from polyseme.encoding.npz import npz_answer
from polyseme.encoding.pooling import sentence_vector, sentence_vectors
from polyseme.encoding.stages import Stages
from polyseme.errors import InvalidError, PolysemeError, UnknownWordError
from polyseme.models.model import Model
from polyseme.whole_files import whole_files

_NUMBERS = 1 << 22
"""in the arrays of a row group, about: what is in memory at one time"""
_CHARACTERS = 1 << 20
"""of a batch, about"""
NUMBERS = frozenset({"static", "contextual", "attention", "vector"})
"""The columns of floating-point numbers."""
_NOTE = "polyseme"
"""Under what key a Parquet file holds its totals; in a .npz they are the archive's comment."""


@dataclass(frozen=True)
class Totals:
    """What is in a shard, or in all of them."""

    rows: int = 0
    tokens: int = 0
    unknown: int = 0
    """tokens without a vector"""
    truncated: int = 0
    """words that were cut off"""
    missing: int = 0
    """rows without a text"""

    def __add__(self, other: "Totals") -> "Totals":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Totals(*(mine + others for mine, others in pairs))


@dataclass(frozen=True)
class Written:
    """A worker's word that a shard is there."""

    number: int
    totals: Totals
    read: int
    process: int
    peak: int
    """bytes of memory the process has had at most"""


def write_shard(job: Job, shard: Shard) -> Written:
    """Encode the sentences of a shard and write it; raise BulkError with the row that stops it."""
    model = job.mapped()
    write = _write_npz if job.wishes.format == "npz" else _write_parquet
    with whole_files(shard_path(job.out, shard.number, job.wishes.format)) as (file,):
        try:
            totals = write(file, job, model, shard)
        except PolysemeError as error:
            raise _refused(error, _range(shard)) from None
        except MemoryError:
            raise BulkError(
                f"{_range(shard)}: there is not enough memory: give fewer --workers or a smaller"
                " --batch-rows; what is written stays."
            ) from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Written(shard.number, totals, shard.read, os.getpid(), peak)


def _range(shard: Shard) -> str:
    """What a person calls the rows of a shard."""
    first, last = shard.runs[0], shard.runs[-1]
    return f"Row {first.first} of {first.name} to row {last.first + len(last.rows) - 1}"


def totals_of(path: Path) -> Totals:
    """What a shard says of itself; raise BulkError where it is damaged."""
    try:
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                note = archive.comment
        else:
            note = pq.read_metadata(path).metadata[_NOTE.encode()]
        return Totals(**orjson.loads(note))
    except (OSError, ValueError, TypeError, KeyError, BadZipFile, pa.ArrowException):
        raise BulkError(f"{path.name} is damaged: remove it and run again.") from None


def _write_parquet(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    width = model.manifest.dimension
    columns = schema(job, width)
    totals = Totals()
    with pq.ParquetWriter(file.name, columns, **_properties(columns, job.wishes.packing)) as writer:
        for rows in _batches(job, shard):
            batch = _batch(job, model, rows, _computed(job))
            for group in _groups(job, batch, rows):
                writer.write_batch(record_batch(job, group, width))
            totals += _count(batch, rows.texts)
        writer.add_key_value_metadata({_NOTE: _note(totals).decode()})
    return totals


def _properties(columns: Any, packing: Packing) -> dict[str, Any]:
    """How columns are written: words and offsets packed, and numbers as the job has it.

    Numbers hardly pack, and telling least and greatest of them would help nobody.
    """
    empty = io.BytesIO()
    pq.write_table(columns.empty_table(), empty)
    leaves = pq.ParquetFile(empty).schema
    paths = [leaves.column(place).path for place in range(len(leaves))]
    numbers = {path for path in paths if path.split(".")[0] in NUMBERS}
    others = [path for path in paths if path not in numbers]
    return {
        "compression": {path: packing if path in numbers else "zstd" for path in paths},
        "use_dictionary": others,
        "write_statistics": others,
        "use_byte_stream_split": sorted(numbers) if packing == "zstd" else False,
    }


@dataclass(frozen=True)
class _Rows:
    """Some rows of one file."""

    file: str
    first: int
    texts: Sequence[Text | None]
    kept: Sequence[Any]

    def name(self, place: int) -> str:
        """What a person calls a row."""
        return f"Row {self.first + place} of {self.file}"


def _batches(job: Job, shard: Shard) -> Iterator[_Rows]:
    """Cut the rows of a shard into batches of bounded size."""
    for run in shard.runs:
        texts = run.rows.column(0).to_pylist()
        start = 0
        while start < len(texts):
            end, characters = start, 0
            last = min(len(texts), start + job.wishes.batch_rows)
            while end < last and characters < _CHARACTERS:
                characters += sum(map(len, texts[end] or ()))
                end += 1
            kept = [one.slice(start, end - start) for one in run.rows.columns[1:]]
            yield _Rows(run.name, run.first + start, texts[start:end], kept)
            start = end


def _batch(job: Job, model: Model, rows: _Rows, choice: Choice) -> Batch:
    """The answer for those rows that have a text; raise BulkError with the row that has none."""
    texts = [text for text in rows.texts if text is not None]
    limits = job.wishes.limits
    try:
        return Batch(model, texts, choice, limits, Stages())
    except PolysemeError as error:
        for place, text in enumerate(rows.texts):
            try:
                Batch(model, [] if text is None else [text], choice, limits, Stages())
            except PolysemeError as of_one:
                raise _refused(of_one, rows.name(place)) from None
        raise _refused(error, rows.name(0)) from None


_ADVICE = {
    "too_large": "--truncate cuts such sentences.",
    "unknown_word": "--oov zero gives such words a zero vector.",
    "out_of_range": "Ask for --dtype float32.",
}


def _refused(error: PolysemeError, where: str) -> BulkError:
    """What stops the work; errors of the tree do not travel between processes, this one does."""
    said = error.sentence
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        said = "; ".join(one.message for one in error.errors) + "."
    return BulkError(f"{where}: {said} {_ADVICE.get(error.code, error.advice)}")


def _computed(job: Job) -> Choice:
    """What is asked of the engine: also what vectors are pooled from, before they are rounded."""
    choice = job.wishes.choice
    also: frozenset[Part] = frozenset({"contextual"} if job.wishes.pooling else ())
    return replace(choice, include=choice.include | also, dtype="float32")


def _count(batch: Batch, texts: Sequence[Text | None]) -> Totals:
    """What is in some rows."""
    counts = batch.counts
    missing = sum(text is None for text in texts)
    return Totals(len(texts), counts.tokens, counts.unknown, counts.truncated, missing)


def _note(totals: Totals) -> bytes:
    """The totals as they stand in a shard."""
    return orjson.dumps(asdict(totals))


def _groups(job: Job, batch: Batch, rows: _Rows) -> Iterator[Group]:
    """Encode rows, and yield them as soon as their arrays are large enough to be written."""
    model, pooling, parts = batch.model, job.wishes.pooling, written(job.wishes.choice)
    width = model.manifest.dimension
    answers = iter(batch)
    group, begun = Group(), 0
    for place, text in enumerate(rows.texts):
        one = None if text is None else next(answers)
        if one and pooling:
            group.vectors.append(sentence_vector(model, one, pooling, width))
        if one and len(parts) < len(one.arrays):
            one = replace(one, arrays={part: one.arrays[part] for part in parts})
        group.add(one)
        if group.size >= _NUMBERS:
            yield _placed(group, rows, begun)
            group, begun = Group(), place + 1
    if group.encoded:
        yield _placed(group, rows, begun)


def _placed(group: Group, rows: _Rows, begun: int) -> Group:
    """Say of a group which rows it is of."""
    group.file, group.first = rows.file, rows.first + begun
    group.kept = [one.slice(begun, len(group.encoded)) for one in rows.kept]
    return group


def _write_npz(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    """Write what /v1/encode answers, and which rows it is of."""
    wishes, runs = job.wishes, shard.runs
    texts: list[Text | None] = [text for run in runs for text in run.rows.column(0).to_pylist()]
    first = runs[0] if runs else None
    rows = _Rows(first.name if first else "", first.first if first else 0, texts, ())
    known = replace(rows, texts=["" if text is None else text for text in texts])
    batch = _batch(job, model, known, wishes.choice)
    if not batch.large:
        batch.hold()
    file.writelines(npz_answer(batch))
    numbers = [np.arange(run.first, run.first + len(run.rows)) for run in runs]
    more = {"rows": np.concatenate([np.empty(0, np.int64), *numbers])}
    if job.named:
        more["files"] = np.array([run.name for run in runs for _ in range(len(run.rows))], np.str_)
    if wishes.pooling:
        choice = replace(wishes.choice, include=frozenset({"contextual"}), dtype="float32")
        pooled = list(sentence_vectors(_batch(job, model, known, choice), wishes.pooling))
        shape = len(texts), model.manifest.dimension
        more["vectors"] = in_dtype(np.array(pooled, np.float32).reshape(shape), wishes.choice.dtype)
    totals = _count(batch, texts)
    with ZipFile(file, "a") as archive:
        for name, array in more.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        archive.comment = _note(totals)
    return totals
