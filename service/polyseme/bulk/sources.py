"""Read files of texts as streams of Arrow batches, and divide their rows into shards.

The shards depend only on the input and the job. Only parts of the files are in memory at a time.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from polyseme.errors import CommandError, listed

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
        found = [
            one
            for one in path.rglob("*")
            if one.is_file()
            and not any(part.startswith((".", "_")) for part in one.relative_to(path).parts)
        ]
        base = path
    else:
        found = [path] if path.is_file() else [Path(one) for one in glob(str(path))]  # noqa: PTH207 - Path.glob takes no absolute pattern
        found = [one for one in found if one.is_file()]
        shared = set.intersection(*(set(one.parents) for one in found)) if found else set()
        base = max(shared, key=lambda one: len(one.parts), default=Path())
    if not found:
        raise CommandError(
            f"{path.name}: there is no such file or folder with files, and no file matches it as a"
            " pattern."
        )
    return [_input_file(one, base) for one in sorted(found)]


def _input_file(path: Path, base: Path) -> InputFile:
    compression = _COMPRESSIONS.get(path.suffix.lower())
    inner = path.with_suffix("") if compression else path
    kind = _KINDS.get(inner.suffix.lower())
    if kind is None or (compression and kind == "parquet"):
        raise CommandError(
            f"{path.name} is not of a supported kind: .parquet, .jsonl, .ndjson, .csv, .tsv or"
            " .txt; all but the first also with .gz, .zst or .bz2."
        )
    stat = path.stat()
    name = path.relative_to(base).as_posix()
    return InputFile(path, name, kind, compression, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file."""

    rows: Any
    """`pyarrow.RecordBatch`: the texts, then the columns to keep"""
    bytes_read: int
    """approximate number of bytes of the file that have been read"""


def read(file: InputFile, column: str, keep: Sequence[str]) -> Iterator[Chunk]:
    """Yield the rows of a file: a column of texts or of lists of words, and the columns to keep.

    Raises CommandError if the file's content does not match its suffix, or a column is missing. A
    field to keep may be missing in a JSON object; its value is then null.
    """
    readers = {"parquet": _read_parquet, "jsonl": _read_jsonl, "text": _read_text}
    with _explaining_errors(file):
        for columns, count in readers.get(file.kind, _read_csv)(file, [column, *keep]):
            yield Chunk(_record_batch(file, columns, keep), count)


_Columns: TypeAlias = tuple[list[Any], int]
"""The requested columns in order, and the number of bytes that have been read."""


@contextmanager
def _explaining_errors(file: InputFile) -> Iterator[None]:
    """Raise CommandError for the errors of Arrow's readers."""
    try:
        yield
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow counts the rows of a CSV file from 1, with the header.
        row = re.search(r"Row #(\d+): (Expected|CSV conversion)", str(error))
        if row:
            problem = "has another number of columns" if row[2] == "Expected" else "is not UTF-8"
            raise CommandError(
                f"{file.name}: row {int(row[1]) - 2} {problem}; correct the row, or remove it."
            ) from None
        kinds = {"text": "text in UTF-8", "jsonl": "lines of JSON", "parquet": "Parquet"}
        kind = kinds.get(file.kind, f"{file.kind.upper()} in UTF-8")
        raise CommandError(
            f"{file.name} is damaged, or is not {kind}: repair it, or remove it from the input."
        ) from None


def _record_batch(file: InputFile, columns: list[Any], keep: Sequence[str]) -> Any:
    texts = columns[0]
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    lists = pa.types.is_list(texts.type) or pa.types.is_large_list(texts.type)
    inner = texts.type.value_type if lists else texts.type
    if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
        raise CommandError(
            f"{file.name}: the column of texts has the type {texts.type}; --column must name a"
            " column of strings or of lists of strings."
        )
    columns = [texts.cast(pa.list_(pa.string()) if lists else pa.string()), *columns[1:]]
    batch = pa.RecordBatch.from_arrays(columns, names=[TEXTS, *keep])
    batch.validate(full=True)  # other programs may write strings that are not UTF-8
    return batch


def _missing_column(file: InputFile, column: str, columns: Sequence[str]) -> CommandError:
    return CommandError(
        f"{file.name}: there is no column {column}; the columns are {listed(columns)}."
    )


