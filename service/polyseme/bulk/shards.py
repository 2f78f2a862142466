"""Encode the sentences of a shard and write them as Parquet, lines of JSON or a NumPy archive."""

import io
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile, ZipFile

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.atomic_files import atomic_files
from polyseme.bulk.job import BulkOptions, Job, RowKind
from polyseme.bulk.sources import Shard
from polyseme.command_error import CommandError
from polyseme.encoding.compare import word_places
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
from polyseme.tokenizer import ResolvedToken

_TOKEN_COLUMNS = {
    "token": ("text", pa.string()),
    "start": ("start", pa.int32()),
    "end": ("end", pa.int32()),
    "key": ("key", pa.string()),
    "resolution": ("resolution", pa.string()),
}
"""The columns of tokens: the attribute of the token and the type. A row of a sentence has lists of
them, whose names are plural."""
_NUMBERS = ("static", "contextual", "features", "attention", "vector")
"""The columns of floating-point numbers, which are the last ones."""
COLUMNS: dict[RowKind, tuple[str, ...]] = {
    "sentences": ("row", "file", "truncated", *(f"{name}s" for name in _TOKEN_COLUMNS), *_NUMBERS),
    "tokens": ("row", "file", "place", *_TOKEN_COLUMNS, *_NUMBERS),
}
"""The names of all columns by kind of rows; columns of `--keep` must have other names."""
_GROUP_NUMBERS = 1 << 22
"""Approximate count of numbers in a row group. One group is in memory at a time."""
_BATCH_CHARACTERS = 1 << 20
"""Approximate number of characters in a batch."""
_TOTALS_KEY = "polyseme"
"""The metadata key of the totals in Parquet. A .npz archive has them as its comment, and lines of
JSON in a file of their own."""


@dataclass(frozen=True)
class Totals:
    """Counts of a shard or of all shards."""

    rows: int = 0
    """rows of the input"""
    tokens: int = 0
    """tokens in the output, or in the sentences of its vectors"""
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
    write = _write_npz if job.options.format == "npz" else _write_table
    path = job.shard_path(shard.number)
    # The totals come first, because a shard with its final name is complete.
    paths = [_totals_path(path), path] if job.options.format == "jsonl" else [path]
    with atomic_files(*paths) as files:
        try:
            totals = write(files[-1], job, model, shard)
            if len(files) > 1:
                files[0].write(orjson.dumps(asdict(totals)))
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


def _totals_path(path: Path) -> Path:
    """Return the path of the totals of a shard of lines of JSON."""
    return path.with_name(f"_{path.stem}.json")


def read_totals(path: Path) -> Totals:
    """Return the totals of a shard. Raises CommandError if its file is damaged."""
    try:
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                totals = archive.comment
        elif path.suffix == ".jsonl":
            totals = _totals_path(path).read_bytes()
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


# Tables: Parquet and lines of JSON

_Write: TypeAlias = Callable[[Any], None]
"""Write a `pyarrow.RecordBatch`."""


