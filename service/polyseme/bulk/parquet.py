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
import pyarrow.parquet as pq

from polyseme.arrow import (
    NOT_UTF8,
    clean_texts,
    invalid_rows,
    ranges,
    row_bytes,
    text_type,
    without_rows,
    without_views,
)
from polyseme.bulk.files import (
    MAX_ROW_BYTES,
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
    kept_types = [without_views(kind) for kind in types[1:]]
    pairs = zip(names, [texts_type, *kept_types], strict=True)
    decodable = [name for name, kind in pairs if _is_decodable(kind)]
    used = [(i, leaf) for i, leaf in enumerate(leaves) if _belongs(leaf.path, names)]
    done = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
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
            batches = parquet.iter_batches(rows, [index], columns_read, use_threads=False)
            for batch in _limit_memory(file, batches):
                columns = [batch.column(batch.schema.names.index(name)) for name in names]
                for arrays, problems in _decode(columns, kept_types):
                    done += len(arrays[0])
                    yield arrays, file.bytes * done // metadata.num_rows, problems


def _belongs(path: str, names: Sequence[str]) -> bool:
    """Return whether a path of a Parquet schema is that of a column, or of a part of one."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


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
    for start, end in ranges(np.where(too_long, 0, sizes), _BATCH_BYTES):
        # Not a slice, of which `cast` would decode all rows of a nested column.
        rows = pa.array(np.arange(start, end), mask=too_long[start:end])
        texts, *kept = (column.take(rows) for column in columns)
        texts, of_texts = clean_texts(texts)
        problems = {i: problem for i, problem in enumerate(of_texts) if problem}
        for i, kind in enumerate(types):
            array = kept[i].cast(kind, safe=False)  # other programs may write invalid UTF-8
            invalid = dict.fromkeys(invalid_rows(array), NOT_UTF8)
            kept[i] = without_rows(array, [invalid.get(j) for j in range(len(array))])
            problems |= invalid
        problems |= dict.fromkeys(np.flatnonzero(too_long[start:end]).tolist(), TOO_LONG)
        yield [texts, *kept], problems
