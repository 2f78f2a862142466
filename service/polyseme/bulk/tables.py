"""Write the rows of a shard as Parquet or as lines of JSON."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.bulk.job import BulkOptions, Job, RowKind
from polyseme.bulk.rows import Rows, Totals, count_rows, tokenize_rows
from polyseme.bulk.sources import Shard
from polyseme.models.model import Model
from polyseme.operations.compare import match_forms, word_places
from polyseme.operations.embed import pooled_part, sentence_vectors
from polyseme.operations.encode import Encoded, Text, Tokenized, cast, encode_each, encode_sentence
from polyseme.operations.options import PER_TOKEN, EncodeOptions, Part
from polyseme.tokenizer import ResolvedToken

_TOKEN_COLUMNS = {
    "token": ("text", pa.string()),
    "start": ("start", pa.int32()),
    "end": ("end", pa.int32()),
    "key": ("key", pa.string()),
    "resolution": ("resolution", pa.string()),
}
"""The columns of tokens: the attribute of the token and the type. In rows of sentences, these
columns are lists, and their names are plural."""
_NUMBERS = ("static", "contextual", "features", "attention", "vector")
"""The columns of floating-point numbers, which are the last ones."""
COLUMNS: dict[RowKind, tuple[str, ...]] = {
    "sentences": ("row", "file", "truncated", *(f"{name}s" for name in _TOKEN_COLUMNS), *_NUMBERS),
    "tokens": ("row", "file", "place", *_TOKEN_COLUMNS, *_NUMBERS),
}
"""The reserved column names by kind of rows; columns of `--keep` must have other names."""
_GROUP_NUMBERS = 1 << 22
"""Approximate maximum count of numbers in a row group. One group is in memory at a time."""
_BATCH_CHARACTERS = 1 << 20
"""Approximate maximum number of characters in a batch."""
TOTALS_KEY = "polyseme"
"""The metadata key of the totals in Parquet. The totals of a .npz archive are its comment, those of
a .jsonl file are in a separate file."""


_Write: TypeAlias = Callable[[Any], None]
"""Write a `pyarrow.RecordBatch`."""


def write_table(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    """Encode the rows of a shard batch by batch, and write them."""
    options = job.options
    columns = _schema(job, model.manifest.dimension)
    # Encode in float32, so that a pooled vector is rounded only once, after pooling.
    pooled = [pooled_part(options.pooling)] if options.pooling else []
    include = [*options.encoding.include, *pooled]
    encoding = options.encoding.model_copy(update={"include": include, "dtype": "float32"})
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
        writer.add_key_value_metadata({TOTALS_KEY: orjson.dumps(asdict(totals)).decode()})
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


def _batches(job: Job, shard: Shard) -> Iterator[Rows]:
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
            yield Rows(one.name, one.first + start, texts[start:end], kept)
            start = end


def _write_sentences(
    write: _Write, job: Job, model: Model, rows: Rows, options: EncodeOptions, columns: Any
) -> Totals:
    """Write a row for each sentence."""
    sentences = tokenize_rows(job, model, rows, options)
    for group in _groups(job, model, rows, sentences, options):
        write(_record_batch(job, group, columns, model.manifest.dimension))
    return count_rows(sentences, rows.texts)


@dataclass
class _RowGroup:
    """Encoded rows that are written together."""

    file: str
    first: int
    """number of the first row in its file"""
    encoded: list[Encoded | None] = field(default_factory=list)
    """one per row; None for a row without a text"""
    vectors: Sequence[NDArray[np.float32]] = ()
    """sentence vectors [d] of the rows that have a text"""
    kept: list[Any] = field(default_factory=list)
    """columns copied from the input"""


def _groups(
    job: Job,
    model: Model,
    rows: Rows,
    sentences: Sequence[Tokenized],
    options: EncodeOptions,
) -> Iterator[_RowGroup]:
    """Encode a batch, and yield its rows in groups.

    A group ends when it has `_GROUP_NUMBERS` numbers, or with the batch.
    """
    pooling = job.options.pooling
    encoded = encode_each(model, sentences, options)
    start = size = 0
    unpooled: list[Encoded] = []
    group = _RowGroup(rows.file, rows.first)
    for place, text in enumerate(rows.texts):
        one = None if text is None else next(encoded)
        if one:
            if pooling:
                unpooled.append(one)
            if len(job.options.arrays) < len(one.arrays):
                one = one._replace(arrays={p: one.arrays[p] for p in job.options.arrays})
            size += sum(array.size for array in one.arrays.values())
        group.encoded.append(one)
        if size >= _GROUP_NUMBERS or place + 1 == len(rows.texts):
            group.kept = [column.slice(start, len(group.encoded)) for column in rows.kept]
            if pooling:
                group.vectors = list(sentence_vectors(model, unpooled, pooling))
            yield group
            unpooled = []
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
        offsets, absent = _offsets([len(one.sentence.words) if one else None for one in encoded])
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
    """index of its input row in the batch"""
    place: int
    """index of the token in the sentence"""
    token: ResolvedToken


def _write_tokens(
    write: _Write, job: Job, model: Model, rows: Rows, options: EncodeOptions, columns: Any
) -> Totals:
    """Write a row for each token, or for each occurrence of the words."""
    words, exact = job.options.words, job.options.exact
    texts = [text if _may_contain(text, words, exact) else None for text in rows.texts]
    sentences = tokenize_rows(job, model, replace(rows, texts=texts), options)
    wanted = match_forms(words, exact=exact)
    numbers = [number for number, text in enumerate(texts) if text is not None]
    (part,) = job.options.arrays
    found: list[_FoundToken] = []
    vectors: list[NDArray[np.float32]] = []
    size = written = unknown = 0
    for number, sentence in zip(numbers, sentences, strict=True):
        tokens = sentence.tokens
        places = list(range(len(tokens)))
        if words:
            places = word_places([token.text for token in tokens], wanted, exact=exact)
        if places:
            encoded = encode_sentence(model, sentence, options).arrays[part][places]
            vectors.append(encoded.reshape(-1))
            size += encoded.size
            found += [_FoundToken(number, place, tokens[place]) for place in places]
        if found and (size >= _GROUP_NUMBERS or number == numbers[-1]):
            write(_token_batch(job, rows, found, vectors, columns))
            written += len(found)
            unknown += sum(one.token.resolution == "oov" for one in found)
            found, vectors, size = [], [], 0
    missing = sum(text is None for text in rows.texts)
    return Totals(len(texts), written, unknown, sum(one.truncated for one in sentences), missing)


def _may_contain(text: Text | None, words: Sequence[str], exact: bool) -> bool:
    """Return whether a token of a text may equal one of the words. Without words, any token does.

    The text of a token is a part of the text, and casefold converts each character separately.
    White space between the words of a phrase counts as one space, as in `word_places`.
    """
    if text is None or not words or not isinstance(text, str):
        return text is not None
    spaced = " ".join(text.split())
    folded = spaced if exact else spaced.casefold()
    return any((word if exact else word.casefold()) in folded for word in words)


def _token_batch(
    job: Job,
    rows: Rows,
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
    item = PER_TOKEN[part] * width if part in PER_TOKEN else 1
    if part in PER_TOKEN:
        values = pa.FixedSizeListArray.from_arrays(values, item)
    offsets, absent = _offsets([None if a is None else len(a) // item for a in arrays])
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
