"""Read files of texts as streams of rows, and divide the rows into shards.

The shards depend only on the input and the job. Only parts of the files are in memory at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from polyseme.arrow import row_bytes, without_rows
from polyseme.bulk.files import InputFile
from polyseme.bulk.lines import read_jsonl, read_table, read_text
from polyseme.bulk.parquet import read_parquet
from polyseme.errors import CommandError, counted
from polyseme.progress import Progress

_SHARD_BYTES = 16 << 20
"""Approximate maximum size of the texts of a shard: shards of long texts have fewer rows."""


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a file."""

    file: str
    """name of the file"""
    first: int
    """index of the first of these rows in the file"""
    texts: Any
    """an Arrow array of strings or of lists of strings"""
    kept: list[Any]
    """Arrow arrays of the columns to copy"""
    problems: list[str | None]
    """what is wrong with a row that cannot be read; its text is null"""

    def __len__(self) -> int:
        return len(self.problems)

    def slice(self, start: int, end: int) -> "Rows":
        """Return a part of the rows."""
        texts, *kept = (array.slice(start, end - start) for array in (self.texts, *self.kept))
        return Rows(self.file, self.first + start, texts, kept, self.problems[start:end])


def read(file: InputFile, column: str, keep: Sequence[str]) -> Iterator[tuple[Rows, int]]:
    """Yield the rows of a file, and the approximate number of bytes that have been read.

    The rows have a column of texts or of lists of words, and the columns to copy; those of the
    file's partitions need not be in the file. A field to copy may be missing in a JSON object.
    Raises CommandError if the file's content does not match its suffix, if a column is missing or
    there twice, or if no row can be read.
    """
    readers = {"parquet": read_parquet, "jsonl": read_jsonl, "text": read_text}
    names = [name for name in keep if name not in file.partitions]
    row = unreadable = 0
    first = ""
    try:
        for columns, count, by_row in readers.get(file.kind, read_table)(file, [column, *names]):
            texts, *own = columns
            problems = [by_row.get(i) for i in range(len(texts))]
            if by_row:
                index = min(by_row)
                first = first or f"{file.name}: row {row + index} {by_row[index]}."
                # If no row can be read, the file is not what its name says, or --column is wrong.
                if row == 0 and len(by_row) == len(texts) > 1:
                    raise CommandError(first)
            arrays = dict(zip(names, own, strict=True))
            for name, value in file.partitions.items():
                arrays[name] = pa.array([value] * len(texts), pa.string())
            texts = without_rows(texts, problems)
            for array in (texts, *own):
                array.validate(full=True)  # other programs may write strings that are not UTF-8
            yield Rows(file.name, row, texts, [arrays[name] for name in keep], problems), count
            row, unreadable = row + len(texts), unreadable + len(by_row)
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        kinds = {"text": "text in UTF-8", "jsonl": "lines of JSON", "parquet": "Parquet"}
        kind = kinds.get(file.kind, f"{file.kind.upper()} in UTF-8")
        raise CommandError(
            f"{file.name} is damaged, or is not {kind}: repair it, or remove it from the input."
        ) from None
    if row and unreadable == row:
        raise CommandError(first)


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
            end = 0
            for rows, bytes_read in read(file, column, ()):
                pairs = zip(rows.texts.to_pylist(), rows.problems, strict=True)
                for row, (text, problem) in enumerate(pairs, rows.first):
                    if problem:
                        first = first or f"{file.name}: row {row} {problem}"
                        unreadable += 1
                    if text:
                        yield file.name, row, text if isinstance(text, str) else " ".join(text)
                end = rows.first + len(rows)
                bar.reach(bytes_before + bytes_read, rows_before + end)
            bytes_before, rows_before = bytes_before + file.bytes, rows_before + end
    if unreadable:
        count = counted(unreadable, "row")
        progress.say(f"{stage}: {count} that cannot be read left out. The first: {first}.")


@dataclass
class Shard:
    """The rows of one output file."""

    index: int
    parts: list[Rows] = field(default_factory=list)
    bytes: float = 0
    """approximate bytes of the input that its rows take"""

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def label(self) -> str:
        """Return the description of the rows for messages."""
        first, last = self.parts[0], self.parts[-1]
        file = "" if last.file == first.file else f" of {last.file}"
        return f"Row {first.first} of {first.file} to row {last.first + len(last) - 1}{file}"


def kept_schema(files: Sequence[InputFile], column: str, keep: Sequence[str]) -> Any:
    """Return the `pyarrow.Schema` of the columns to copy, and of the partitions.

    The types are those of the first file that has rows, or strings if no file has rows.
    """
    partitions = files[0].partitions
    own = [name for name in keep if name not in partitions]
    types: dict[str, Any] = dict.fromkeys([*keep, *partitions], pa.string())
    for file in files if own else ():
        first = next(read(file, column, own), None)
        if first:
            types |= {name: one.type for name, one in zip(own, first[0].kept, strict=True)}
            break
    names = [*keep, *(name for name in partitions if name not in keep)]
    return pa.schema([(name, types[name]) for name in names])


def split_shards(
    groups: Sequence[Sequence[InputFile]], column: str, kept: Any, max_rows: int
) -> Iterator[Shard]:
    """Yield the rows of all files in shards. Input without rows gives one empty shard.

    A shard has files of one group, so that a later group does not change the shards before it.
    """
    index = 0
    for files in groups:
        shard, room = Shard(index), _SHARD_BYTES
        for file in files:
            bytes_before = 0
            for chunk, bytes_read in read(file, column, kept.names):
                rows = _with_types(chunk, kept)
                columns = [rows.texts, *rows.kept]
                sizes = np.cumsum(np.sum([*map(row_bytes, columns)], axis=0))
                start = 0
                while start < len(rows):
                    if len(shard) >= max_rows or room <= 0:
                        yield shard
                        shard, room = Shard(shard.index + 1), _SHARD_BYTES
                    before = sizes[start - 1] if start else 0
                    # The row that crosses the limit stays in this shard, so each shard gets a row.
                    end = int(np.searchsorted(sizes, before + room)) + 1
                    end = min(len(rows), start + max_rows - len(shard), end)
                    shard.parts.append(rows.slice(start, end))
                    size = int(sizes[end - 1] - before)
                    room -= size
                    shard.bytes += size / int(sizes[-1]) * (bytes_read - bytes_before)
                    start = end
                bytes_before = bytes_read
        if shard.parts or index == 0:
            yield shard
            index = shard.index + 1


def _with_types(rows: Rows, kept: Any) -> Rows:
    """Return rows whose columns to copy have the types of the first file."""
    try:
        pairs = zip(rows.kept, kept.types, strict=True)
        columns = [array.cast(kind) for array, kind in pairs]
    except pa.ArrowException:
        raise CommandError(
            f"{rows.file}: a column of --keep has another type than in an earlier file."
        ) from None
    return Rows(rows.file, rows.first, rows.texts, columns, rows.problems)
