"""Read files of texts as streams of Arrow batches, and divide their rows into shards.

The shards depend only on the input and the job. Only parts of the files are in memory at a time.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import iglob
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from polyseme.errors import CommandError, counted, listed
from polyseme.progress import Progress

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv", "text"]
_KINDS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

TEXTS = "_texts"
"""The name of the first column of a batch; the columns of `--keep` follow."""
_BATCH_ROWS = 4096
_READ_BYTES = 1 << 20
MAX_LINE_BYTES = 16 << 20
"""Approximate maximum length of a line; longer ones indicate that a file is not a text file."""
_CSV_BLOCK_BYTES = 8 << 20
"""Block size of the CSV reader, which may reject longer rows. Arrow reads up to 32 blocks ahead."""
_SHARD_BYTES = 64 << 20
"""Approximate maximum size of the texts of a shard: shards of long texts have fewer rows."""
_WORD_BYTES = 8
"""Estimated size of a word in a list of words."""
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class InputFile:
    """A file of texts."""

    path: Path
    name: str
    """the path relative to the given folder, or to the folder that all files of a pattern share"""
    kind: Kind
    compression: str | None
    bytes: int
    modified: int
    """nanoseconds since 1970"""

    def document(self) -> dict[str, Any]:
        """Return the facts that identify the file in the manifest of a job."""
        return {"name": self.name, "bytes": self.bytes, "modified_ns": self.modified}


def find_files(path: Path) -> list[InputFile]:
    """Return the file at a path, or the files in a folder or of a pattern, sorted by path.

    Raises CommandError if there is no file, or for a file of an unknown kind.
    """
    if path.is_dir():
        # Skip files that are not data, such as `_SUCCESS` and `.crc`.
        paths = [
            file
            for file in path.rglob("*")
            if file.is_file()
            and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        ]
        base = path
    else:
        # Path.glob takes no absolute pattern, and matches hidden files.
        matches = [path] if path.is_file() else map(Path, iglob(str(path)))  # noqa: PTH207
        paths = [file for file in matches if file.is_file()]
        shared = set.intersection(*(set(file.parents) for file in paths)) if paths else set()
        base = max(shared, key=lambda folder: len(folder.parts), default=Path())
    if not paths:
        raise CommandError(
            f"{path.name}: there is no such file or folder with files, and no file matches it as a"
            " pattern."
        )
    files = []
    for file in sorted(paths):
        compression = _COMPRESSIONS.get(file.suffix.lower())
        kind = _KINDS.get((file.with_suffix("") if compression else file).suffix.lower())
        if kind is None or (compression and kind == "parquet"):
            raise CommandError(
                f"{file.name} is not of a supported kind: .parquet, .jsonl, .ndjson, .csv, .tsv or"
                " .txt; all but the first also with .gz, .zst or .bz2."
            )
        stat, name = file.stat(), file.relative_to(base).as_posix()
        files.append(InputFile(file, name, kind, compression, stat.st_size, stat.st_mtime_ns))
    return files


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file."""

    rows: Any
    """`pyarrow.RecordBatch`: the texts, then the columns to keep"""
    bytes_read: int
    """approximate number of bytes of the file that have been read"""
    problems: dict[int, str]
    """what is wrong with rows that cannot be read, by their places; their texts are null"""


