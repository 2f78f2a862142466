"""Read files of texts as streams of Arrow batches, and divide their rows into shards.

The shards depend only on the input and the job. Only parts of the files are in memory at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import iglob
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from polyseme.bulk.files import InputFile, Kind
from polyseme.bulk.lines import read_jsonl, read_table, read_text
from polyseme.bulk.parquet import read_parquet, row_bytes
from polyseme.errors import CommandError, counted
from polyseme.progress import Progress

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
_SHARD_BYTES = 16 << 20
"""Approximate maximum size of the texts of a shard: shards of long texts have fewer rows."""


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

    Raises CommandError if the file's content does not match its suffix, if a column is missing or
    there twice, or if no row can be read; with `strict`, also for a row that cannot be read. A
    field to keep may be missing in a JSON object; its value is then null.
    """
    readers = {"parquet": read_parquet, "jsonl": read_jsonl, "text": read_text}
    row = unreadable = 0
    first = ""
    try:
        for columns, count, problems in readers.get(file.kind, read_table)(file, [column, *keep]):
            texts, *kept = columns
            if problems:
                index = min(problems)
                first = first or f"{file.name}: row {row + index} {problems[index]}."
                # If no row can be read, the file is not what its name says, or --column is wrong.
                if strict or (row == 0 and len(problems) == len(texts) > 1):
                    raise CommandError(first)
                bad = np.isin(np.arange(len(texts)), list(problems))
                texts = texts.take(pa.array(np.arange(len(texts)), mask=bad))
            batch = pa.RecordBatch.from_arrays([texts, *kept], names=[TEXTS, *keep])
            batch.validate(full=True)  # other programs may write strings that are not UTF-8
            yield Chunk(batch, count, problems)
            row, unreadable = row + len(batch), unreadable + len(problems)
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
        progress.say(f"{stage}: {rows} that cannot be read left out. The first: {first}.")


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
            sizes = np.cumsum(np.sum([*map(row_bytes, batch.columns)], axis=0))
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
