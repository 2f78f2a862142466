"""The files that texts come from: one, a folder of them, or a pattern."""

from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, Literal, TypeAlias

from polyseme.bulk.refusal import BulkError

Kind: TypeAlias = Literal["parquet", "jsonl", "csv", "tsv", "text"]
_KINDS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
}
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


@dataclass(frozen=True)
class Source:
    """A file of texts."""

    path: Path
    name: str
    """its path below the folder that was given, else its own name"""
    kind: Kind
    packed: str | None
    """the compression around it"""
    bytes: int
    modified: int
    """nanoseconds since 1970"""

    def document(self) -> dict[str, Any]:
        """What tells whether it is still the same file."""
        return {"name": self.name, "bytes": self.bytes, "modified_ns": self.modified}


def sources(given: Path) -> list[Source]:
    """The files of a path: itself, all below a folder, or those a pattern matches, by name.

    Raises BulkError where there are none, or one is of a kind that is not read.
    """
    if given.is_dir():
        found = [path for path in given.rglob("*") if path.is_file() and not _hidden(path, given)]
        base = given
    else:
        found = [given] if given.is_file() else [Path(one) for one in glob(str(given))]  # noqa: PTH207 - Path.glob takes no absolute pattern
        found = [path for path in found if path.is_file()]
        base = _shared(found)
    if not found:
        raise BulkError("There is no such file, and no folder or pattern that names one.")
    return [_source(path, base) for path in sorted(found)]


def _hidden(path: Path, folder: Path) -> bool:
    """Whether a file, or a folder it is in, is beside the data, as `_SUCCESS` is."""
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _shared(paths: list[Path]) -> Path:
    """The deepest folder that all are in."""
    folders = [set(path.parents) for path in paths]
    both = set.intersection(*folders) if folders else set()
    return max(both, key=lambda one: len(one.parts), default=Path())


def _source(path: Path, base: Path) -> Source:
    packed = _PACKED.get(path.suffix.lower())
    inner = path.with_suffix("") if packed else path
    kind = _KINDS.get(inner.suffix.lower())
    if kind is None or (packed and kind == "parquet"):
        raise BulkError(
            f"{path.name} is of no kind that is read: .parquet, or .jsonl, .csv, .tsv or .txt and"
            " these with .gz, .zst or .bz2 behind."
        )
    stat = path.stat()
    name = path.relative_to(base).as_posix()
    return Source(path, name, kind, packed, stat.st_size, stat.st_mtime_ns)
