"""Encoded sentences as Arrow columns: lists over flat arrays, of which nothing is copied twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyseme.bulk.job import Job, Wishes, written
from polyseme.encoding.choice import Part
from polyseme.encoding.encoder import Encoded, in_dtype

OWN = (
    *("row", "file", "truncated", "tokens", "starts", "ends", "keys", "resolutions"),
    *("static", "contextual", "attention", "vector"),
)
"""The names that those of columns to be kept have to differ from."""
_LISTED = {
    "tokens": ("text", pa.string()),
    "starts": ("start", pa.int32()),
    "ends": ("end", pa.int32()),
    "keys": ("key", pa.string()),
    "resolutions": ("resolution", pa.string()),
}
"""What is said of each token: a column, a field of the token, the type."""


@dataclass
class Group:
    """Rows that are written together."""

    encoded: list[Encoded | None] = field(default_factory=list)
    """None where there is no text"""
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    """[d] of each row that has a text"""
    size: int = 0
    """numbers in the arrays"""
    file: str = ""
    first: int = 0
    """the number of the first row in its file"""
    kept: list[Any] = field(default_factory=list)
    """the columns that are passed through"""

    def add(self, one: Encoded | None) -> None:
        """Take in a row."""
        self.encoded.append(one)
        self.size += sum(array.size for array in one.arrays.values()) if one else 0


def schema(job: Job, width: int) -> Any:
    """The columns of a shard. width: d"""
    wishes = job.wishes
    real = pa.float16() if wishes.choice.dtype == "float16" else pa.float32()
    columns = [("row", pa.int64())]
    columns += [("file", pa.string())] if job.named else []
    columns += [(one.name, one.type) for one in job.kept]
    columns += [("truncated", pa.int32())]
    if wishes.listed:
        columns += [(name, pa.list_(kind)) for name, (_, kind) in _LISTED.items()]
    for part in written(wishes.choice):
        columns.append((part, pa.list_(real if part == "attention" else pa.list_(real, width))))
    columns += [("vector", pa.list_(real, width))] if wishes.pooling else []
    return pa.schema(columns)


def record_batch(job: Job, group: Group, width: int) -> Any:
    """The rows as `pyarrow.RecordBatch`. width: d"""
    wishes, encoded = job.wishes, group.encoded
    numbers = np.arange(group.first, group.first + len(encoded), dtype=np.int64)
    columns: list[Any] = [pa.array(numbers)]
    columns += [pa.array([group.file] * len(encoded), pa.string())] if job.named else []
    columns += group.kept
    columns += [pa.array([one and one.truncated for one in encoded], pa.int32())]
    if wishes.listed:
        columns += _listed(encoded)
    columns += [_numbers(encoded, part, width, wishes) for part in written(wishes.choice)]
    columns += [_pooled(group, width, wishes)] if wishes.pooling else []
    return pa.RecordBatch.from_arrays(columns, schema=schema(job, width))


def _listed(encoded: Sequence[Encoded | None]) -> list[Any]:
    """What is said of the tokens, a list of each row."""
    tokens = [token for one in encoded if one for token in one.tokens]
    offsets, absent = _offsets([len(one.tokens) if one else None for one in encoded])
    return [
        pa.ListArray.from_arrays(
            offsets, pa.array(list(map(attrgetter(name), tokens)), kind), mask=absent
        )
        for name, kind in _LISTED.values()
    ]


def _numbers(encoded: Sequence[Encoded | None], part: Part, width: int, wishes: Wishes) -> Any:
    """An array of each row: a list of vectors, or of an attention's weights in C order."""
    arrays = [one.arrays[part].reshape(-1) if one else None for one in encoded]
    flat = _flat([array for array in arrays if array is not None], wishes)
    unit = 1 if part == "attention" else width
    lengths = [None if array is None else len(array) // unit for array in arrays]
    offsets, absent = _offsets(lengths)
    inner = flat if part == "attention" else pa.FixedSizeListArray.from_arrays(flat, width)
    return pa.ListArray.from_arrays(offsets, inner, mask=absent)


def _pooled(group: Group, width: int, wishes: Wishes) -> Any:
    """The vector of each row, null where there is no text."""
    zero = np.zeros(width, np.float32)
    pooled = iter(group.vectors)
    rows = [next(pooled) if one else zero for one in group.encoded]
    absent = pa.array([one is None for one in group.encoded], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(_flat(rows, wishes), width, mask=absent)


def _flat(arrays: Sequence[NDArray[np.floating]], wishes: Wishes) -> Any:
    """All numbers one after another, in the dtype that is written."""
    joined = np.concatenate([np.empty(0, np.float32), *arrays])
    return pa.array(in_dtype(joined, wishes.choice.dtype))


def _offsets(lengths: Sequence[int | None]) -> tuple[Any, Any]:
    """Where each row begins and the last one ends, and which rows are null."""
    starts = np.cumsum([0, *(length or 0 for length in lengths)], dtype=np.int32)
    absent = pa.array([length is None for length in lengths], pa.bool_())
    return pa.array(starts, pa.int32()), absent
