"""Encode the sentences of a shard and write them as a Parquet file or a NumPy archive."""

import io
import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.atomic_files import atomic_files
from polyseme.bulk.job import BulkOptions, Job
from polyseme.bulk.sources import Shard
from polyseme.command_error import CommandError
from polyseme.encoding.encode import (
    Encoded,
    Text,
    Timings,
    TokenCounts,
    Tokenized,
    cast,
    encode_sentence,
    tokenize,
)
from polyseme.encoding.options import PER_TOKEN, EncodeOptions, Part
from polyseme.encoding.sentences import pooled_options, pooled_part, sentence_vector
from polyseme.encoding.serialize import token_documents
from polyseme.errors import InvalidError, PolysemeError, UnknownWordError
from polyseme.models.model import Model

COLUMNS = (
    *("row", "file", "truncated", "tokens", "starts", "ends", "keys", "resolutions"),
    *("static", "contextual", "features", "attention", "vector"),
)
"""The names of all columns; columns of `--keep` must have other names."""
_NUMBERS = frozenset({"static", "contextual", "features", "attention", "vector"})
"""The columns of floating-point numbers."""
_TOKEN_COLUMNS = {
    "tokens": ("text", pa.string()),
    "starts": ("start", pa.int32()),
    "ends": ("end", pa.int32()),
    "keys": ("key", pa.string()),
    "resolutions": ("resolution", pa.string()),
}
"""The columns of tokens: the attribute of the token and the type."""
_GROUP_NUMBERS = 1 << 22
"""Approximate count of numbers in a row group. One group is in memory at a time."""
_BATCH_CHARACTERS = 1 << 20
"""Approximate number of characters in a batch."""
_TOTALS_KEY = "polyseme"
"""The metadata key of the totals in Parquet; a .npz archive has them as its comment."""


@dataclass(frozen=True)
class Totals:
    """Counts of a shard or of all shards."""

    rows: int = 0
    tokens: int = 0
    unknown: int = 0
    """tokens without a vector"""
    truncated: int = 0
    """words that were cut off"""
    missing: int = 0
    """rows without a text"""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class ShardResult:
    """A worker's report after it has written a shard."""

    number: int
    totals: Totals
    read: int
    """bytes of the whole input that have been read"""
    process: int
    peak: int
    """peak memory of the process in bytes"""


def write_shard(job: Job, shard: Shard) -> ShardResult:
    """Encode and write a shard. Raises CommandError if a row cannot be encoded."""
    model = job.load_model()
    write = _write_npz if job.options.format == "npz" else _write_parquet
    with atomic_files(job.shard_path(shard.number)) as (file,):
        try:
            totals = write(file, job, model, shard)
        except PolysemeError as error:
            raise _bulk_error(error, _range(shard)) from None
        except MemoryError:
            raise CommandError(
                f"{_range(shard)}: there is not enough memory; use fewer --workers or a smaller"
                " --batch-rows. Finished shards are kept."
            ) from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return ShardResult(shard.number, totals, shard.read, os.getpid(), peak)


def _range(shard: Shard) -> str:
    """Return the description of a shard's rows for messages."""
    first, last = shard.ranges[0], shard.ranges[-1]
    return f"Row {first.first} of {first.name} to row {last.first + len(last.rows) - 1}"


def read_totals(path: Path) -> Totals:
    """Return the totals that a shard's file contains. Raises CommandError if it is damaged."""
    try:
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                totals = archive.comment
        else:
            totals = pq.read_metadata(path).metadata[_TOTALS_KEY.encode()]
        return Totals(**orjson.loads(totals))
    except (OSError, ValueError, TypeError, KeyError, BadZipFile, pa.ArrowException):
        raise CommandError(f"{path.name} is damaged: remove it and run again.") from None


# Encoding


@dataclass(frozen=True)
class _Rows:
    """Consecutive rows of one file."""

    file: str
    first: int
    texts: Sequence[Text | None]
    kept: Sequence[Any] = ()

    def name(self, place: int) -> str:
        """Return the description of a row for messages."""
        return f"Row {self.first + place} of {self.file}"


