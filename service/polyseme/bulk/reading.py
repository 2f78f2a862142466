"""Files of texts as a stream of Arrow batches, a few thousand rows in memory at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from polyseme.bulk.refusal import BulkError
from polyseme.bulk.sources import Source

TEXTS = "_texts"
"""The name of the first column of a batch; those that are kept follow."""
_ROWS = 4096
_CHUNK = 1 << 20
"""Bytes that are read at a time."""
LONGEST = 16 << 20
"""Bytes of one line at most: a file without line ends is no text of lines."""
_BLOCK = 8 << 20
"""Bytes of CSV that are parsed at a time; a row has to fit in. Arrow reads up to 32 such ahead."""
_LINE = "text"
"""What the only column of plain text is called."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a file."""

    rows: Any
    """`pyarrow.RecordBatch`: the texts, then the columns that are kept"""
    read: int
    """about how many bytes of the file lie behind"""


def read(source: Source, column: str, keep: Sequence[str]) -> Iterator[Piece]:
    """Yield the rows of a file: a column of texts, or of lists of words, and those to be kept.

    Raises BulkError where the file is not what its name says, or has no such column.
    """
    reader = {"parquet": _parquet, "jsonl": _jsonl, "text": _text}.get(source.kind, _csv)
    with _explained(source):
        for columns, behind in reader(source, [column, *keep]):
            yield Piece(_batch(source, columns, keep), behind)


_Columns = tuple[list[Any], int]
"""The columns that were asked for, in their order, and how many bytes lie behind."""


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Say in one sentence what Arrow's readers meet."""
    try:
        yield
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        kind = {
            "text": "lines of text in UTF-8",
            "jsonl": "lines of JSON",
            "parquet": "Parquet",
        }.get(source.kind, f"{source.kind.upper()} in UTF-8")
        raise BulkError(
            f"{source.name}: the file is damaged, or not {kind}: mend it, or take it out of the"
            " input."
        ) from None


def _batch(source: Source, columns: list[Any], keep: Sequence[str]) -> Any:
    texts = columns[0]
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    listed = pa.types.is_list(texts.type) or pa.types.is_large_list(texts.type)
    inner = texts.type.value_type if listed else texts.type
    if not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
        raise BulkError(
            f"{source.name}: the column of texts is {texts.type}; --column names one of strings, or"
            " of lists of them."
        )
    columns = [texts.cast(pa.list_(pa.string()) if listed else pa.string()), *columns[1:]]
    batch = pa.RecordBatch.from_arrays(columns, names=[TEXTS, *keep])
    batch.validate(full=True)  # strings of another program may be no UTF-8
    return batch


def _missing(source: Source, column: str) -> BulkError:
    return BulkError(f"{source.name}: there is no column {column}; --column and --keep name some.")


def _parquet(source: Source, wanted: list[str]) -> Iterator[_Columns]:
    with pq.ParquetFile(source.path, buffer_size=_CHUNK, pre_buffer=False) as file:
        for name in wanted:
            if name not in file.schema_arrow.names:
                raise _missing(source, name)
        total, done = max(1, file.metadata.num_rows), 0
        columns = list(dict.fromkeys(wanted))
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            done += len(batch)
            found = [batch.column(batch.schema.names.index(name)) for name in wanted]
            yield found, source.bytes * done // total


def _csv(source: Source, wanted: list[str]) -> Iterator[_Columns]:
    delimiter = "," if source.kind == "csv" else "\t"
    with pa.OSFile(str(source.path)) as raw, _expanded(raw, source) as stream:
        # A first line without a second one is no error: no rows.
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            # What is kept is passed through as it stands; one type for all files and blocks.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False
            ),
        )
        for name in wanted:
            if name not in reader.schema.names:
                raise _missing(source, name)
        for batch in reader:
            yield [batch.column(batch.schema.names.index(name)) for name in wanted], raw.tell()


def _text(source: Source, wanted: list[str]) -> Iterator[_Columns]:
    for name in wanted:
        if name != _LINE:
            raise _missing(source, name)
    for lines, behind in _lines(source):
        texts = pa.array([line.decode() for line in lines], pa.string())
        yield [texts] * len(wanted), behind


def _jsonl(source: Source, wanted: list[str]) -> Iterator[_Columns]:
    row = 0
    for lines, behind in _lines(source):
        records = []
        for line in lines:
            if line.strip():
                records.append(_record(line, source, row, wanted))
                row += 1
        texts = [one[0] for one in records]
        kept = [[_as_text(one[place]) for one in records] for place in range(1, len(wanted))]
        yield [_strings(texts, source, row), *(pa.array(one, pa.string()) for one in kept)], behind


def _record(line: bytes, source: Source, row: int, wanted: list[str]) -> list[Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise BulkError(f"{source.name}: row {row} is not a JSON object.")
    # A text that is not there is a mistake in --column far more often than one that is missing.
    if wanted[0] not in found:
        raise _missing(source, f"{wanted[0]} in row {row}")
    text = found[wanted[0]]
    words = isinstance(text, list) and all(isinstance(word, str) for word in text)
    if not (text is None or isinstance(text, str) or words):
        raise BulkError(f"{source.name}: the text of row {row} is no string and no list of them.")
    return [found.get(name) for name in wanted]


def _strings(texts: list[Any], source: Source, row: int) -> Any:
    kinds = {type(text) for text in texts if text is not None}
    if len(kinds) > 1:
        raise BulkError(
            f"{source.name}: before row {row}, some texts are strings and some are lists of words;"
            " give them in files of their own."
        )
    return pa.array(texts, pa.list_(pa.string()) if kinds == {list} else pa.string())


def _as_text(value: Any) -> str | None:
    """A value that is kept: a string as it is, anything else as JSON."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _lines(source: Source) -> Iterator[tuple[list[bytes], int]]:
    """Yield the lines of a file, about a chunk of them at a time, without their ends."""
    rest = b""
    with pa.OSFile(str(source.path)) as raw, _expanded(raw, source) as stream:
        first = True
        while chunk := stream.read(_CHUNK):
            if first:
                chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST:
                raise BulkError(
                    f"{source.name}: a line has more than {LONGEST} bytes; put line ends between"
                    " sentences."
                )
            if lines:
                yield [line.removesuffix(b"\r") for line in lines], raw.tell()
    if rest:
        yield [rest.removesuffix(b"\r")], source.bytes


def _expanded(raw: Any, source: Source) -> Any:
    """A file out of its compression."""
    return pa.CompressedInputStream(raw, source.packed) if source.packed else raw
