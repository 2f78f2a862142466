"""Files of texts, and what is common to the readers of their formats."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import has_magic, iglob
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

from polyseme.errors import CommandError, listed

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv", "text"]
READ_BYTES = 1 << 20
"""Bytes that are read at once."""
MAX_ROW_BYTES = 16 << 20
"""Approximate maximum size of a row; a longer one is no row of sentences."""
TOO_LONG = f"has more than {MAX_ROW_BYTES} bytes; put each sentence into a separate row"
_KINDS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

Columns: TypeAlias = tuple[list[Any], int, dict[int, str]]
"""What a reader yields: Arrow arrays of the requested columns, of which the first has strings or
lists of strings; the number of bytes read so far; and what is wrong with rows, by their indices."""


@dataclass(frozen=True)
class InputFile:
    """A file of texts."""

    path: Path
    name: str
    """the path relative to the folder of the input"""
    kind: Kind
    compression: str | None
    bytes: int

    partitions: dict[str, str | None]
    """the columns in the names of folders, such as `year=2024` (Hive), of all files"""

    def document(self) -> dict[str, str]:
        """Return the facts that identify the file in the manifest of a job."""
        with self.path.open("rb") as file:
            return {"name": self.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def find_files(path: Path) -> list[InputFile]:
    """Return the file at a path, or the files in a folder or of a pattern, sorted by path.

    Raises CommandError if there is no file, or for a file of an unknown kind.
    """
    require_local(path)
    if path.is_dir():
        # Skip files that are not data, such as `_SUCCESS` and `.crc`.
        paths = [
            file
            for file in path.rglob("*")
            if file.is_file()
            and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        ]
        base = path
    elif path.is_file():
        paths, base = [path], path.parent
    else:
        # Path.glob takes no absolute pattern, and matches hidden files.
        paths = [file for file in map(Path, iglob(str(path))) if file.is_file()]  # noqa: PTH207
        base = Path(*takewhile(lambda part: not has_magic(part), path.parts))
    if not paths:
        raise CommandError(
            f"{path.name}: there is no such file or folder with files, and no file matches it as a"
            " pattern."
        )
    names = [file.relative_to(base).as_posix() for file in sorted(paths)]
    partitions = [_partitions(name) for name in names]
    columns = dict.fromkeys(column for one in partitions for column in one)
    files = []
    for file, name, values in zip(sorted(paths), names, partitions, strict=True):
        compression = _COMPRESSIONS.get(file.suffix.lower())
        kind = _KINDS.get((file.with_suffix("") if compression else file).suffix.lower())
        if kind is None or (compression and kind == "parquet"):
            raise CommandError(
                f"{file.name} is not of a supported kind: .parquet, .jsonl, .ndjson, .csv, .tsv or"
                " .txt; all but the first also with .gz, .zst or .bz2."
            )
        size = file.stat().st_size
        files.append(InputFile(file, name, kind, compression, size, {**columns, **values}))
    return files


def _partitions(name: str) -> dict[str, str | None]:
    """Return the columns in the names of a file's folders."""
    pairs = (part.split("=", 1) for part in name.split("/")[:-1] if "=" in part)
    return {key: None if value == _NULL_PARTITION else unquote(value) for key, value in pairs}


def require_local(path: Path) -> None:
    """Raise CommandError for an address such as s3://bucket/folder, which is not a path."""
    if re.match(r"[A-Za-z][\w+.-]*:/", str(path)):  # Path removes the second slash
        raise CommandError(
            f"{path} is an address, not a path: copy the files, or run `polyseme.arrow.Encoder` in"
            " Spark, Ray or Dask, which read and write such addresses."
        )


def column_index(file: InputFile, name: str, columns: Sequence[str]) -> int:
    """Return the index of a column. Raises CommandError if there is none, or more than one."""
    count = columns.count(name)
    if not count:
        names = listed([column[:40] for column in columns])
        others = f"the columns are {names}" if columns else "the file is empty"
        raise CommandError(f"{file.name}: there is no column {name}; {others}.")
    if count > 1:
        raise CommandError(f"{file.name}: there are {count} columns {name}: rename all but one.")
    return columns.index(name)