def _tokenize(job: Job, model: Model, rows: _Rows, options: EncodeOptions) -> list[Tokenized]:
    """Tokenize the rows that have a text. Raises CommandError with the number of a bad row."""
    texts = [text for text in rows.texts if text is not None]
    limits = job.options.limits
    try:
        return tokenize(model, texts, options, limits)
    except PolysemeError as error:
        for place, text in enumerate(rows.texts):
            try:
                tokenize(model, [] if text is None else [text], options, limits)
            except PolysemeError as row_error:
                raise _bulk_error(row_error, rows.name(place)) from None
        raise _bulk_error(error, rows.name(0)) from None


_HINTS = {
    "too_large": "--truncate cuts such sentences.",
    "unknown_word": "--oov zero gives such words a zero vector.",
    "out_of_range": "Use --dtype float32.",
}


def _bulk_error(error: PolysemeError, where: str) -> CommandError:
    """Return an error that names the rows, and that can be pickled between processes."""
    sentence = error.detail
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        sentence = "; ".join(one.message for one in error.errors) + "."
    return CommandError(f"{where}: {sentence} {_HINTS.get(error.code, error.hint)}")


def _count(sentences: Sequence[Tokenized], texts: Sequence[Text | None]) -> Totals:
    counts = TokenCounts(sentences)
    missing = sum(text is None for text in texts)
    return Totals(len(texts), counts.tokens, counts.oov, counts.truncated, missing)


# Parquet


