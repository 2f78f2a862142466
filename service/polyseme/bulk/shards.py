"""The input as shards: ranges of rows that depend on nothing but the input and the job."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from polyseme.bulk.reading import TEXTS, Piece, read
from polyseme.bulk.refusal import BulkError
from polyseme.bulk.sources import Source

_BYTES = 64 << 20
"""of a shard's texts, about: rows with books in them make smaller shards"""
_WORD = 8
"""What a word of a list counts, in bytes."""


@dataclass(frozen=True)
class Run:
    """Rows of one file that follow each other."""

    name: str
    """of the file"""
    first: int
    rows: Any
    """`pyarrow.RecordBatch`: the texts, then what is kept"""


@dataclass
class Shard:
    """The rows that one file of the output holds."""

    number: int
    runs: list[Run] = field(default_factory=list)
    read: int = 0
    """bytes of all input that lie behind"""

    def __len__(self) -> int:
        return sum(len(run.rows) for run in self.runs)


def kept_schema(first: Source, column: str, keep: Sequence[str]) -> Any:
    """The columns to be kept, with the types that the first file has them in."""
    if not keep:
        return pa.schema([])
    for piece in read(first, column, keep):
        schema = piece.rows.schema
        return pa.schema([field_ for field_ in schema if field_.name != TEXTS])
    return pa.schema([(name, pa.string()) for name in keep])


def shards(sources: Sequence[Source], column: str, kept: Any, most_rows: int) -> Iterator[Shard]:
    """Cut the rows of all files into shards, one after another; no rows make one empty shard."""
    shard, room = Shard(0), _BYTES
    behind = 0
    for source in sources:
        row = 0
        for piece in read(source, column, kept.names):
            rows = _cast(piece, kept, source)
            sizes = np.cumsum(_sizes(rows.column(0)))
            start = 0
            while start < len(rows):
                if len(shard) >= most_rows or room <= 0:
                    yield shard
                    shard, room = Shard(shard.number + 1), _BYTES
                before = sizes[start - 1] if start else 0
                # The row that fills a shard is in it, so that every shard has one.
                end = min(
                    len(rows),
                    start + most_rows - len(shard),
                    int(np.searchsorted(sizes, before + room)) + 1,
                )
                shard.runs.append(Run(source.name, row + start, rows.slice(start, end - start)))
                room -= int(sizes[end - 1] - before)
                shard.read = behind + piece.read
                start = end
            row += len(rows)
        behind += source.bytes
    shard.read = behind
    if shard.runs or shard.number == 0:
        yield shard


def _cast(piece: Piece, kept: Any, source: Source) -> Any:
    """The rows, with the kept columns in the types of the first file."""
    rows = piece.rows
    try:
        columns = [rows.column(place + 1).cast(one.type) for place, one in enumerate(kept)]
    except pa.ArrowException:
        raise BulkError(
            f"{source.name}: a column to be kept has another type than in the first file."
        ) from None
    return pa.RecordBatch.from_arrays([rows.column(0), *columns], names=[TEXTS, *kept.names])


def _sizes(texts: Any) -> Any:
    """About how many bytes each text has. [S] -> [S]"""
    if pa.types.is_list(texts.type):
        sizes = pc.multiply(pc.list_value_length(texts), _WORD)
    else:
        sizes = pc.binary_length(texts)
    # A row without a text takes place all the same.
    return pc.add(pc.fill_null(sizes, 0), _WORD).to_numpy(zero_copy_only=False).astype(np.int64)