def _read_parquet(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    with pq.ParquetFile(file.path, buffer_size=_READ_BYTES, pre_buffer=False) as parquet:
        for name in names:
            if name not in parquet.schema_arrow.names:
                raise _missing_column(file, name, parquet.schema_arrow.names)
        total, done = max(1, parquet.metadata.num_rows), 0
        columns = list(dict.fromkeys(names))
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            done += len(batch)
            found = [batch.column(batch.schema.names.index(name)) for name in names]
            yield found, file.bytes * done // total


def _read_csv(file: InputFile, names: list[str]) -> Iterator[_Columns]:
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
            yield [batch.column(batch.schema.names.index(name)) for name in names], raw.tell()


def _read_text(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    for name in names:
        if name != "text":
            raise _missing_column(file, name, ["text"])
    for lines, count in _read_lines(file):
        texts = pa.array([line.decode() for line in lines], pa.string())
        yield [texts] * len(names), count


def _read_jsonl(file: InputFile, names: list[str]) -> Iterator[_Columns]:
    row = 0
    for lines, count in _read_lines(file):
        records = []
        for line in lines:
            if line.strip():
                records.append(_read_record(line, file, row, names))
                row += 1
        texts = [record[0] for record in records]
        types = {type(text) for text in texts if text is not None}
        if len(types) > 1:
            raise CommandError(
                f"{file.name}: some of the texts up to row {row - 1} are strings, and some are"
                " lists of words; put strings and lists into separate files."
            )
        columns = [pa.array(texts, pa.list_(pa.string()) if types == {list} else pa.string())]
        for place in range(1, len(names)):
            # Strings are copied unchanged, other values as JSON.
            kept = [
                value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
                for value in (record[place] for record in records)
            ]
            columns.append(pa.array(kept, pa.string()))
        yield columns, count


def _read_record(line: bytes, file: InputFile, row: int, names: list[str]) -> list[Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        message = f"{file.name}: row {row} is not well-formed JSON at column {error.colno}."
        raise CommandError(message) from None
    if not isinstance(found, dict):
        raise CommandError(f"{file.name}: row {row} is not a JSON object.")
    # A record without this field is an error: it usually means that --column is wrong.
    if names[0] not in found:
        raise _missing_column(file, f"{names[0]} in row {row}", list(found))
    text = found[names[0]]
    words = isinstance(text, list) and all(isinstance(word, str) for word in text)
    if not (text is None or isinstance(text, str) or words):
        raise CommandError(
            f"{file.name}: the text of row {row} is neither a string nor a list of strings."
        )
    return [found.get(name) for name in names]


def _read_lines(file: InputFile) -> Iterator[tuple[list[bytes], int]]:
    """Yield lists of lines, without line breaks, and the number of bytes read so far."""
    rest = b""
    with pa.OSFile(str(file.path)) as raw, _decompress(raw, file) as stream:
        first = True
        while chunk := stream.read(_READ_BYTES):
            if first:
                chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise CommandError(
                    f"{file.name}: a line has more than {MAX_LINE_BYTES} bytes; put each sentence"
                    " on a separate line."
                )
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


@dataclass
class Shard:
    """The rows of one output file."""

    number: int
    ranges: list[RowRange] = field(default_factory=list)
    bytes_read: int = 0
    """bytes of all input files read up to the end of this shard"""

    def __len__(self) -> int:
        return sum(len(one.rows) for one in self.ranges)


def kept_schema(files: Sequence[InputFile], column: str, keep: Sequence[str]) -> Any:
    """Return the `pyarrow.Schema` of the columns to keep.

    The types are those of the first file that has rows, or strings if no file has rows.
    """
    for file in files if keep else ():
        for chunk in read(file, column, keep):
            return pa.schema(list(chunk.rows.schema)[1:])
    return pa.schema([(name, pa.string()) for name in keep])


def split_shards(
    files: Sequence[InputFile], column: str, kept_columns: Any, max_rows: int
) -> Iterator[Shard]:
    """Yield the rows of all files in shards. Input without rows gives one empty shard."""
    shard, room = Shard(0), _SHARD_BYTES
    files_read = 0
    for file in files:
        row = 0
        for chunk in read(file, column, kept_columns.names):
            rows = _cast_kept(chunk, kept_columns, file)
            sizes = np.cumsum(_text_sizes(rows.column(0)))
            start = 0
            while start < len(rows):
                if len(shard) >= max_rows or room <= 0:
                    yield shard
                    shard, room = Shard(shard.number + 1), _SHARD_BYTES
                before = sizes[start - 1] if start else 0
                # The row that crosses the size limit stays in this shard, so each shard gets a row.
                end = min(
                    len(rows),
                    start + max_rows - len(shard),
                    int(np.searchsorted(sizes, before + room)) + 1,
                )
                shard.ranges.append(
                    RowRange(file.name, row + start, rows.slice(start, end - start))
                )
                room -= int(sizes[end - 1] - before)
                shard.bytes_read = files_read + chunk.bytes_read
                start = end
            row += len(rows)
        files_read += file.bytes
    shard.bytes_read = files_read
    if shard.ranges or shard.number == 0:
        yield shard


def _cast_kept(chunk: Chunk, schema: Any, file: InputFile) -> Any:
    """Return the rows, with the columns to keep cast to the types of the schema."""
    rows = chunk.rows
    try:
        columns = [rows.column(place + 1).cast(one.type) for place, one in enumerate(schema)]
    except pa.ArrowException:
        raise CommandError(
            f"{file.name}: a column of --keep has another type than in an earlier file."
        ) from None
    return pa.RecordBatch.from_arrays([rows.column(0), *columns], names=[TEXTS, *schema.names])


def _text_sizes(texts: Any) -> Any:
    """Return the approximate number of bytes of each text. [S] -> [S]"""
    if pa.types.is_list(texts.type):
        sizes = pc.multiply(pc.list_value_length(texts), _WORD_BYTES)
    else:
        sizes = pc.binary_length(texts)
    # A row without a text counts as well.
    return (
        pc.add(pc.fill_null(sizes, 0), _WORD_BYTES).to_numpy(zero_copy_only=False).astype(np.int64)
    )