def _write_parquet(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    options = job.options
    width = model.manifest.dimension
    columns = _schema(job, width)
    # Encode in float32, so that a pooled vector is rounded only once, after pooling.
    pooled: frozenset[Part] = frozenset({pooled_part(options.pooling)} if options.pooling else ())
    encoding = replace(options.encoding, include=options.encoding.include | pooled, dtype="float32")
    totals = Totals()
    properties = _properties(columns, options.compression)
    with pq.ParquetWriter(file.name, columns, **properties) as writer:
        for rows in _batches(job, shard):
            sentences = _tokenize(job, model, rows, encoding)
            for group in _groups(job, model, rows, sentences, encoding):
                writer.write_batch(_record_batch(job, group, columns, width))
            totals += _count(sentences, rows.texts)
        writer.add_key_value_metadata({_TOTALS_KEY: orjson.dumps(asdict(totals)).decode()})
    return totals


def _schema(job: Job, width: int) -> Any:
    """Return the `pyarrow.Schema` of a shard; `width` is d."""
    options = job.options
    real = pa.float16() if options.encoding.dtype == "float16" else pa.float32()
    columns = [("row", pa.int64())]
    columns += [("file", pa.string())] if job.several_files else []
    columns += [(one.name, one.type) for one in job.kept]
    columns += [("truncated", pa.int32())]
    if options.arrays:
        columns += [(name, pa.list_(kind)) for name, (_, kind) in _TOKEN_COLUMNS.items()]
    for part in options.arrays:
        row = pa.list_(real, PER_TOKEN[part] * width) if part in PER_TOKEN else real
        columns.append((part, pa.list_(row)))
    columns += [("vector", pa.list_(real, width))] if options.pooling else []
    return pa.schema(columns)


def _properties(columns: Any, compression: str) -> dict[str, Any]:
    """Return the options of the Parquet writer.

    Floating-point numbers hardly compress, and their minimum and maximum are useless.
    """
    empty = io.BytesIO()
    pq.write_table(columns.empty_table(), empty)
    leaves = pq.ParquetFile(empty).schema
    paths = [leaves.column(place).path for place in range(len(leaves))]
    numbers = {path for path in paths if path.split(".")[0] in _NUMBERS}
    others = [path for path in paths if path not in numbers]
    return {
        "compression": {path: compression if path in numbers else "zstd" for path in paths},
        "use_dictionary": others,
        "write_statistics": others,
        "use_byte_stream_split": sorted(numbers) if compression == "zstd" else False,
    }


def _batches(job: Job, shard: Shard) -> Iterator[_Rows]:
    """Divide the rows of a shard into batches of bounded size."""
    for one in shard.ranges:
        texts = one.rows.column(0).to_pylist()
        start = 0
        while start < len(texts):
            end, characters = start, 0
            last = min(len(texts), start + job.options.batch_rows)
            while end < last and characters < _BATCH_CHARACTERS:
                characters += sum(map(len, texts[end] or ()))
                end += 1
            kept = [column.slice(start, end - start) for column in one.rows.columns[1:]]
            yield _Rows(one.name, one.first + start, texts[start:end], kept)
            start = end


@dataclass
class _RowGroup:
    """Encoded rows that are written together."""

    file: str
    first: int
    """number of the first row in its file"""
    encoded: list[Encoded | None] = field(default_factory=list)
    """one per row; None for a row without a text"""
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    """sentence vectors [d] of the rows that have a text"""
    kept: list[Any] = field(default_factory=list)
    """columns copied from the input"""


def _groups(
    job: Job,
    model: Model,
    rows: _Rows,
    sentences: Sequence[Tokenized],
    options: EncodeOptions,
) -> Iterator[_RowGroup]:
    """Encode rows and yield them in groups of about `_GROUP_NUMBERS` numbers."""
    pooling = job.options.pooling
    encoded = _encode_each(model, sentences, options)
    start = size = 0
    group = _RowGroup(rows.file, rows.first)
    for place, text in enumerate(rows.texts):
        one = None if text is None else next(encoded)
        if one:
            if pooling:
                group.vectors.append(sentence_vector(model, one, pooling))
            if len(job.options.arrays) < len(one.arrays):
                one = one._replace(arrays={p: one.arrays[p] for p in job.options.arrays})
            size += sum(array.size for array in one.arrays.values())
        group.encoded.append(one)
        if size >= _GROUP_NUMBERS or place + 1 == len(rows.texts):
            group.kept = [column.slice(start, len(group.encoded)) for column in rows.kept]
            yield group
            start, size = place + 1, 0
            group = _RowGroup(rows.file, rows.first + start)


def _record_batch(job: Job, group: _RowGroup, columns: Any, width: int) -> Any:
    """Return the rows as a `pyarrow.RecordBatch`; `width` is d."""
    options, encoded = job.options, group.encoded
    numbers = np.arange(group.first, group.first + len(encoded), dtype=np.int64)
    arrays: list[Any] = [pa.array(numbers)]
    arrays += [pa.array([group.file] * len(encoded), pa.string())] if job.several_files else []
    arrays += group.kept
    arrays += [pa.array([one and one.truncated for one in encoded], pa.int32())]
    if options.arrays:
        tokens = [token for one in encoded if one for token in one.tokens]
        offsets, absent = _offsets([len(one.tokens) if one else None for one in encoded])
        for name, kind in _TOKEN_COLUMNS.values():
            values = pa.array(list(map(attrgetter(name), tokens)), kind)
            arrays.append(pa.ListArray.from_arrays(offsets, values, mask=absent))
    arrays += [_list_array(encoded, part, width, options) for part in options.arrays]
    if options.pooling:
        zero, vectors = np.zeros(width, np.float32), iter(group.vectors)
        values = _flat_array([next(vectors) if one else zero for one in encoded], options)
        absent = pa.array([one is None for one in encoded], pa.bool_())
        arrays.append(pa.FixedSizeListArray.from_arrays(values, width, mask=absent))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _list_array(
    encoded: Sequence[Encoded | None], part: Part, width: int, options: BulkOptions
) -> Any:
    """Return an Arrow list per row: its vectors, or its attention weights in C order."""
    arrays = [one.arrays[part].reshape(-1) if one else None for one in encoded]
    values = _flat_array([array for array in arrays if array is not None], options)
    unit = PER_TOKEN[part] * width if part in PER_TOKEN else 1
    if part in PER_TOKEN:
        values = pa.FixedSizeListArray.from_arrays(values, unit)
    offsets, absent = _offsets([None if a is None else len(a) // unit for a in arrays])
    return pa.ListArray.from_arrays(offsets, values, mask=absent)


def _flat_array(arrays: Sequence[NDArray[np.floating]], options: BulkOptions) -> Any:
    """Return the concatenated arrays as an Arrow array of the output's dtype."""
    joined = np.concatenate([np.empty(0, np.float32), *arrays])
    return pa.array(cast(joined, options.encoding.dtype))


def _offsets(lengths: Sequence[int | None]) -> tuple[Any, Any]:
    """Return the offsets of an Arrow list array, and the mask of its null rows."""
    starts = np.cumsum([0, *(length or 0 for length in lengths)], dtype=np.int32)
    absent = pa.array([length is None for length in lengths], pa.bool_())
    return pa.array(starts, pa.int32()), absent


# NumPy archives


def _write_npz(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    """Write an archive like that of /v1/encode, with the numbers of the rows."""
    options, ranges = job.options, shard.ranges
    texts: list[Text | None] = [text for one in ranges for text in one.rows.column(0).to_pylist()]
    present = ["" if text is None else text for text in texts]
    rows = _Rows(ranges[0].name, ranges[0].first, present) if ranges else _Rows("", 0, present)
    sentences = _tokenize(job, model, rows, options.encoding)
    numbers = [np.arange(one.first, one.first + len(one.rows)) for one in ranges]
    arrays = {"rows": np.concatenate([np.empty(0, np.int64), *numbers])}
    if job.several_files:
        names = [one.name for one in ranges for _ in range(len(one.rows))]
        arrays["files"] = np.array(names, np.str_)
    if options.pooling:
        pooled = [
            sentence_vector(model, one, options.pooling)
            for one in _encode_each(model, sentences, pooled_options(options.pooling))
        ]
        vectors = np.array(pooled, np.float32).reshape(len(texts), model.manifest.dimension)
        arrays["vectors"] = cast(vectors, options.encoding.dtype)
    totals = _count(sentences, texts)
    with ZipFile(file, "w") as archive:
        _write_encoded(archive, model, sentences, options.encoding)
        for name, array in arrays.items():
            _write_member(archive, name, array)
        archive.comment = orjson.dumps(asdict(totals))
    return totals


def _write_encoded(
    archive: ZipFile, model: Model, sentences: Sequence[Tokenized], options: EncodeOptions
) -> None:
    """Write the members of `serialize.npz_archive` without keeping all arrays in memory.

    Sentences are encoded once for each array [N, d] and once for the arrays per layer.
    """
    offsets = np.cumsum([0, *(len(one.tokens) for one in sentences)], dtype=np.int64)
    facts = [{"tokens": token_documents(t), "truncated": cut} for t, cut in sentences]
    _write_member(archive, "offsets", offsets)
    _write_member(archive, "tokens", np.frombuffer(orjson.dumps(facts), np.uint8))
    for part, width in PER_TOKEN.items():
        if part in options.include:
            shape = (int(offsets[-1]), width * model.manifest.dimension)
            header = {"descr": np.dtype(options.dtype).str, "fortran_order": False, "shape": shape}
            alone = replace(options, include=frozenset({part}))
            with archive.open(f"{part}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                for one in _encode_each(model, sentences, alone):
                    member.write(np.ascontiguousarray(one.arrays[part]).data)
    others = replace(options, include=options.include.difference(PER_TOKEN))
    for number, one in enumerate(_encode_each(model, sentences, others)):
        for part, array in one.arrays.items():
            _write_member(archive, f"{part}_{number}", array)


def _encode_each(
    model: Model, sentences: Sequence[Tokenized], options: EncodeOptions
) -> Iterator[Encoded]:
    timings = Timings()
    return (encode_sentence(model, one, options, timings) for one in sentences)


def _write_member(archive: ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
