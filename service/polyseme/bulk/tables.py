"""Write the rows of a shard as Parquet or as lines of JSON."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import chain, pairwise
from operator import itemgetter
from typing import IO, Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.bulk.job import Job, RowKind
from polyseme.bulk.parquet import row_bytes
from polyseme.bulk.sources import RowRange, Shard
from polyseme.engine.arrays import Floats, NonFiniteError
from polyseme.errors import (
    CommandError,
    InvalidError,
    OutOfRangeError,
    PolysemeError,
    UnknownWordError,
)
from polyseme.models.model import Model
from polyseme.operations.compare import match_forms, word_places
from polyseme.operations.embed import pool, pooled_part
from polyseme.operations.encode import Text, TokenCounts, cast, encode_stacks, tokenize
from polyseme.operations.inventory import ApplySensesRequest, apply_senses
from polyseme.operations.limits import Limits
from polyseme.operations.options import EncodeOptions, Part
from polyseme.tokenizer import ResolvedToken, Tokenized

_TOKEN_COLUMNS = {
    "token": pa.string(),
    "start": pa.int32(),
    "end": pa.int32(),
    "key": pa.string(),
    "resolution": pa.string(),
}
"""The columns of tokens and their types. In rows of sentences, these columns are lists, and their
names are plural."""
_SENSES = pa.list_(
    pa.struct(
        [
            ("word", pa.string()),
            *((name, pa.int32()) for name in ("start", "end", "sense")),
            *(("label", pa.string()), ("confidence", pa.float32()), ("unsure", pa.bool_())),
        ]
    )
)
"""The type of the column of senses: a list of occurrences in each row."""
_NUMBERS = ("static", "contextual", "features", "attention", "vector")
"""The columns of floating-point numbers, which are the last ones."""
COLUMNS: dict[RowKind, tuple[str, ...]] = {
    "sentences": (
        *("row", "file", "truncated", "senses"),
        *(f"{name}s" for name in _TOKEN_COLUMNS),
        *_NUMBERS,
    ),
    "tokens": ("row", "file", "place", *_TOKEN_COLUMNS, *_NUMBERS),
}
"""The reserved column names by kind of rows; columns of `--keep` must have other names."""
_GROUP_NUMBERS = 1 << 22
"""Approximate maximum count of numbers in a row group."""
_GROUPS = 4
"""Row groups of sentences that are encoded together: more sentences have more of equal length,
which are computed as a stack."""
_BATCH_CHARACTERS = 1 << 20
"""Approximate maximum number of characters in a batch."""
_KEPT_BYTES = 8 << 20
"""Approximate maximum size of copied columns in a batch of tokens."""
TOTALS_KEY = "polyseme"
"""The metadata key of the totals in Parquet. The totals of a .npz archive are its comment, those of
a .jsonl file are in a separate file."""
_HINTS = {
    "too_large": "--truncate cuts such sentences.",
    "unknown_word": "--oov zero gives such words a zero vector.",
    "out_of_range": "Use --dtype float32, or a model with smaller vectors.",
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
    failed: int = 0
    """rows with an error"""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class RowErrors:
    """The rows of a shard that have no vectors because of an error."""

    def __init__(self, job: Job) -> None:
        self.entries: dict[tuple[str, int], dict[str, Any]] = {}
        """what is wrong, by file and row"""
        self._policy = job.options.on_error

    def add(self, rows: RowRange, place: int, error: PolysemeError | str) -> None:
        """Record what is wrong with a row; raise it as CommandError if the job ends at errors."""
        if isinstance(error, str):
            code, message = "unreadable", f"The row {error}."
        else:
            code, message = error.code, bulk_error(error)
        if self._policy == "fail":
            raise CommandError(f"{rows.label(place)}: {message}")
        row = rows.first + place
        entry = {"file": rows.name, "row": row, "code": code, "error": message}
        self.entries[rows.name, row] = entry

    def without_errors(
        self, rows: RowRange, sentences: Sequence[Tokenized | PolysemeError | None]
    ) -> list[Tokenized | None]:
        """Return the sentences of rows, with None instead of errors, which are recorded."""
        for place, problem in rows.problems.items():
            self.add(rows, place, problem)
        remaining: list[Tokenized | None] = []
        for place, sentence in enumerate(sentences):
            if isinstance(sentence, PolysemeError):
                self.add(rows, place, sentence)
            remaining.append(None if isinstance(sentence, PolysemeError) else sentence)
        return remaining

    def in_order(self, shard: Shard) -> list[dict[str, Any]]:
        """Return what is wrong, in the order of the rows."""
        files = {rows.name: place for place, rows in enumerate(shard.ranges)}
        order = sorted(self.entries, key=lambda row: (files[row[0]], row[1]))
        return [self.entries[row] for row in order]

    def left_out(self, rows: RowRange) -> NDArray[np.bool_]:
        """Return which rows have an error and are not written at all."""
        if self._policy != "skip":
            return np.zeros(len(rows.rows), np.bool_)
        places = range(len(rows.rows))
        return np.array([(rows.name, rows.first + n) in self.entries for n in places], np.bool_)


def tokenize_texts(
    job: Job, model: Model, texts: Sequence[Text | None], options: EncodeOptions
) -> list[Tokenized | PolysemeError | None]:
    """Return the tokens of each text or its error; None for None."""
    limits = Limits(max_sentence_tokens=job.options.max_sentence_tokens)
    try:
        present = [text for text in texts if text is not None]
        tokenized = iter(tokenize(model, present, options, limits))
        return [None if text is None else next(tokenized) for text in texts]
    except PolysemeError as error:
        if len(texts) == 1:
            return [error]
        return [one for text in texts for one in tokenize_texts(job, model, [text], options)]


def bulk_error(error: PolysemeError) -> str:
    """Return what is wrong with a row and what to do, without the number of the text."""
    sentence = error.detail
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        sentence = "; ".join(field.message for field in error.errors) + "."
    return f"{sentence} {_HINTS.get(error.code, error.hint)}"


def count_rows(rows: RowRange, sentences: Sequence[Tokenized | None]) -> Totals:
    """Return the totals of rows, without those with an error."""
    counts = TokenCounts(filter(None, sentences))
    missing = rows.rows.column(0).null_count - len(rows.problems)
    return Totals(len(rows.rows), counts.tokens, counts.oov, counts.truncated, missing)


def write_table(file: IO[bytes], job: Job, model: Model, shard: Shard, errors: RowErrors) -> Totals:
    """Encode the rows of a shard batch by batch, and write them."""
    table = Table(job, model, errors)
    if job.options.format == "jsonl":
        names = [name for name in table.schema.names if name in _NUMBERS]
        style = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        for batch in table.batches(shard):
            columns = [_number_rows(batch.column(name)) for name in names]
            try:
                rows = batch.drop_columns(names).to_pylist()
            except (OverflowError, ValueError):
                raise CommandError(
                    "A column of --keep has a date or time that JSON lines cannot have, such as one"
                    " after the year 9999: use --format parquet."
                ) from None
            for row, *arrays in zip(rows, *columns, strict=True):
                line = row | dict(zip(names, arrays, strict=True))
                # Columns of --keep may have types that JSON does not have, such as decimals.
                file.write(orjson.dumps(line, default=str, option=style))
        return table.totals + Totals(failed=len(errors.entries))
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
        totals = table.totals + Totals(failed=len(errors.entries))
        writer.add_key_value_metadata({TOTALS_KEY: orjson.dumps(asdict(totals)).decode()})
    return totals


def _number_rows(column: Any) -> Iterator[NDArray[np.floating] | None]:
    """Yield the array of each row of a list column; None for a null row."""
    for row in column:
        values = row.values
        if values is not None and pa.types.is_fixed_size_list(values.type):
            numbers = values.flatten().to_numpy(zero_copy_only=False)
            yield numbers.reshape(len(values), values.type.list_size)
        else:
            yield None if values is None else values.to_numpy(zero_copy_only=False)


class Chosen(NamedTuple):
    """A sentence with tokens to write."""

    number: int
    """the index of the row in its batch"""
    sentence: Tokenized
    places: list[int] | None = None
    """the indices of the tokens; None for all"""

    @property
    def words(self) -> list[ResolvedToken]:
        """The tokens, without offsets if the sentence has a text."""
        words = self.sentence.words
        return words if self.places is None else [words[place] for place in self.places]

    @property
    def starts(self) -> Sequence[int | None]:
        """The offset of each token."""
        sentence = self.sentence
        starts: Sequence[int | None] = sentence.starts
        if sentence.text is None:
            starts = [word.start for word in sentence.words]
        return starts if self.places is None else [starts[place] for place in self.places]


class Table:
    """The table of a shard as record batches, whose rows are encoded as they are read."""

    def __init__(self, job: Job, model: Model, errors: RowErrors) -> None:
        options, self.width = job.options, model.manifest.dimension
        self.job, self.options, self.model, self.errors = job, options, model, errors
        self.totals = Totals()
        self.previous: tuple[list[Any], list[Any]] = [], []
        """the texts of the last batch, and their tokens"""
        dtype = options.encoding.dtype
        self.memory: dict[Part, Floats] = {part: np.empty(0, dtype) for part in options.arrays}
        # Encode in float32, so that a pooled vector is rounded only once, after pooling.
        pooled = [pooled_part(options.pooling)] if options.pooling else []
        encoding, include = options.encoding, [*options.encoding.include, *pooled]
        self.encoding = encoding.model_copy(update={"include": include, "dtype": "float32"})
        alone = {part: encoding.model_copy(update={"include": [part]}) for part in options.arrays}
        self.numbers = {part: one.array_numbers(model) for part, one in alone.items()}
        """for n tokens, an array has n·a + n²·b numbers"""
        real = pa.float16() if options.encoding.dtype == "float16" else pa.float32()
        columns = [("row", pa.int64())]
        columns += [("file", pa.string())] if job.several_files else []
        columns += [(field.name, field.type) for field in job.kept]
        if options.rows == "tokens":
            columns += [("place", pa.int32())]
            columns += _TOKEN_COLUMNS.items()
            (part,) = options.arrays
            columns += [("vector", pa.list_(real, self.numbers[part][0]))]
        else:
            columns += [("truncated", pa.int32())]
            columns += [("senses", _SENSES)] if options.senses else []
            if options.arrays:
                columns += ((f"{name}s", pa.list_(kind)) for name, kind in _TOKEN_COLUMNS.items())
            for part in options.arrays:
                per_token, _ = self.numbers[part]
                columns.append((part, pa.list_(pa.list_(real, per_token) if per_token else real)))
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
                    text = texts[end] or ""
                    characters += len(text if isinstance(text, str) else "".join(text))
                    end += 1
                yield from encode_rows(rows.slice(start, end), texts[start:end])
                start = end

    def tokenize(self, rows: RowRange, texts: list[Text | None]) -> list[Tokenized | None]:
        """Tokenize rows, but not again if they have the texts of the batch before.

        A small file can repeat a text that is a batch of its own thousands of times.
        """
        if texts != self.previous[0]:
            sentences = tokenize_texts(self.job, self.model, texts, self.encoding)
            self.previous = texts, sentences
        return self.errors.without_errors(rows, self.previous[1])

    def sentences(self, rows: RowRange, texts: list[Text | None]) -> Iterator[Any]:
        """Yield a row for each sentence."""
        sentences = self.tokenize(rows, texts)
        per_token, per_pair = self.encoding.array_numbers(self.model)
        lengths = [len(sentence.words) if sentence else 0 for sentence in sentences]
        groups = list(_groups([n * (per_token + n * per_pair) for n in lengths]))
        for first in range(0, len(groups), _GROUPS):
            window = groups[first : first + _GROUPS]
            start, end = window[0][0], window[-1][1]
            batch = self.sentence_batch(rows.slice(start, end), sentences[start:end])
            left_out = self.errors.left_out(rows)
            for start_of_group, end_of_group in window:
                part = slice(start_of_group, end_of_group)
                group = batch.slice(start_of_group - start, end_of_group - start_of_group)
                yield group.filter(pa.array(~left_out[part])) if left_out[part].any() else group

    def sentence_batch(self, rows: RowRange, sentences: list[Tokenized | None]) -> Any:
        """Return rows as a record batch."""
        missing = np.array([sentence is None for sentence in sentences])
        lengths = np.array([len(sentence.words) if sentence else 0 for sentence in sentences])
        chosen = [Chosen(number, one) for number, one in enumerate(sentences) if one]
        try:
            numbers, pooled = self.encode(chosen)
        except (NonFiniteError, OutOfRangeError):
            remaining = {one.number: one.sentence for one in self.encodable(rows, chosen)}
            return self.sentence_batch(rows, [remaining.get(n) for n in range(len(sentences))])
        self.totals += count_rows(rows, sentences)

        def lists(values: Any, counts: NDArray[np.int64] = lengths) -> Any:
            offsets = pa.array(np.cumsum([0, *counts], dtype=np.int32))
            return pa.ListArray.from_arrays(offsets, values, mask=pa.array(missing))

        arrays = self.origin(rows, np.arange(len(sentences)), rows.kept)
        arrays += [pa.array([one and one.truncated for one in sentences], pa.int32())]
        if self.options.senses:
            arrays.append(pa.array(self.senses(rows, sentences), _SENSES))
        if self.options.arrays:
            arrays += map(lists, token_columns(chosen))
        for part, values in numbers.items():
            per_token, per_pair = self.numbers[part]
            if per_token:
                arrays.append(lists(pa.FixedSizeListArray.from_arrays(values, per_token)))
            else:  # attention weights in C order
                arrays.append(lists(values, lengths**2 * per_pair))
        if self.options.pooling:
            vectors = np.zeros((len(sentences), self.width), pooled.dtype)
            vectors[~missing] = pooled
            values, mask = pa.array(vectors.reshape(-1)), pa.array(missing)
            arrays.append(pa.FixedSizeListArray.from_arrays(values, self.width, mask=mask))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def senses(
        self, rows: RowRange, sentences: Sequence[Tokenized | None]
    ) -> list[list[dict[str, Any]] | None]:
        """Return the occurrences of the inventories' words in each row; None without a text.

        Raises CommandError for a row of words instead of a text.
        """
        found: list[Any] = [None if sentence is None else [] for sentence in sentences]
        numbers = [number for number, sentence in enumerate(sentences) if sentence]
        texts = []
        for number in numbers:
            sentence = sentences[number]
            if sentence is None or sentence.text is None:
                raise CommandError(
                    f"{rows.label(number)}: --senses needs texts, not lists of words."
                )
            texts.append(sentence.text)
        for inventory in self.options.senses if texts else ():
            request = ApplySensesRequest.of(inventory=inventory, texts=texts)
            for one in apply_senses(self.model, request).occurrences:
                fields = {"word": inventory.word, **vars(one)}
                found[numbers[fields.pop("text")]].append(fields)
        return found

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
        tokenized = self.tokenize(rows, candidates)
        missing = texts.count(None) - len(rows.problems)
        truncated = sum(sentence.truncated for sentence in tokenized if sentence)
        self.totals += Totals(rows=len(texts), truncated=truncated, missing=missing)
        forms = match_forms(words, exact=exact)
        chosen = []
        for number, sentence in enumerate(tokenized):
            if sentence:
                tokens = [token.text for token in sentence.words]
                places = word_places(tokens, forms, exact=exact) if words else None
                chosen.append(Chosen(number, sentence, places))
        chosen = [one for one in chosen if one.words]
        (part,) = self.options.arrays
        per_token, _ = self.numbers[part]
        for start, end in _groups([len(one.words) * per_token for one in chosen]):
            yield from self.token_batches(rows, chosen[start:end])

    def token_batches(self, rows: RowRange, chosen: list[Chosen]) -> Iterator[Any]:
        """Yield tokens as record batches, each of which copies about _KEPT_BYTES of its rows."""
        try:
            ((part, values),) = self.encode(chosen)[0].items()
        except (NonFiniteError, OutOfRangeError):
            yield from self.token_batches(rows, self.encodable(rows, chosen))
            return
        counts = [len(one.words) for one in chosen]
        numbers = np.repeat(np.array([one.number for one in chosen], np.int64), counts)
        places = chain.from_iterable(one.places or range(len(one.words)) for one in chosen)
        columns = [pa.array(list(places), pa.int32()), *token_columns(chosen)]
        unknown = columns[-1].to_pylist().count("oov")
        self.totals += Totals(tokens=len(numbers), unknown=unknown)
        columns.append(pa.FixedSizeListArray.from_arrays(values, self.numbers[part][0]))
        kept_bytes = np.sum([row_bytes(column)[numbers] for column in rows.kept], axis=0)
        parts = np.cumsum(np.broadcast_to(kept_bytes, numbers.shape)) // _KEPT_BYTES
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(cuts):
            tokens = numbers[start:end]
            kept = [column.take(pa.array(tokens)) for column in rows.kept]
            arrays = self.origin(rows, tokens, kept)
            arrays += [column.slice(start, end - start) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def encode(self, chosen: Sequence[Chosen]) -> tuple[dict[Part, Any], Floats]:
        """Return the arrays to write, and the sentence vectors if there is a pooling.

        The numbers of an array are a flat Arrow array, one sentence after another. The next call
        reuses its memory, because the system takes long to provide new memory. -> [S, d]
        """
        dtype, pooling = self.options.encoding.dtype, self.options.pooling
        sentences = [one.sentence for one in chosen]
        lengths = np.array([len(one.words) for one in chosen], np.int64)
        ends: dict[Part, list[int]] = {}
        numbers: dict[Part, Floats] = {}
        for part in self.options.arrays:
            per_token, per_pair = self.numbers[part]
            ends[part] = np.cumsum([0, *(lengths * (per_token + lengths * per_pair))]).tolist()
            count = ends[part][-1]
            if count > len(self.memory[part]):
                self.memory[part] = np.empty(count * 5 // 4, dtype)
            numbers[part] = self.memory[part][:count]
        pooled = np.zeros((len(chosen), self.width if pooling else 0), np.float32)
        for stack, arrays in encode_stacks(self.model, sentences, self.encoding):
            for part, values in numbers.items():
                for number, array in zip(stack, cast(arrays[part], dtype), strict=True):
                    places = chosen[number].places
                    rows = array if places is None else array[places]
                    values[ends[part][number] : ends[part][number + 1]] = rows.reshape(-1)
            if pooling:
                words = [sentences[number].words for number in stack]
                vectors = arrays[pooled_part(pooling)]
                pooled[list(stack)] = pool(self.model, words, vectors, pooling)
        return {part: pa.array(values) for part, values in numbers.items()}, cast(pooled, dtype)

    def encodable(self, rows: RowRange, chosen: Sequence[Chosen]) -> list[Chosen]:
        """Return the sentences whose numbers are finite, and record the others as errors."""
        remaining = []
        for one in chosen:
            try:
                self.encode([one])
            except (NonFiniteError, OutOfRangeError):
                self.errors.add(rows, one.number, OutOfRangeError())
            else:
                remaining.append(one)
        return remaining

    def origin(self, rows: RowRange, numbers: NDArray[np.int64], kept: list[Any]) -> list[Any]:
        """Return the columns that tell where rows come from, and the columns to keep."""
        arrays = [pa.array(numbers + rows.first)]
        if self.job.several_files:
            arrays.append(pa.array([rows.name] * len(numbers), pa.string()))
        return arrays + kept


def token_columns(chosen: Sequence[Chosen]) -> list[Any]:
    """Return the Arrow arrays of `_TOKEN_COLUMNS` for the chosen tokens of all sentences."""
    words = list(chain.from_iterable(one.words for one in chosen))
    texts, keys, resolutions = (list(map(itemgetter(place), words)) for place in (0, 3, 4))
    starts = pa.array(list(chain.from_iterable(one.starts for one in chosen)), pa.int32())
    ends = pc.add(starts, pa.array(list(map(len, texts)), pa.int32()))
    strings = [pa.array(values, pa.string()) for values in (texts, keys, resolutions)]
    return [strings[0], starts, ends, *strings[1:]]


def _groups(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of row groups, from the count of numbers in each row."""
    start = size = 0
    for end, numbers in enumerate(sizes, 1):
        size += numbers
        if size >= _GROUP_NUMBERS or end == len(sizes):
            yield start, end
            start, size = end, 0