def read(
    file: InputFile, column: str, keep: Sequence[str], *, strict: bool = True
) -> Iterator[Chunk]:
    """Yield the rows of a file: a column of texts or of lists of words, and the columns to keep.

    Raises CommandError if the file's content does not match its suffix, or a column is missing;
    with `strict`, also for a row that cannot be read. A field to keep may be missing in a JSON
    object; its value is then null.
    """
    readers = {"parquet": read_parquet, "jsonl": read_jsonl, "text": read_text}
    row = 0
    try:
        for columns, count, of_rows in readers.get(file.kind, read_csv)(file, [column, *keep]):
            texts = columns[0]
            if pa.types.is_dictionary(texts.type):
                texts = texts.dictionary_decode()
            lists = pa.types.is_list(texts.type) or pa.types.is_large_list(texts.type)
            inner = texts.type.value_type if lists else texts.type
            if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
                raise CommandError(
                    f"{file.name}: the column of texts has the type {texts.type}; --column must"
                    " name a column of strings or of lists of strings."
                )
            problems = of_rows | _invalid_texts(texts, lists=lists)
            # If no row of a file can be read, it is not what its name says, or --column is wrong.
            if problems and (strict or (row == 0 and len(problems) == len(texts) > 1)):
                place = min(problems)
                raise CommandError(f"{file.name}: row {row + place} {problems[place]}.")
            if problems:
                bad = np.isin(np.arange(len(texts)), list(problems))
                texts = pc.if_else(pa.array(bad), pa.scalar(None, texts.type), texts)
            texts = texts.cast(pa.list_(pa.string()) if lists else pa.string())
            batch = pa.RecordBatch.from_arrays([texts, *columns[1:]], names=[TEXTS, *keep])
            batch.validate(full=True)  # other programs may write strings that are not UTF-8
            yield Chunk(batch, count, problems)
            row += len(batch)
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow counts the rows of a CSV file from 1, with the header.
        number = re.search(r"Row #(\d+): (Expected|CSV conversion)", str(error))
        if number:
            problem = "has another number of columns" if number[2] == "Expected" else "is not UTF-8"
            raise CommandError(
                f"{file.name}: row {int(number[1]) - 2} {problem}; correct the row, or remove it."
            ) from None
        kinds = {"text": "text in UTF-8", "jsonl": "lines of JSON", "parquet": "Parquet"}
        kind = kinds.get(file.kind, f"{file.kind.upper()} in UTF-8")
        raise CommandError(
            f"{file.name} is damaged, or is not {kind}: repair it, or remove it from the input."
        ) from None


def read_texts(
    files: Sequence[InputFile], column: str, progress: Progress, stage: str
) -> Iterator[tuple[str, int, str]]:
    """Yield the file's name, the row and the text of each row with a text, words joined by spaces.

    Rows that cannot be read are left out; a message says how many. Raises the errors of `read`.
    """
    bytes_before = rows_before = unreadable = 0
    first = ""
    with progress.stage(stage, sum(file.bytes for file in files)) as bar:
        for file in files:
            row = 0
            for chunk in read(file, column, (), strict=False):
                if chunk.problems and not unreadable:
                    place = min(chunk.problems)
                    first = f"{file.name}: row {row + place} {chunk.problems[place]}"
                unreadable += len(chunk.problems)
                texts = chunk.rows.column(TEXTS).to_pylist()
                for place, text in enumerate(texts, row):
                    if text:
                        yield file.name, place, text if isinstance(text, str) else " ".join(text)
                row += len(texts)
                bar.reach(bytes_before + chunk.bytes_read, rows_before + row)
            bytes_before, rows_before = bytes_before + file.bytes, rows_before + row
    if unreadable:
        rows = counted(unreadable, "row")
        progress.say(f"polyseme: {stage}: {rows} that cannot be read left out. The first: {first}.")


_Columns: TypeAlias = tuple[list[Any], int, dict[int, str]]
"""The requested columns in order, the number of bytes that have been read, and the problems of
rows."""
_NOT_UTF8 = "is not text in UTF-8"


def _invalid_texts(texts: Any, *, lists: bool) -> dict[int, str]:
    """Return the problems of strings that are not UTF-8 and of lists that have null words.

    Other programs may write them.
    """
    problems = {}
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for place in range(len(texts)):
            row = texts.slice(place, 1)
            try:
                (row.flatten() if lists else row).validate(full=True)
            except pa.ArrowInvalid:
                problems[place] = _NOT_UTF8
    if lists and texts.flatten().null_count:
        for place, words in enumerate(texts):
            if words.is_valid and words.values.null_count:
                problems[place] = "has a list with a word that is null"
    return problems


def _missing_column(file: InputFile, column: str, columns: Sequence[str]) -> CommandError:
    return CommandError(
        f"{file.name}: there is no column {column}; the columns are {listed(columns)}."
    )


