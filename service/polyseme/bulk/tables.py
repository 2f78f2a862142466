"""Write the rows of a shard as Parquet or as lines of JSON."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from operator import attrgetter
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.bulk.job import Job, RowKind
from polyseme.bulk.sources import RowRange, Shard
from polyseme.errors import CommandError, InvalidError, PolysemeError, UnknownWordError
from polyseme.models.model import Model
from polyseme.operations.compare import match_forms, word_places
from polyseme.operations.embed import pooled_part, sentence_vectors
from polyseme.operations.encode import (
    Encoded,
    Text,
    TokenCounts,
    cast,
    encode_each,
    tokenize,
)
from polyseme.operations.options import PER_TOKEN, EncodeOptions, Limits
from polyseme.tokenizer import ResolvedToken, Tokenized

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
_HINTS = {
    "too_large": "--truncate cuts such sentences.",
    "unknown_word": "--oov zero gives such words a zero vector.",
    "out_of_range": "Use --dtype float32.",
}


@dataclass(frozen=True)
class Totals:
    """Counts of a shard or of all shards."""

    rows: int = 0
    """rows of the input"""
    tokens: int = 0
    """tokens of the texts; with rows of tokens, only those that are written"""
    unknown: int = 0
    """tokens without a vector"""
    truncated: int = 0
    """words that were cut off"""
    missing: int = 0
    """rows without a text"""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def tokenize_rows(
    job: Job, model: Model, rows: RowRange, texts: Sequence[Text | None], options: EncodeOptions
) -> list[Tokenized]:
    """Tokenize the texts of rows that have one.

    Raises CommandError with the number of a bad row.
    """
    limits = Limits(max_sentence_tokens=job.options.max_sentence_tokens)
    try:
        return tokenize(model, [text for text in texts if text is not None], options, limits)
    except PolysemeError as error:
        for place, text in enumerate(texts):
            try:
                tokenize(model, [] if text is None else [text], options, limits)
            except PolysemeError as row_error:
                raise bulk_error(row_error, rows.label(place)) from None
        raise bulk_error(error, rows.label(0)) from None


def bulk_error(error: PolysemeError, where: str) -> CommandError:
    """Return an error that names the rows, and that can be pickled between processes."""
    sentence = error.detail
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        sentence = "; ".join(field.message for field in error.errors) + "."
    return CommandError(f"{where}: {sentence} {_HINTS.get(error.code, error.hint)}")


def count_rows(sentences: Sequence[Tokenized], texts: Sequence[Text | None]) -> Totals:
    """Return the totals of rows."""
    counts = TokenCounts(sentences)
    missing = sum(text is None for text in texts)
    return Totals(len(texts), counts.tokens, counts.oov, counts.truncated, missing)


def write_table(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    """Encode the rows of a shard batch by batch, and write them."""
    table = Table(job, model)
    if job.options.format == "jsonl":
        names = [name for name in table.schema.names if name in _NUMBERS]
        style = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        for batch in table.batches(shard):
            rows = batch.drop_columns(names).to_pylist()
            columns = [_number_rows(batch.column(name)) for name in names]
            for row, *arrays in zip(rows, *columns, strict=True):
                line = row | dict(zip(names, arrays, strict=True))
                # Columns of --keep may have types that JSON does not have, such as decimals.
                file.write(orjson.dumps(line, default=str, option=style))
        return table.totals
    empty = io.BytesIO()
    pq.write_table(table.schema.empty_table(), empty)
    leaves = pq.ParquetFile(empty).schema
    paths = [leaves.column(place).path for place in range(len(leaves))]
    # Floating-point numbers hardly compress, and their minimum and maximum are useless.
    numbers = {path for path in paths if path.split(".")[0] in _NUMBERS}
    others = [path for path in paths if path not in numbers]
    compression = job.options.compression
    with pq.ParquetWriter(
        file.name,
        table.schema,
        compression={path: compression if path in numbers else "zstd" for path in paths},
        use_dictionary=others,
        write_statistics=others,
        use_byte_stream_split=sorted(numbers) if compression == "zstd" else False,
    ) as writer:
        for batch in table.batches(shard):
            writer.write_batch(batch)
        writer.add_key_value_metadata({TOTALS_KEY: orjson.dumps(asdict(table.totals)).decode()})
    return table.totals


def _number_rows(column: Any) -> Iterator[NDArray[np.floating] | None]:
    """Yield the array of each row of a list column; None for a null row."""
    for row in column:
        values = row.values
        if values is not None and pa.types.is_fixed_size_list(values.type):
            numbers = values.flatten().to_numpy(zero_copy_only=False)
            yield numbers.reshape(len(values), values.type.list_size)
        else:
            yield None if values is None else values.to_numpy(zero_copy_only=False)


class Table:
    """The table of a shard as record batches, whose rows are encoded as they are read."""

    def __init__(self, job: Job, model: Model) -> None:
        options, self.width = job.options, model.manifest.dimension
        self.job, self.options, self.model = job, options, model
        self.totals = Totals()
        # Encode in float32, so that a pooled vector is rounded only once, after pooling.
        pooled = [pooled_part(options.pooling)] if options.pooling else []
        include = [*options.encoding.include, *pooled]
        self.encoding = options.encoding.model_copy(update={"include": include, "dtype": "float32"})
        real = pa.float16() if options.encoding.dtype == "float16" else pa.float32()
        columns = [("row", pa.int64())]
        columns += [("file", pa.string())] if job.several_files else []
        columns += [(field.name, field.type) for field in job.kept]
        if options.rows == "tokens":
            columns += [("place", pa.int32())]
            columns += [(name, kind) for name, (_, kind) in _TOKEN_COLUMNS.items()]
            (part,) = options.arrays
            columns += [("vector", pa.list_(real, PER_TOKEN[part] * self.width))]
        else:
            columns += [("truncated", pa.int32())]
            if options.arrays:
                lists = ((f"{name}s", pa.list_(kind)) for name, (_, kind) in _TOKEN_COLUMNS.items())
                columns += lists
            for part in options.arrays:
                row = pa.list_(real, PER_TOKEN[part] * self.width) if part in PER_TOKEN else real
                columns.append((part, pa.list_(row)))
            columns += [("vector", pa.list_(real, self.width))] if options.pooling else []
        self.schema = pa.schema(columns)

    def batches(self, shard: Shard) -> Iterator[Any]:
        """Yield `pyarrow.RecordBatch`es; the rows are encoded in batches of bounded size."""
        encode_rows = self.tokens if self.options.rows == "tokens" else self.sentences
        for rows in shard.ranges:
            texts = rows.texts
            start = 0
            while start < len(texts):
                end, characters = start, 0
                last = min(len(texts), start + self.options.batch_rows)
                while end < last and characters < _BATCH_CHARACTERS:
                    characters += sum(map(len, texts[end] or ()))
                    end += 1
                yield from encode_rows(rows.slice(start, end), texts[start:end])
                start = end

    def sentences(self, rows: RowRange, texts: list[Text | None]) -> Iterator[Any]:
        """Yield a row for each sentence, in groups of about `_GROUP_NUMBERS` numbers."""
        tokenized = tokenize_rows(self.job, self.model, rows, texts, self.encoding)
        self.totals += count_rows(tokenized, texts)
        encoded = encode_each(self.model, tokenized, self.encoding)
        group: list[Encoded | None] = []
        start = size = 0
        for place, text in enumerate(texts):
            sentence = None if text is None else next(encoded)
            if sentence:
                size += sum(array.size for array in sentence.arrays.values())
            group.append(sentence)
            if size >= _GROUP_NUMBERS or place + 1 == len(texts):
                yield self.sentence_batch(rows.slice(start, place + 1), group)
                group, start, size = [], place + 1, 0

    def sentence_batch(self, rows: RowRange, group: list[Encoded | None]) -> Any:
        """Return rows as a record batch."""
        arrays = self.origin(rows, np.arange(len(group)), rows.kept)
        arrays += [pa.array([sentence and sentence.truncated for sentence in group], pa.int32())]
        present = [sentence for sentence in group if sentence]
        if self.options.arrays:
            tokens = [token for sentence in present for token in sentence.tokens]
            offsets, absent = _offsets([s and len(s.sentence.words) for s in group])
            for name, kind in _TOKEN_COLUMNS.values():
                values = pa.array(list(map(attrgetter(name), tokens)), kind)
                arrays.append(pa.ListArray.from_arrays(offsets, values, mask=absent))
        for part in self.options.arrays:
            # Vectors, or attention weights in C order.
            values = self.numbers([sentence.arrays[part].reshape(-1) for sentence in present])
            item = PER_TOKEN[part] * self.width if part in PER_TOKEN else 1
            if part in PER_TOKEN:
                values = pa.FixedSizeListArray.from_arrays(values, item)
            offsets, absent = _offsets([s and s.arrays[part].size // item for s in group])
            arrays.append(pa.ListArray.from_arrays(offsets, values, mask=absent))
        if self.options.pooling:
            missing = np.array([sentence is None for sentence in group])
            vectors = np.zeros((len(group), self.width), np.float32)
            vectors[~missing] = sentence_vectors(self.model, present, self.options.pooling)
            values, absent = self.numbers([vectors.reshape(-1)]), pa.array(missing, pa.bool_())
            arrays.append(pa.FixedSizeListArray.from_arrays(values, self.width, mask=absent))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def tokens(self, rows: RowRange, texts: list[Text | None]) -> Iterator[Any]:
        """Yield a row for each token, or for each occurrence of the words."""
        words, exact = self.options.words, self.options.exact
        searched = [word if exact else word.casefold() for word in words]

        def may_contain(text: Text | None) -> bool:
            """Return whether a token of the text may equal one of the words, if there are words.

            The text of a token is a part of the text, and casefold converts each character
            separately. White space between the words of a phrase counts as one space, as in
            `word_places`.
            """
            if not words or not isinstance(text, str):
                return text is not None
            spaced = " ".join(text.split())
            folded = spaced if exact else spaced.casefold()
            return any(word in folded for word in searched)

        candidates = [text if may_contain(text) else None for text in texts]
        tokenized = tokenize_rows(self.job, self.model, rows, candidates, self.encoding)
        forms = match_forms(words, exact=exact)
        numbers = [number for number, text in enumerate(candidates) if text is not None]
        found: list[tuple[int, Tokenized, list[int]]] = []
        """the index of the row in the batch, its tokens, the indices of the occurrences"""
        for number, sentence in zip(numbers, tokenized, strict=True):
            places = list(range(len(sentence.words)))
            if words:
                places = word_places([token.text for token in sentence.words], forms, exact=exact)
            if places:
                found.append((number, sentence, places))
        encoded = encode_each(self.model, (sentence for _, sentence, _ in found), self.encoding)
        (part,) = self.options.arrays
        matches: list[tuple[int, int, ResolvedToken]] = []
        """the index of the row in the batch, the index of the token in the sentence, the token"""
        vectors: list[NDArray[np.float32]] = []
        size = 0
        for number, sentence, places in found:
            tokens = sentence.tokens
            vectors.append(next(encoded).arrays[part][places].reshape(-1))
            size += vectors[-1].size
            matches += [(number, place, tokens[place]) for place in places]
            if size >= _GROUP_NUMBERS or number == found[-1][0]:
                yield self.token_batch(rows, matches, vectors)
                unknown = sum(token.resolution == "oov" for _, _, token in matches)
                self.totals += Totals(tokens=len(matches), unknown=unknown)
                matches, vectors, size = [], [], 0
        missing = sum(text is None for text in texts)
        truncated = sum(sentence.truncated for sentence in tokenized)
        self.totals += Totals(rows=len(texts), truncated=truncated, missing=missing)

    def token_batch(
        self,
        rows: RowRange,
        matches: list[tuple[int, int, ResolvedToken]],
        vectors: list[NDArray[np.float32]],
    ) -> Any:
        """Return tokens as a record batch."""
        numbers, places, tokens = zip(*matches, strict=True)
        kept = [column.take(pa.array(numbers)) for column in rows.kept]
        arrays = self.origin(rows, np.array(numbers), kept)
        arrays += [pa.array(places, pa.int32())]
        for name, kind in _TOKEN_COLUMNS.values():
            arrays.append(pa.array(list(map(attrgetter(name), tokens)), kind))
        width = self.schema.field("vector").type.list_size
        arrays.append(pa.FixedSizeListArray.from_arrays(self.numbers(vectors), width))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def origin(self, rows: RowRange, numbers: NDArray[np.int64], kept: list[Any]) -> list[Any]:
        """Return the columns that tell where rows come from, and the columns to keep."""
        arrays = [pa.array(numbers + rows.first)]
        if self.job.several_files:
            arrays.append(pa.array([rows.name] * len(numbers), pa.string()))
        return arrays + kept

    def numbers(self, arrays: Sequence[NDArray[np.floating]]) -> Any:
        """Return the concatenated arrays as an Arrow array of the output's dtype."""
        joined = np.concatenate([np.empty(0, np.float32), *arrays])
        return pa.array(cast(joined, self.options.encoding.dtype))


def _offsets(lengths: Sequence[int | None]) -> tuple[Any, Any]:
    """Return the offsets of an Arrow list array, and the mask of its null rows."""
    starts = np.cumsum([0, *(length or 0 for length in lengths)], dtype=np.int32)
    absent = pa.array([length is None for length in lengths], pa.bool_())
    return pa.array(starts, pa.int32()), absent
