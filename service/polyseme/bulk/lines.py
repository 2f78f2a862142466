"""Read .txt, .jsonl, .csv and .tsv files in bounded memory."""

import csv
import io
import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from polyseme.arrow import NOT_UTF8
from polyseme.bulk.files import (
    MAX_ROW_BYTES,
    READ_BYTES,
    TOO_LONG,
    Columns,
    InputFile,
    column_index,
)
from polyseme.errors import CommandError, listed

_BATCH_ROWS = 4096
"""Maximum number of rows of a table to yield at once."""
_MAX_VALUES = 500_000
"""Maximum number of values in a line, each of which takes up to 350 bytes of memory."""
_LINE_BYTES = 64
"""Size of a string in memory, beside its characters."""
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){2}|(?:\0[^\0]){2}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ARRAY = "one JSON array instead of lines of JSON; `jq -c '.[]'` writes its items as lines"
_ARRAY_START = re.compile(rb'\s*\[\s*(?:["{]|$)')
_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')
_OPEN = re.compile(r'"(?:[^"]++|"")*+$')
"""A field of a line whose quotation mark may be closed in another field or line."""


class _RowError(Exception):
    """A row cannot be read; the message says why."""


def read_text(file: InputFile, names: list[str]) -> Iterator[Columns]:
    """Yield the lines of a .txt file, whose only column is `text`."""
    for name in names:
        column_index(file, name, ["text"])
    for lines, count in _read_lines(file):
        problems: dict[int, str] = {}
        texts: list[str | None] = []
        for line in lines:
            try:
                texts.append(_decode(line))
            except _RowError as error:
                problems[len(texts)] = str(error)
                texts.append(None)
        yield [pa.array(texts, pa.string())] * len(names), count, problems


def _read_lines(file: InputFile) -> Iterator[tuple[list[bytes], int]]:
    """Yield lists of lines, without line breaks, and the number of bytes read so far.

    Only the first bytes of a line that is too long are returned.
    """
    start: list[bytes] = []
    size, is_first = 0, True
    with pa.OSFile(str(file.path)) as raw, _decompress(raw, file) as stream:
        while chunk := stream.read(READ_BYTES):
            if is_first:
                if _UTF16.match(chunk):
                    raise UnicodeDecodeError("utf-8", chunk[:2], 0, 2, "UTF-16")
                chunk, is_first = chunk.removeprefix(_BYTE_ORDER_MARK), False
            *lines, end = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join((*start, lines[0]))
                start, size = [], 0
                yield [line.removesuffix(b"\r") for line in lines], raw.tell()
            if size <= MAX_ROW_BYTES:
                start.append(end)
                size += len(end)
    if size:
        yield [b"".join(start).removesuffix(b"\r")], file.bytes


def _decompress(raw: Any, file: InputFile) -> Any:
    return pa.CompressedInputStream(raw, file.compression) if file.compression else raw


def _decode(line: bytes) -> str:
    """Return a line as a string. Raises _RowError if it is too long or not UTF-8."""
    if len(line) > MAX_ROW_BYTES:
        raise _RowError(TOO_LONG)
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise _RowError(NOT_UTF8) from None


def read_jsonl(file: InputFile, names: list[str]) -> Iterator[Columns]:
    """Yield the columns of lines of JSON objects. Raises CommandError for a file of one array."""
    is_first = True
    for lines, count in _read_lines(file):
        problems: dict[int, str] = {}
        rows: list[list[Any]] = []
        for line in filter(bytes.strip, lines):
            if is_first and _ARRAY_START.match(line) and not line.rstrip().endswith(b"]"):
                raise CommandError(f"{file.name} is {_ARRAY}.")
            is_first = False
            try:
                rows.append(_json_values(line, names))
            except _RowError as error:
                problems[len(rows)] = str(error)
                rows.append([None] * len(names))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
        texts = columns[0]
        kinds = Counter(type(text) for text in texts if text is not None)
        kind = list if kinds[list] > kinds[str] else str
        for index, text in enumerate(texts):
            if not (text is None or isinstance(text, kind)):
                texts[index] = None
                problems[index] = (
                    f"has a {'string' if kind is list else 'list of words'}, unlike most rows; put"
                    " strings and lists of words into separate files"
                )
        types = [pa.list_(pa.string()) if kind is list else pa.string()]
        types += [pa.string()] * len(columns[1:])
        arrays = [_array(*column, problems) for column in zip(columns, types, strict=True)]
        yield arrays, count, problems