def read_parquet(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    """Yield the columns of a Parquet file."""
    with pq.ParquetFile(file.path, buffer_size=_READ_BYTES, pre_buffer=False) as parquet:
        for name in names:
            if name not in parquet.schema_arrow.names:
                raise _missing_column(file, name, parquet.schema_arrow.names)
        total, done = max(1, parquet.metadata.num_rows), 0
        columns = list(dict.fromkeys(names))
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            done += len(batch)
            arrays = [batch.column(batch.schema.names.index(name)) for name in names]
            yield arrays, file.bytes * done // total, {}


def read_csv(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    """Yield the columns of a .csv or .tsv file as strings."""
    delimiter = "," if file.kind == "csv" else "\t"
    with pa.OSFile(str(file.path)) as raw, _decompress(raw, file) as stream:
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            # Read strings, so that a column has one type in all files and blocks.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        for name in names:
            if name not in reader.schema.names:
                raise _missing_column(file, name, reader.schema.names)
        for batch in reader:
            yield [batch.column(batch.schema.names.index(name)) for name in names], raw.tell(), {}


def read_text(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    """Yield the lines of a .txt file, whose only column is `text`."""
    for name in names:
        if name != "text":
            raise _missing_column(file, name, ["text"])
    for lines, count in _read_lines(file):
        problems = _problems_of_lines(lines)
        decoded = ["" if place in problems else line.decode() for place, line in enumerate(lines)]
        yield [pa.array(decoded, pa.string())] * len(names), count, problems


def read_jsonl(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    """Yield the columns of lines of JSON objects."""
    for all_lines, count in _read_lines(file):
        lines = list(filter(bytes.strip, all_lines))
        problems = _problems_of_lines(lines)
        records: list[dict[str, Any]] = []
        kinds: dict[type, list[int]] = {str: [], list: []}
        for place, line in enumerate(lines):
            records.append({})
            if place in problems:
                continue
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                problems[place] = f"is not well-formed JSON at column {error.colno}"
                continue
            if not isinstance(record, dict):
                problems[place] = "is not a JSON object"
                continue
            records[-1] = record
            text = record.get(names[0])
            words = isinstance(text, list) and all(isinstance(word, str) for word in text)
            if names[0] not in record:
                columns_of_row = listed(list(record))
                problems[place] = f"has no column {names[0]}; the columns are {columns_of_row}"
            elif not (text is None or isinstance(text, str) or words):
                problems[place] = "has a text that is neither a string nor a list of strings"
            elif text is not None:
                kinds[type(text)].append(place)
        kind, other = sorted(kinds, key=lambda kind: len(kinds[kind]), reverse=True)
        for place in kinds[other]:
            problems[place] = (
                f"has a {'string' if kind is list else 'list of words'}, unlike most rows; put"
                " strings and lists of words into separate files"
            )
        texts = [None if n in problems else record[names[0]] for n, record in enumerate(records)]
        columns = [pa.array(texts, pa.list_(pa.string()) if kind is list else pa.string())]
        for name in names[1:]:
            # Strings are copied unchanged, other values as JSON.
            kept = [
                value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
                for value in (record.get(name) for record in records)
            ]
            columns.append(pa.array(kept, pa.string()))
        yield columns, count, problems


def _problems_of_lines(lines: list[bytes]) -> dict[int, str]:
    """Return the problems of lines that are too long or not UTF-8, by their places."""
    problems = {}
    for place, line in enumerate(lines):
        try:
            if len(line) > MAX_LINE_BYTES:
                problems[place] = (
                    f"has more than {MAX_LINE_BYTES} bytes; put each sentence on a separate line"
                )
            else:
                line.decode()
        except UnicodeDecodeError:
            problems[place] = _NOT_UTF8
    return problems


def _read_lines(file: InputFile) -> Iterator[tuple[list[bytes], int]]:
    """Yield lists of lines, without line breaks, and the number of bytes read so far.

    Only the first bytes of a line that is too long are returned.
    """
    rest = b""
    with pa.OSFile(str(file.path)) as raw, _decompress(raw, file) as stream:
        first = True
        while chunk := stream.read(_READ_BYTES):
            if first:
                if chunk.startswith(_UTF16_MARKS):
                    raise UnicodeDecodeError("utf-8", chunk[:2], 0, 2, "UTF-16")
                chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: MAX_LINE_BYTES + 2]
            if lines:
                yield [line.removesuffix(b"\r") for line in lines], raw.tell()
    if rest:
        yield [rest.removesuffix(b"\r")], file.bytes


def _decompress(raw: Any, file: InputFile) -> Any:
    return pa.CompressedInputStream(raw, file.compression) if file.compression else raw


@dataclass(frozen=True)
class RowRange:
    """Consecutive rows of one file."""

    name: str
    """name of the file"""
    first: int
    """index of the first of these rows in the file"""
    rows: Any
    """`pyarrow.RecordBatch`: the texts, then the columns to keep"""
    problems: dict[int, str] = field(default_factory=dict)
    """what is wrong with rows that could not be read, by their places"""

    @property
    def texts(self) -> list[Any]:
        """The texts: strings, lists of words, or None."""
        texts: list[Any] = self.rows.column(0).to_pylist()
        return texts

    @property
    def kept(self) -> list[Any]:
        """The columns to keep."""
        return list(self.rows.columns[1:])

    def slice(self, start: int, end: int) -> "RowRange":
        """Return a part of the rows."""
        problems = {n - start: text for n, text in self.problems.items() if start <= n < end}
        return RowRange(
            self.name, self.first + start, self.rows.slice(start, end - start), problems
        )

    def label(self, place: int) -> str:
        """Return the description of a row for messages."""
        return f"Row {self.first + place} of {self.name}"


@dataclass
class Shard:
    """The rows of one output file."""

    number: int
    ranges: list[RowRange] = field(default_factory=list)
    bytes: float = 0
    """approximate bytes of the input that its rows take"""

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.ranges)

    def label(self) -> str:
        """Return the description of the rows for messages."""
        first, last = self.ranges[0], self.ranges[-1]
        file = "" if last.name == first.name else f" of {last.name}"
        return f"{first.label(0)} to row {last.first + len(last.rows) - 1}{file}"


def kept_schema(
    files: Sequence[InputFile], column: str, keep: Sequence[str], *, strict: bool = True
) -> Any:
    """Return the `pyarrow.Schema` of the columns to keep.

    The types are those of the first file that has rows, or strings if no file has rows.
    """
    for file in files if keep else ():
        for chunk in read(file, column, keep, strict=strict):
            return pa.schema(list(chunk.rows.schema)[1:])
    return pa.schema([(name, pa.string()) for name in keep])


def split_shards(
    files: Sequence[InputFile],
    column: str,
    kept_columns: Any,
    max_rows: int,
    *,
    strict: bool = True,
) -> Iterator[Shard]:
    """Yield the rows of all files in shards. Input without rows gives one empty shard."""
    shard, room = Shard(0), _SHARD_BYTES
    for file in files:
        row = bytes_read = 0
        for chunk in read(file, column, kept_columns.names, strict=strict):
            texts, *kept = chunk.rows.columns
            try:
                kept = [
                    array.cast(kind) for array, kind in zip(kept, kept_columns.types, strict=True)
                ]
            except pa.ArrowException:
                raise CommandError(
                    f"{file.name}: a column of --keep has another type than in an earlier file."
                ) from None
            batch = pa.RecordBatch.from_arrays([texts, *kept], names=[TEXTS, *kept_columns.names])
            rows = RowRange(file.name, row, batch, chunk.problems)
            if pa.types.is_list(texts.type):
                lengths = pc.multiply(pc.list_value_length(texts), _WORD_BYTES)
            else:
                lengths = pc.binary_length(texts)
            # A row without a text counts as well.
            bytes_of_rows = pc.add(pc.fill_null(lengths, 0), _WORD_BYTES).cast(pa.int64())
            sizes = np.cumsum(bytes_of_rows.to_numpy(zero_copy_only=False))
            start = 0
            while start < len(batch):
                if len(shard) >= max_rows or room <= 0:
                    yield shard
                    shard, room = Shard(shard.number + 1), _SHARD_BYTES
                before = sizes[start - 1] if start else 0
                # The row that crosses the size limit stays in this shard, so each shard gets a row.
                end = min(
                    len(batch),
                    start + max_rows - len(shard),
                    int(np.searchsorted(sizes, before + room)) + 1,
                )
                shard.ranges.append(rows.slice(start, end))
                room -= int(sizes[end - 1] - before)
                part = int(sizes[end - 1] - before) / int(sizes[-1])
                shard.bytes += part * (chunk.bytes_read - bytes_read)
                start = end
            row, bytes_read = row + len(batch), chunk.bytes_read
    if shard.ranges or shard.number == 0:
        yield shard
