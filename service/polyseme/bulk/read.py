"""Read files of texts in bounded memory, and divide their rows into shards.

Parquet is read by `pyarrow.parquet`: the scanner of `pyarrow.dataset` takes 257 MB instead of 22 MB
for a file of one row group. Lines of JSON and tables are read by the standard library, because
`pyarrow.json` ends a file at one bad line and changes the digits of numbers, and `pyarrow.csv`
takes all rows after an open quotation mark for one text.
"""

import csv
import hashlib
import io
import json
import re
import resource
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from glob import glob, has_magic
from itertools import chain, islice, takewhile
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from polyseme.arrow import (
    NOT_UTF8,
    VALUE_BYTES,
    clean,
    clean_texts,
    ranges,
    row_bytes,
    text_type,
    without_rows,
    without_views,
)
from polyseme.errors import CommandError, counted, listed
from polyseme.terminal import Progress

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv", "text", "conllu"]
READ_BYTES = 1 << 20
"""Bytes that are read at once."""
MAX_ROW_BYTES = 16 << 20
"""Approximate maximum size of a row; a longer one is not a row of sentences."""
_TOO_LONG = f"has more than {MAX_ROW_BYTES} bytes; put each sentence into a separate row"
_BATCH_ROWS, _BATCH_BYTES = 1024, 8 << 20
"""Maximum number, and approximate maximum size unless it is one row, of rows to read at once."""
_MEMORY, _MEMORY_RATIO = 192 << 20, 16
"""Reading a batch may take so many bytes of memory, and so many for each byte of the file, because
some writers put all rows into one page."""
_CONLLU_FIELDS = 10
_SHARD_BYTES = 16 << 20
"""Approximate maximum size of the texts of a shard: shards of long texts have fewer rows."""
_KINDS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".conllu": "conllu",
}
_NAMES = {
    "text": "text in UTF-8",
    "jsonl": "lines of JSON",
    "parquet": "Parquet",
    "conllu": "CoNLL-U",
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:/")
_NOT_TEXT = re.compile(
    rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){2}|(?:\0[^\0]){2}|[^\0]?\0{3}"  # UTF-16 and UTF-32
    rb"|\x1f\x8b|BZh\d1AY|\(\xb5/\xfd|\xfd7zXZ|PK\x03\x04|\xd0\xcf\x11\xe0|PAR1[\0-\x1f]"
)
"""The first bytes of files that are not UTF-8, compressed, or of Excel or Parquet."""
_ARRAY = "one JSON array instead of lines of JSON; `jq -c '.[]'` writes its items as lines"
_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')
_OPEN = re.compile(r'"(?:[^"]++|"")*+$')
"""A field of a line whose quotation mark may be closed in another field or line."""

Row: TypeAlias = tuple[list[Any], str | None]
"""The values of the requested columns, and what is wrong with the row."""
Columns: TypeAlias = tuple[list[Any], list[str | None], float]
"""Arrow arrays of the requested columns, of which the first has strings or lists of strings; what
is wrong with each row; and the number of bytes that the rows take in the file."""


class _RowError(Exception):
    """A row cannot be read; the message says why."""


