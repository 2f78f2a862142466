"""Files of texts, and what is common to the readers of their formats."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from polyseme.errors import CommandError, listed

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv", "text"]
READ_BYTES = 1 << 20
"""Bytes that are read at once."""
MAX_ROW_BYTES = 16 << 20
"""Approximate maximum size of a row; a longer one is no row of sentences."""
NOT_UTF8 = "is not text in UTF-8"
TOO_LONG = f"has more than {MAX_ROW_BYTES} bytes; put each sentence into a separate row"

Columns: TypeAlias = tuple[list[Any], int, dict[int, str]]
"""What a reader yields: Arrow arrays of the requested columns, of which the first has strings or
lists of strings; the number of bytes read so far; and what is wrong with rows, by their indices."""


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