def _write_table(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    options = job.options
    columns = _schema(job, model.manifest.dimension)
    # Encode in float32, so that a pooled vector is rounded only once, after pooling.
    pooled: frozenset[Part] = frozenset({pooled_part(options.pooling)} if options.pooling else ())
    encoding = replace(options.encoding, include=options.encoding.include | pooled, dtype="float32")
    write_rows = _write_tokens if options.rows == "tokens" else _write_sentences

    def write_all(write: _Write) -> Totals:
        totals = Totals()
        for rows in _batches(job, shard):
            totals += write_rows(write, job, model, rows, encoding, columns)
        return totals

    if options.format == "jsonl":
        return write_all(partial(_write_lines, file))
    properties = _properties(columns, options.compression)
    with pq.ParquetWriter(file.name, columns, **properties) as writer:
        totals = write_all(writer.write_batch)
        writer.add_key_value_metadata({_TOTALS_KEY: orjson.dumps(asdict(totals)).decode()})
    return totals


def _write_lines(file: IO[bytes], batch: Any) -> None:
    """Write the rows of a `pyarrow.RecordBatch` as lines of JSON, with the columns as fields."""
    names = [name for name in batch.schema.names if name in _NUMBERS]
    numbers = [_number_rows(batch.column(name)) for name in names]
    style = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    for others, *arrays in zip(batch.drop_columns(names).to_pylist(), *numbers, strict=True):
        line = others | dict(zip(names, arrays, strict=True))
        # Columns of --keep may have types that JSON does not have, such as decimals.
        file.write(orjson.dumps(line, default=str, option=style))


def _number_rows(column: Any) -> Iterator[NDArray[np.floating] | None]:
    """Yield the array of each row of a list column; None for a null row."""
    for row in column:
        values = row.values
        if values is not None and pa.types.is_fixed_size_list(values.type):
            numbers = values.flatten().to_numpy(zero_copy_only=False)
            yield numbers.reshape(len(values), values.type.list_size)
        else:
            yield None if values is None else values.to_numpy(zero_copy_only=False)


def _schema(job: Job, width: int) -> Any:
    """Return the `pyarrow.Schema` of a shard; `width` is d."""
    options = job.options
    real = pa.float16() if options.encoding.dtype == "float16" else pa.float32()
    columns = [("row", pa.int64())]
    columns += [("file", pa.string())] if job.several_files else []
    columns += [(one.name, one.type) for one in job.kept]
    if options.rows == "tokens":
        columns += [("place", pa.int32())]
        columns += [(name, kind) for name, (_, kind) in _TOKEN_COLUMNS.items()]
        (part,) = options.arrays
        return pa.schema([*columns, ("vector", pa.list_(real, PER_TOKEN[part] * width))])
    columns += [("truncated", pa.int32())]
    if options.arrays:
        columns += [(f"{name}s", pa.list_(kind)) for name, (_, kind) in _TOKEN_COLUMNS.items()]
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


def _write_sentences(
    write: _Write, job: Job, model: Model, rows: _Rows, options: EncodeOptions, columns: Any
) -> Totals:
    """Write a row for each sentence."""
    sentences = _tokenize(job, model, rows, options)
    for group in _groups(job, model, rows, sentences, options):
        write(_record_batch(job, group, columns, model.manifest.dimension))
    return _count(sentences, rows.texts)


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


class _FoundToken(NamedTuple):
    """A token that is written as a row."""

    number: int
    """index of its row of the input in the batch"""
    place: int
    """index of the token in the sentence"""
    token: ResolvedToken


def _write_tokens(
    write: _Write, job: Job, model: Model, rows: _Rows, options: EncodeOptions, columns: Any
) -> Totals:
    """Write a row for each token, or for each occurrence of the words."""
    words, exact = job.options.words, job.options.exact
    texts = [text if _may_contain(text, words, exact) else None for text in rows.texts]
    sentences = _tokenize(job, model, replace(rows, texts=texts), options)
    numbers = [number for number, text in enumerate(texts) if text is not None]
    (part,), timings = job.options.arrays, Timings()
    found: list[_FoundToken] = []
    vectors: list[NDArray[np.float32]] = []
    size = written = unknown = 0
    for number, sentence in zip(numbers, sentences, strict=True):
        tokens = sentence.tokens
        places = word_places(tokens, words, exact=exact) if words else [*range(len(tokens))]
        if places:
            encoded = encode_sentence(model, sentence, options, timings).arrays[part][places]
            vectors.append(encoded.reshape(-1))
            size += encoded.size
            found += [_FoundToken(number, place, tokens[place]) for place in places]
        if found and (size >= _GROUP_NUMBERS or number == numbers[-1]):
            write(_token_batch(job, rows, found, vectors, columns))
            written += len(found)
            unknown += sum(one.token.resolution == "oov" for one in found)
            found, vectors, size = [], [], 0
    missing = sum(text is None for text in rows.texts)
    return Totals(len(texts), written, unknown, sum(cut for _, cut in sentences), missing)


def _may_contain(text: Text | None, words: Sequence[str], exact: bool) -> bool:
    """Return whether a token of a text may equal one of the words. Without words, any token does.

    The text of a token is a part of the text, and casefold converts each character separately.
    """
    if text is None or not words or not isinstance(text, str):
        return text is not None
    folded = text if exact else text.casefold()
    return any((word if exact else word.casefold()) in folded for word in words)


def _token_batch(
    job: Job,
    rows: _Rows,
    found: Sequence[_FoundToken],
    vectors: Sequence[NDArray[np.float32]],
    columns: Any,
) -> Any:
    """Return the tokens as a `pyarrow.RecordBatch`."""
    numbers = np.array([one.number for one in found], np.int64)
    arrays: list[Any] = [pa.array(numbers + rows.first)]
    arrays += [pa.array([rows.file] * len(found), pa.string())] if job.several_files else []
    arrays += [column.take(pa.array(numbers)) for column in rows.kept]
    arrays += [pa.array([one.place for one in found], pa.int32())]
    for name, kind in _TOKEN_COLUMNS.values():
        arrays.append(pa.array([getattr(one.token, name) for one in found], kind))
    values = _flat_array(vectors, job.options)
    arrays.append(pa.FixedSizeListArray.from_arrays(values, columns.field("vector").type.list_size))
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