@dataclass(frozen=True)
class InputFile:
    """A file of texts."""

    filesystem: Any
    """a `pyarrow.fs.FileSystem`"""
    path: str
    """the path in the file system"""
    name: str
    """the path relative to the folder of the input"""
    kind: Kind
    compression: str | None
    bytes: int
    partitions: dict[str, str | None]
    """the columns in the names of folders, such as `year=2024` (Hive), of all files"""

    def document(self) -> dict[str, str]:
        """Return the facts that identify the file in the manifest of a job."""
        with self.filesystem.open_input_stream(self.path, None, READ_BYTES) as file:
            return {"name": self.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def find_files(source: str | Path) -> list[InputFile]:
    """Return the file at a path or an address, or the files in a folder or of a local pattern.

    They are sorted by path. Raises CommandError if there is no file, or for a file of an unknown
    kind.
    """
    system, path = _filesystem(str(source))
    info = system.get_file_info(path)
    if info.type == fs.FileType.Directory:
        base = path
        infos = system.get_file_info(fs.FileSelector(path, recursive=True))
        # Skip files that are not data, such as `_SUCCESS` and `.crc`.
        infos = [one for one in infos if not re.search(r"/[._]", one.path[len(base) :])]
    elif info.type == fs.FileType.File:
        infos, base = [info], str(PurePath(path).parent)
    else:
        is_local = isinstance(system, fs.LocalFileSystem)
        infos = system.get_file_info(glob(path)) if is_local else []  # noqa: PTH207
        base = str(Path(*takewhile(lambda part: not has_magic(part), Path(path).parts)))
    infos = sorted((one for one in infos if one.is_file), key=lambda one: PurePath(one.path))
    if not infos:
        raise CommandError(
            f"{PurePath(path).name}: there is no such file or folder with files, and no file"
            " matches it as a pattern."
        )
    names = [PurePath(one.path).relative_to(base).as_posix() for one in infos]
    partitions = [_partitions(name) for name in names]
    columns = dict.fromkeys(chain.from_iterable(partitions))
    files = []
    for one, name, values in zip(infos, names, partitions, strict=True):
        file = PurePath(one.path)
        compression = _COMPRESSIONS.get(file.suffix.lower())
        kind = _KINDS.get((file.with_suffix("") if compression else file).suffix.lower())
        if kind is None or (compression and kind == "parquet"):
            raise CommandError(
                f"{file.name} is not of a supported kind: .parquet, .jsonl, .ndjson, .csv, .tsv or"
                " .txt; all but the first also with .gz, .zst or .bz2."
            )
        every = {**columns, **values}
        files.append(InputFile(system, one.path, name, kind, compression, one.size, every))
    return files


def is_file(source: str | Path) -> bool:
    """Return whether a path or an address is that of a file."""
    system, path = _filesystem(str(source))
    return bool(system.get_file_info(path).is_file)


def local_folder(path: str) -> Path:
    """Return the absolute path of a folder.

    Raises CommandError for an address that is not on this machine: object stores have no locks and
    no renaming, by which a run is the only one in its folder and a shard is complete or absent.
    """
    if _ADDRESS.match(path) and not path.startswith("file:"):
        raise CommandError(
            f"{path} is an address: write into a folder of this machine and copy it, or run"
            " `polyseme.arrow.Encoder` in Spark, Ray or Dask, which write to such addresses."
        )
    return Path(_filesystem(path)[1]).absolute()


def _filesystem(source: str) -> tuple[Any, str]:
    """Return the `pyarrow.fs.FileSystem` of a path or an address, and the path in it.

    Raises CommandError for an address such as `s3://bucket/folder` that Arrow cannot open.
    """
    if not _ADDRESS.match(source):
        return fs.LocalFileSystem(), str(Path(source))
    try:
        system, path = fs.FileSystem.from_uri(source)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CommandError(f"{source} is an address that Arrow cannot open: {error}.") from None
    return system, path.rstrip("/") or path


def _partitions(name: str) -> dict[str, str | None]:
    """Return the columns in the names of a file's folders."""
    pairs = (part.split("=", 1) for part in name.split("/")[:-1] if "=" in part)
    return {key: None if value == _NULL_PARTITION else unquote(value) for key, value in pairs}


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a file."""

    file: str
    """name of the file"""
    first: int
    """index of the first of these rows in the file"""
    texts: Any
    """an Arrow array of strings or of lists of strings"""
    columns: list[Any]
    """Arrow arrays of the columns to copy"""
    problems: list[str | None]
    """what is wrong with a row that cannot be read; its text is null"""
    bytes: float
    """approximate bytes that the rows take in the file"""

    def __len__(self) -> int:
        return len(self.problems)

    def slice(self, start: int, end: int) -> "Rows":
        """Return a part of the rows."""
        texts, *columns = (array.slice(start, end - start) for array in (self.texts, *self.columns))
        size = self.bytes * (end - start) / len(self)
        return Rows(self.file, self.first + start, texts, columns, self.problems[start:end], size)


def read(file: InputFile, column: str, keep: Sequence[str]) -> Iterator[Rows]:
    """Yield the rows of a file.

    They have a column of texts or of lists of words, and the columns to copy; those of the file's
    partitions need not be in the file. A field to copy may be missing in a JSON object. Raises
    CommandError if the file's content does not match its suffix, if a column is missing or there
    twice, or if no row can be read.
    """
    names = [name for name in keep if name not in file.partitions]
    reader = _read_parquet if file.kind == "parquet" else _read_lines
    row = unreadable = 0
    first = ""
    try:
        for (texts, *own), problems, size in reader(file, [column, *names]):
            for i, problem in enumerate(problems):
                if problem:
                    first = first or f"{file.name}: row {row + i} {problem}."
                    unreadable += 1
            # If no row can be read, the file is not what its name says, or --column is wrong.
            if row == 0 and unreadable == len(texts) > 1:
                raise CommandError(first)
            arrays = dict(zip(names, own, strict=True))
            for name, value in file.partitions.items():
                arrays[name] = pa.array([value] * len(texts), pa.string())
            columns = [arrays[name] for name in keep]
            yield Rows(file.name, row, without_rows(texts, problems), columns, problems, size)
            row += len(texts)
    except PermissionError:
        raise
    except (pa.ArrowException, OSError):
        kind = _NAMES.get(file.kind, f"{file.kind.upper()} in UTF-8")
        raise CommandError(
            f"{file.name} is damaged, or is not {kind}: repair it, or remove it from the input."
        ) from None
    if row and unreadable == row:
        raise CommandError(first)


def _read_parquet(file: InputFile, names: list[str]) -> Iterator[Columns]:
    """Yield the columns of a Parquet file.

    A file of a few hundred bytes can have a string of megabytes that thousands of rows repeat, so
    repeated strings are read as dictionaries and decoded for a few rows at a time.
    """
    options = {"buffer_size": READ_BYTES, "pre_buffer": False}
    with file.filesystem.open_input_file(file.path) as raw:
        with pq.ParquetFile(raw, **options) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
            leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
        kinds = [schema.field(_column_index(file, name, schema.names)).type for name in names]
        if text_type(kinds[0]) is None:
            raise CommandError(
                f"{file.name}: the column of texts has the type {kinds[0]}; --column must name a"
                " column of strings or of lists of strings."
            )
        strings = [i for i, leaf in enumerate(leaves) if leaf.physical_type == "BYTE_ARRAY"]
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            chunks = [group.column(i) for i in range(group.num_columns)]
            values = sum(chunk.num_values for chunk in chunks)
            size = max(group.total_byte_size + VALUE_BYTES * values, 1)
            rows = max(min(_BATCH_BYTES * group.num_rows // size, _BATCH_ROWS), 1)
            # A dictionary has the strings of all rows that have been read.
            sizes = {i: chunks[i].total_uncompressed_size for i in strings}
            repeated = [leaves[i].path for i, size in sizes.items() if size <= MAX_ROW_BYTES]
            with pq.ParquetFile(
                raw, metadata=metadata, read_dictionary=repeated, **options
            ) as parquet:
                columns = [*dict.fromkeys(names)]
                batches = parquet.iter_batches(rows, [index], columns, use_threads=False)
                for batch in _limit_memory(file, batches):
                    arrays = [batch.column(batch.schema.names.index(name)) for name in names]
                    for part in _in_parts(arrays):
                        size = file.bytes * len(part[0]) / metadata.num_rows
                        yield *_clean(part, kinds), size


def _limit_memory(file: InputFile, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches; raise CommandError if reading one takes too much memory.

    The size of a page, and of the lists of a row, is known only after it has been read.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    usage = Path("/proc/self/statm")
    while True:
        if usage.exists():
            used = int(usage.read_text().split()[5]) * resource.getpagesize()
            limit = used + _MEMORY + _MEMORY_RATIO * file.bytes
            if soft == resource.RLIM_INFINITY or limit < soft:
                resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        try:
            batch = next(batches, None)
        except MemoryError:
            raise CommandError(
                f"{file.name} has a page or a row that is too large to read: write it again with"
                " smaller ones."
            ) from None
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        if batch is None:
            return
        yield batch


def _in_parts(columns: list[Any]) -> Iterator[list[Any]]:
    """Yield a few rows of columns at a time."""
    sizes = np.sum([*map(row_bytes, columns)], axis=0)
    for start, end in ranges(sizes, _BATCH_BYTES):
        # A slice would keep the strings of all rows.
        yield [column.take(pa.array(np.arange(start, end))) for column in columns]


def _clean(columns: list[Any], kinds: list[Any]) -> tuple[list[Any], list[str | None]]:
    """Return columns of Parquet with nulls in rows that cannot be read, and what is wrong."""
    texts, problems = clean_texts(columns[0])
    pairs = [
        clean(array, without_views(kind))
        for array, kind in zip(columns[1:], kinds[1:], strict=True)
    ]
    columns = [texts, *(array for array, _ in pairs)]
    sizes = np.sum([*map(row_bytes, columns)], axis=0)
    long = [_TOO_LONG if size > MAX_ROW_BYTES else None for size in sizes.tolist()]
    by_row = zip(long, problems, *(others for _, others in pairs), strict=True)
    problems = [next(filter(None, one), None) for one in by_row]
    return [without_rows(array, long) for array in columns], problems


def _column_index(file: InputFile, name: str, columns: Sequence[str]) -> int:
    """Return the index of a column. Raises CommandError if there is none, or more than one."""
    count = columns.count(name)
    if not count:
        names = listed([column[:40] for column in columns])
        others = f"the columns are {names}" if columns else "the file is empty"
        raise CommandError(f"{file.name}: there is no column {name}; {others}.")
    if count > 1:
        raise CommandError(f"{file.name}: there are {count} columns {name}: rename all but one.")
    return columns.index(name)


def _read_lines(file: InputFile, names: list[str]) -> Iterator[Columns]:
    readers = {"text": _text_rows, "jsonl": _json_rows, "conllu": _conllu_rows}
    position = 0
    with file.filesystem.open_input_file(file.path) as raw:
        stream = pa.BufferedInputStream(raw, READ_BYTES)  # object stores answer few large requests
        if file.compression:
            stream = pa.CompressedInputStream(stream, file.compression)
        buffer = io.BufferedReader(stream, READ_BYTES)
        head = buffer.peek()
        if _NOT_TEXT.match(head):
            raise OSError
        # A CR ends a line of a table, and of a text without line feeds.
        newline = "\n" if file.kind in readers and b"\n" in head else ""
        text = io.TextIOWrapper(buffer, "utf-8-sig", "surrogateescape", newline=newline)
        lines = iter(partial(text.readline, MAX_ROW_BYTES + 1), "")  # a long line in parts
        rows = readers.get(file.kind, _table_rows)(file, lines, names)
        while batch := _next_rows(rows):
            problems = [problem for _, problem in batch]
            values = zip(*(row for row, _ in batch), strict=True)
            yield [_array(column, problems) for column in values], problems, raw.tell() - position
            position = raw.tell()


def _next_rows(rows: Iterator[Row]) -> list[Row]:
    """Return rows, up to a number and a size."""
    batch, size = [], 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row[0] if value)
        if size > READ_BYTES or len(batch) == _BATCH_ROWS:
            break
    return batch


def _array(values: Sequence[Any], problems: list[str | None]) -> Any:
    """Return an Arrow array; rows with a string that is not UTF-8 are null and become problems."""
    is_list = any(isinstance(value, list) for value in values)
    kind = pa.list_(pa.string()) if is_list else pa.string()
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        values = list(values)
        for i, value in enumerate(values):
            try:
                "".join(value or ()).encode()
            except UnicodeEncodeError:
                values[i], problems[i] = None, NOT_UTF8
        return pa.array(values, kind)


def _whole_lines(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines without line breaks, and the first part of a line that is too long."""
    for line in lines:
        part = line
        while len(part) > MAX_ROW_BYTES and not part.endswith("\n"):
            part = next(lines, "")
        yield line.removesuffix("\n").removesuffix("\r")


def _text_rows(file: InputFile, lines: Iterator[str], names: Sequence[str]) -> Iterator[Row]:
    for name in names:
        _column_index(file, name, ["text"])
    for line in _whole_lines(lines):
        is_long = len(line) > MAX_ROW_BYTES
        yield [None if is_long else line] * len(names), _TOO_LONG if is_long else None


def _conllu_rows(file: InputFile, lines: Iterator[str], names: Sequence[str]) -> Iterator[Row]:
    """Yield the words of each sentence, and their lemmas; spans and empty nodes are left out."""
    fields = [1 + _column_index(file, name, ["text", "lemma"]) for name in names]
    words: list[list[str]] = []
    size, problem = 0, None
    for line in chain(_whole_lines(lines), [""]):
        size += len(line)
        if line.strip():
            parts = line.split("\t")
            if line.startswith("#") or size > MAX_ROW_BYTES:
                continue
            if len(parts) != _CONLLU_FIELDS:
                problem = (
                    f"has a line without {_CONLLU_FIELDS} fields separated by tabs;"
                    " correct it, or remove the sentence"
                )
            elif parts[0].isdigit():
                words.append(parts)
        elif words or problem:
            problem = _TOO_LONG if size > MAX_ROW_BYTES else problem
            values = [None if problem else [word[i] for word in words] for i in fields]
            yield values, problem
            words, size, problem = [], 0, None


def _json_rows(file: InputFile, lines: Iterator[str], names: Sequence[str]) -> Iterator[Row]:
    kind: type | None = None
    for i, line in enumerate(filter(str.strip, _whole_lines(lines))):
        if i == 0 and line.lstrip().startswith("[") and not line.rstrip().endswith("]"):
            raise CommandError(f"{file.name} is {_ARRAY}.")
        values: list[Any] = [None] * len(names)
        problem = None
        try:
            values = _json_values(line, names)
        except _RowError as error:
            problem = str(error)
        if values[0] is not None:
            kind = kind or type(values[0])
            if not isinstance(values[0], kind):
                values[0] = None
                problem = (
                    f"has a {'string' if kind is list else 'list of words'}, unlike the rows before"
                    " it; put strings and lists of words into separate files"
                )
        yield values, problem


_REPEATED = object()
"""The value of a name that is repeated in a JSON object."""


def _json_object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in fields:
        record[name] = _REPEATED if name in record else value
    return record


# A number is kept as it is written: 1.10 does not become 1.1, nor 2**64 + 1 the nearest float.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_json_object,
    parse_int=orjson.Fragment,
    parse_float=orjson.Fragment,
    parse_constant=lambda _: None,  # NaN and Infinity, which Python's json writes
)


