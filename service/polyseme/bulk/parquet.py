"""Read Parquet files in bounded memory.

A file of a few hundred bytes can have a string that millions of rows repeat, a list of a billion
words, or a page that is a thousand times as large as its compressed bytes.
"""

import re
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.bulk.files import (
    MAX_ROW_BYTES,
    NOT_UTF8,
    READ_BYTES,
    TOO_LONG,
    Columns,
    InputFile,
    column_index,
)
from polyseme.errors import CommandError

_BATCH_ROWS, _BATCH_BYTES = 1024, 8 << 20
"""Maximum number, and approximate maximum size unless it is one row, of rows to read at once."""
_MEMORY, _MEMORY_RATIO = 192 << 20, 16
"""Reading a batch may take so many bytes of memory, and so many for each byte of the file, because
some writers put all rows into one page."""
_VALUE_BYTES = 8
"""Size of a value, beside the bytes of a string."""
_STRINGS = {
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
}
_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
_LIST_VIEWS = (pa.ListViewType, pa.LargeListViewType)


def read_parquet(file: InputFile, names: list[str]) -> Iterator[Columns]:
    """Yield the columns of a Parquet file. Raises CommandError if a batch takes too much memory."""
    with pq.ParquetFile(file.path) as parquet:
        metadata, schema = parquet.metadata, parquet.schema_arrow
        types = [schema.field(column_index(file, name, schema.names)).type for name in names]
        leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    texts_type = text_type(types[0])
    if texts_type is None:
        raise CommandError(
            f"{file.name}: the column of texts has the type {types[0]}; --column must name a column"
            " of strings or of lists of strings."
        )
    types = [texts_type, *map(_without_views, types[1:])]
    decodable = [name for name, kind in zip(names, types, strict=True) if _is_decodable(kind)]
    used = [(i, leaf) for i, leaf in enumerate(leaves) if _belongs(leaf.path, names)]
    done = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        dictionaries, size = [], 0
        for i, leaf in used:
            chunk = group.column(i)
            size += chunk.total_uncompressed_size
            size += chunk.num_values * max(leaf.length, _VALUE_BYTES)
            # A dictionary of strings does not grow with the rows that repeat them, but keeps those
            # of all rows that have been read.
            if chunk.total_uncompressed_size <= MAX_ROW_BYTES and _belongs(leaf.path, decodable):
                dictionaries.append(leaf.path)
        rows = max(min(_BATCH_ROWS, _BATCH_BYTES * group.num_rows // max(size, 1)), 1)
        options = {"buffer_size": READ_BYTES, "pre_buffer": False, "read_dictionary": dictionaries}
        with pq.ParquetFile(file.path, metadata=metadata, **options) as parquet:
            columns_read = [*dict.fromkeys(names)]
            batches = parquet.iter_batches(rows, [number], columns_read, use_threads=False)
            for batch in _limit_memory(file, batches):
                columns = [batch.column(batch.schema.names.index(name)) for name in names]
                for arrays, problems in _decode(columns, types):
                    done += len(arrays[0])
                    yield arrays, file.bytes * done // metadata.num_rows, problems


def _belongs(path: str, names: Sequence[str]) -> bool:
    """Return whether a path of a Parquet schema is that of a column, or of a part of one."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def text_type(kind: Any) -> Any:
    """Return the type to which texts of an Arrow type are cast; None if they are not texts."""
    if isinstance(kind, pa.DictionaryType):
        return text_type(kind.value_type)
    if isinstance(kind, _LISTS):
        return pa.list_(pa.string()) if text_type(kind.value_type) == pa.string() else None
    # Other programs write a column of nulls for texts that are all missing.
    return pa.string() if kind in _STRINGS or kind == pa.null() else None


def _without_views(kind: Any) -> Any:
    """Return a type with strings instead of views of strings, which Arrow does not take yet."""
    if kind in {pa.string_view(), pa.binary_view()}:
        return pa.string() if kind == pa.string_view() else pa.binary()
    if isinstance(kind, _LISTS) and "view" in str(kind):
        return pa.list_(_without_views(kind.value_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if isinstance(kind, pa.MapType):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    return kind


def _is_decodable(kind: Any) -> bool:
    """Return whether Arrow casts a dictionary to a type; not yet to views and extension types."""
    return not re.search("view|extension", str(kind))


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


def _decode(columns: list[Any], types: Sequence[Any]) -> Iterator[tuple[list[Any], dict[int, str]]]:
    """Yield columns without dictionaries, about _BATCH_BYTES at a time, with problems of rows."""
    sizes = np.sum([*map(row_bytes, columns)], axis=0)
    too_long = sizes > MAX_ROW_BYTES
    sums, start = np.cumsum(np.where(too_long, 0, sizes)), 0
    while start < len(sizes):
        before = sums[start - 1] if start else 0
        end = max(int(np.searchsorted(sums, before + _BATCH_BYTES, "right")), start + 1)
        # Not a slice, of which `cast` would decode all rows of a nested column.
        rows = pa.array(np.arange(start, end), mask=too_long[start:end])
        arrays = [
            column.take(rows).cast(kind, safe=False)  # other programs may write invalid UTF-8
            for column, kind in zip(columns, types, strict=True)
        ]
        problems = _null_words(arrays[0])
        for i, array in enumerate(arrays):
            invalid = _invalid_rows(array)
            problems |= dict.fromkeys(invalid, NOT_UTF8)
            if invalid:
                places = np.arange(len(array))
                arrays[i] = array.take(pa.array(places, mask=np.isin(places, invalid)))
        problems |= dict.fromkeys(np.flatnonzero(too_long[start:end]).tolist(), TOO_LONG)
        yield arrays, problems
        start = end


def row_bytes(array: Any) -> NDArray[np.int64]:
    """Return the approximate size of each row of an Arrow array without dictionaries. -> [n]"""
    kind, sizes = array.type, np.full(len(array), _VALUE_BYTES, np.int64)
    if isinstance(kind, pa.DictionaryType):
        of_values = np.append(row_bytes(array.dictionary), _VALUE_BYTES)
        indices = array.indices.fill_null(len(array.dictionary))
        sizes = of_values[indices.to_numpy(zero_copy_only=False)]
    elif isinstance(kind, pa.StructType):
        sizes += np.sum([*map(row_bytes, array.flatten())], axis=0, dtype=np.int64)
    elif isinstance(kind, pa.MapType):
        items = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        sizes = row_bytes(pa.ListArray.from_arrays(array.offsets, items))
    elif isinstance(kind, (*_LISTS, *_LIST_VIEWS)):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        sums = np.append(0, np.cumsum(row_bytes(array.flatten())))
        ends = np.cumsum(lengths, dtype=np.int64)
        sizes += sums[ends] - sums[ends - lengths]
    elif kind in _STRINGS and _is_decodable(kind):
        sizes += pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    else:
        sizes += array.nbytes // max(len(array), 1)
    return sizes


def _invalid_rows(array: Any) -> list[int]:
    """Return the indices of the rows that have a string that is not UTF-8."""
    rows = []
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for index in range(len(array)):
            try:
                array.take(pa.array([index])).validate(full=True)
            except pa.ArrowInvalid:
                rows.append(index)
    return rows


def _null_words(texts: Any) -> dict[int, str]:
    """Return the problems of lists that have null words."""
    problems = {}
    if pa.types.is_list(texts.type) and texts.flatten().null_count:
        for index, words in enumerate(texts):
            if words.is_valid and words.values.null_count:
                problems[index] = "has a list with a word that is null"
    return problems