def _array(values: Sequence[Any], kind: Any, problems: dict[int, str]) -> Any:
    """Return an Arrow array; rows with a string that is not UTF-8 are null and become problems."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        values = list(values)
        for index, value in enumerate(values):
            try:
                "".join(value or ()).encode()
            except UnicodeEncodeError:
                values[index], problems[index] = None, NOT_UTF8
        return pa.array(values, kind)


class _Repeated(NamedTuple):
    """A JSON object in which a name is repeated."""

    fields: list[tuple[str, Any]]


def _json_object(fields: list[tuple[str, Any]]) -> dict[str, Any] | _Repeated:
    names = dict(fields)
    return names if len(names) == len(fields) else _Repeated(fields)


# A number is kept as it is written: 1.10 does not become 1.1, nor 2**64 + 1 the nearest float.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_json_object,
    parse_int=orjson.Fragment,
    parse_float=orjson.Fragment,
    parse_constant=lambda _: None,  # NaN and Infinity, which Python's json writes
)


def _json_values(line: bytes, names: Sequence[str]) -> list[Any]:
    """Return the text of a line of JSON, and the values to keep. Raises _RowError.

    Strings are copied unchanged, other values as JSON.
    """
    if line.lstrip().startswith(b"["):
        raise _RowError(f"is an array, not an object; the file may be {_ARRAY}")
    document = _decode(line)
    if sum(map(line.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise _RowError(f"has more than {_MAX_VALUES} values")
    try:
        record = _DECODER.decode(document)
    except json.JSONDecodeError as error:
        raise _RowError(f"is not well-formed JSON at column {error.colno}") from None
    except RecursionError:
        raise _RowError("is nested too deeply") from None
    if isinstance(record, _Repeated):
        counts = Counter(name for name, _ in record.fields)
        for name in names:
            if counts[name] > 1:
                raise _RowError(f"has {counts[name]} fields {name}")
        record = dict(record.fields)
    if not isinstance(record, dict):
        raise _RowError("is not a JSON object")
    if names[0] not in record:
        shown = listed([name[:40] for name in record])
        raise _RowError(f"has no column {names[0]}; the columns are {shown}")
    text, *kept = (record.get(name) for name in names)
    words = text if isinstance(text, list) else ["" if text is None else text]
    if not all(isinstance(word, str) for word in words):
        raise _RowError("has a text that is neither a string nor a list of strings")
    try:
        return [
            text,
            *(
                value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
                for value in kept
            ),
        ]
    except TypeError:
        raise _RowError(
            "has a value to keep that is nested too deeply, repeats a name in an object, or is not"
            " Unicode"
        ) from None


def read_table(file: InputFile, names: list[str]) -> Iterator[Columns]:
    """Yield the columns of a .csv or .tsv file as strings. Raises the errors of `_table_rows`."""
    with pa.OSFile(str(file.path)) as raw, _decompress(raw, file) as stream:
        buffer = io.BufferedReader(stream, READ_BYTES)
        text = io.TextIOWrapper(buffer, "utf-8-sig", "surrogateescape", newline="")
        rows = _table_rows(file, iter(partial(text.readline, MAX_ROW_BYTES + 1), ""))
        header = next(rows, [])
        if "\0" in "".join(header):
            raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "UTF-16")
        indices = [column_index(file, name, header) for name in names]
        batch: list[list[str]] = []
        size = 0
        for row in chain(rows, [None]):
            if row is not None:
                batch.append([row[i] for i in indices])
                size += sum(map(len, batch[-1]))
            if batch and (row is None or size > READ_BYTES or len(batch) == _BATCH_ROWS):
                problems: dict[int, str] = {}
                columns = zip(*batch, strict=True)
                arrays = [_array(column, pa.string(), problems) for column in columns]
                yield arrays, raw.tell(), problems
                batch, size = [], 0


def _table_rows(file: InputFile, lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield the header and the rows of a table, without empty lines.

    Raises CommandError for a row that has another number of columns than the header, has invalid
    quotes, or is too long.
    """
    width, row = 0, -1
    try:
        for fields in (_csv_rows if file.kind == "csv" else _tsv_rows)(lines):
            width = width or len(fields)
            _check_width(fields, width)
            yield fields
            row += 1
    except _RowError as error:
        name = f"row {row}" if row >= 0 else "the header"
        raise CommandError(f"{file.name}: {name} {error}.") from None


def _check_width(fields: list[str], width: int) -> None:
    if len(fields) != width:
        raise _RowError("has another number of columns; correct the row, or remove it")


def _check_size(size: int, line: str, delimiter: str) -> None:
    """Raise _RowError if a row is too long or a line of it has too many fields."""
    if size > MAX_ROW_BYTES or line.count(delimiter) > _MAX_VALUES:
        raise _RowError(f"has more than {MAX_ROW_BYTES} bytes or {_MAX_VALUES} columns")


def _csv_rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield the rows of a .csv file (RFC 4180). Raises _RowError for an invalid quotation mark."""
    size = 0

    def limited_lines() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            _check_size(size, line, ",")
            yield line

    csv.field_size_limit(MAX_ROW_BYTES)
    try:
        for fields in csv.reader(limited_lines(), strict=True):
            size = 0
            if fields:
                yield fields
    except csv.Error:
        raise _RowError(
            "has a quotation mark that is not closed, or not followed by a comma; write two marks"
            " for one within quotes"
        ) from None


def _tsv_rows(lines: Iterator[str]) -> Iterator[list[str]]:
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

    def lines_from(line: str) -> Iterator[str]:
        size = 0
        for one in chain([line], ahead, next_lines()):
            size += len(one) + _LINE_BYTES
            if size > MAX_ROW_BYTES:
                return
            yield one

    while line := ahead.popleft() if ahead else next(lines, ""):
        _check_size(len(line), line, "\t")
        content = line.removesuffix("\n").removesuffix("\r")
        if not content:
            continue
        fields = content.split("\t")
        width = width or len(fields)
        if '"' in content:
            if len(fields) != width or any(map(_OPEN.match, fields)):
                reader = csv.reader(lines_from(line), delimiter="\t", strict=True)
                with suppress(csv.Error, StopIteration):
                    quoted = next(reader)
                    others = list(islice(ahead, reader.line_num - 1))
                    tabs = {one.count("\t") for one in (line, *others) if one.strip("\r\n")}
                    if len(quoted) == width and tabs != {width - 1}:
                        for _ in others:
                            ahead.popleft()
                        yield quoted
                        continue
            fields = [
                one[1:-1].replace('""', '"') if _QUOTED.fullmatch(one) else one for one in fields
            ]
        yield fields