def _json_values(line: str, names: Sequence[str]) -> list[Any]:
    """Return the text of a line of JSON, and the values to keep. Raises _RowError.

    Strings are copied unchanged, other values as JSON.
    """
    if len(line) > MAX_ROW_BYTES:
        raise _RowError(_TOO_LONG)
    if line.lstrip().startswith("["):
        raise _RowError(f"is an array, not an object; the file may be {_ARRAY}")
    try:
        record = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise _RowError(f"is not well-formed JSON at column {error.colno}") from None
    except RecursionError:
        raise _RowError("is nested too deeply") from None
    if not isinstance(record, dict):
        raise _RowError("is not a JSON object")
    if names[0] not in record:
        shown = listed([name[:40] for name in record])
        raise _RowError(f"has no column {names[0]}; the columns are {shown or 'none'}")
    text, *others = map(record.get, names)
    if text is _REPEATED:
        raise _RowError(f"has several fields {names[0]}")
    words = text if isinstance(text, list) else ["" if text is None else text]
    if not all(isinstance(word, str) for word in words):
        raise _RowError("has a text that is neither a string nor a list of strings")
    try:
        return [
            text,
            *(
                value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
                for value in others
            ),
        ]
    except TypeError:
        raise _RowError(
            "has a value to keep that is nested too deeply, repeats a name in an object, or is not"
            " Unicode"
        ) from None


def _table_rows(file: InputFile, lines: Iterator[str], names: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a .csv or .tsv file, without empty lines.

    Raises CommandError for a row that has another number of columns than the header, or invalid
    quotes.
    """
    csv.field_size_limit(MAX_ROW_BYTES)
    rows = filter(None, csv.reader(lines, strict=True) if file.kind == "csv" else _tsv(lines))
    name, problem = "the header", ""
    try:
        header = next(rows, [])
        indices = [_column_index(file, name, header) for name in names]
        name = "row 0"
        for row, fields in enumerate(rows, 1):
            if len(fields) != len(header):
                problem = "has another number of columns; correct the row, or remove it"
                break
            yield [fields[i] for i in indices], None
            name = f"row {row}"
    except csv.Error:
        problem = (
            "has a quotation mark that is not closed, or not followed by a comma; write two marks"
            f" for one within quotes, and at most {MAX_ROW_BYTES} characters"
        )
    if problem:
        raise CommandError(f"{file.name}: {name} {problem}.")


def _tsv(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield the rows of a .tsv file.

    Most programs write a .tsv without quotes. Quotation marks are therefore text unless they
    enclose a field, and a field has tabs or line breaks only if its lines have other numbers of
    columns than the header without them.
    """
    width = 0
    ahead: deque[str] = deque()

    def next_lines() -> Iterator[str]:
        for line in lines:
            ahead.append(line)
            yield line

    while line := ahead.popleft() if ahead else next(lines, ""):
        if len(line) > MAX_ROW_BYTES:
            raise csv.Error
        content = line.removesuffix("\n").removesuffix("\r")
        fields = content.split("\t") if content else []
        width = width or len(fields)
        if any(map(_OPEN.match, fields)):
            reader = csv.reader(chain([line], ahead, next_lines()), delimiter="\t", strict=True)
            with suppress(csv.Error, StopIteration):
                quoted = next(reader)
                others = list(islice(ahead, reader.line_num - 1))
                tabs = {one.count("\t") for one in (line, *others) if one.strip("\r\n")}
                if len(quoted) == width and tabs != {width - 1}:
                    for _ in others:
                        ahead.popleft()
                    yield quoted
                    continue
        yield [one[1:-1].replace('""', '"') if _QUOTED.fullmatch(one) else one for one in fields]


def read_texts(
    files: Sequence[InputFile], column: str, progress: Progress, stage: str
) -> Iterator[tuple[str, int, str | list[str]]]:
    """Yield the file's name, the row and the text, or list of words, of each row that has any.

    Rows that cannot be read are left out; a message says how many. Raises the errors of `read`.
    """
    bytes_read, n_rows, unreadable = 0.0, 0, 0
    first = ""
    with progress.stage(stage, sum(file.bytes for file in files)) as bar:
        for rows in chain.from_iterable(read(file, column, ()) for file in files):
            pairs = zip(rows.texts.to_pylist(), rows.problems, strict=True)
            for row, (text, problem) in enumerate(pairs, rows.first):
                if problem:
                    first = first or f"{rows.file}: row {row} {problem}"
                    unreadable += 1
                if text:
                    yield rows.file, row, text
            bytes_read, n_rows = bytes_read + rows.bytes, n_rows + len(rows)
            bar.reach(int(bytes_read), n_rows)
    if unreadable:
        count = counted(unreadable, "row")
        progress.say(f"{stage}: {count} that cannot be read left out. The first: {first}.")


@dataclass
class Shard:
    """The rows of one output file."""

    index: int
    parts: list[Rows] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def bytes(self) -> float:
        """The approximate bytes that the rows take in the input."""
        return sum(part.bytes for part in self.parts)

    def label(self) -> str:
        """Return the description of the rows for messages."""
        first, last = self.parts[0], self.parts[-1]
        file = "" if last.file == first.file else f" of {last.file}"
        return f"Row {first.first} of {first.file} to row {last.first + len(last) - 1}{file}"


def read_schema(files: Sequence[InputFile], column: str, keep: Sequence[str]) -> Any:
    """Return the `pyarrow.Schema` of the columns to copy, and of the partitions.

    The types are those of the first file that has rows, or strings if no file has rows.
    """
    names = [*keep, *(name for name in files[0].partitions if name not in keep)]
    first = next(chain.from_iterable(read(file, column, names) for file in files), None)
    kinds = [array.type for array in first.columns] if first else [pa.string()] * len(names)
    return pa.schema(zip(names, kinds, strict=True))


def split_shards(
    groups: Sequence[Sequence[InputFile]], column: str, schema: Any, max_rows: int
) -> Iterator[Shard]:
    """Yield the rows of all files in shards. Input without rows gives one empty shard.

    The shards depend only on the input and the job. A shard has files of one group, so that a later
    group does not change the shards before it.
    """
    index = 0
    for files in groups:
        shard, room = Shard(index), _SHARD_BYTES
        for chunk in chain.from_iterable(read(file, column, schema.names) for file in files):
            rows = _with_types(chunk, schema)
            sums = np.cumsum(np.sum([*map(row_bytes, (rows.texts, *rows.columns))], axis=0))
            start = before = 0
            while start < len(rows):
                if len(shard) >= max_rows or room <= 0:
                    yield shard
                    shard, room = Shard(shard.index + 1), _SHARD_BYTES
                # The row that crosses the limit stays in this shard, so each shard gets a row.
                end = int(np.searchsorted(sums, before + room)) + 1
                end = min(len(rows), start + max_rows - len(shard), end)
                shard.parts.append(rows.slice(start, end))
                start, size = end, int(sums[end - 1])
                room, before = room - (size - before), size
        if shard.parts or index == 0:
            yield shard
            index = shard.index + 1


def _with_types(rows: Rows, schema: Any) -> Rows:
    """Return rows whose columns to copy have the types of the first file."""
    try:
        pairs = zip(rows.columns, schema.types, strict=True)
        return replace(rows, columns=[_as_type(array, kind) for array, kind in pairs])
    except (pa.ArrowException, ValueError):
        raise CommandError(
            f"{rows.file}: a column of --keep has another type than in an earlier file."
        ) from None


def _as_type(array: Any, kind: Any) -> Any:
    """Return an array of another type; raise ValueError if it has other values."""
    if array.type == kind:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    same = array.cast(kind)
    if str(same.cast(array.type).to_pylist()) != str(array.to_pylist()):  # as lists, NaN is NaN
        raise ValueError
    return same
