"""Write the shards of a job as Parquet or lines of JSON, each with a file of facts about it."""

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from polyseme.arrow import FLOAT_COLUMNS, GROUP_BYTES, Counts, Encoder, Encoding, row_error
from polyseme.atomic_files import atomic_files
from polyseme.bulk.read import Shard
from polyseme.errors import CommandError, InvalidError, PolysemeError


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs to write a shard."""

    encoder: Encoder
    out: Path
    format: Literal["parquet", "jsonl"] = "parquet"
    compression: Literal["none", "zstd"] = "none"
    """compression of the numbers in Parquet"""
    shard_rows: int = 4096
    has_files: bool = False
    """whether to write a column with the name of the input file"""
    copy_schema: Any = None
    """`pyarrow.Schema` of the columns to copy, of which the first ones are `row` and `file`"""

    def shard_path(self, index: int) -> Path:
        """Return the path of a shard."""
        return self.out / f"part-{index:05}.{self.format}"


def write_shard(job: Job, shard: Shard) -> Counts:
    """Encode and write a shard; return its counts.

    Raises CommandError if a row cannot be encoded and `on_error` is `fail`, and the errors of
    `open_model`.
    """
    encoding = Encoding(job.encoder, job.copy_schema)
    path = job.shard_path(shard.index)
    errors: list[dict[str, Any]] = []
    write = write_lines if job.format == "jsonl" else write_parquet
    # The facts are renamed first, because a shard with its final name is complete.
    with atomic_files(facts_path(path), path) as (facts, file):
        try:
            write(file, encoding.schema, _encode(job, encoding, shard, errors), job.compression)
        except PolysemeError as error:
            message = row_error(error).partition(": ")[2]
            raise CommandError(f"{shard.label()}: {message}") from None
        except MemoryError:
            raise CommandError(
                f"{shard.label()}: there is not enough memory; use fewer --workers. Finished shards"
                " are kept."
            ) from None
        file.flush()
        size = os.fstat(file.fileno()).st_size
        document = {"counts": asdict(encoding.counts), "bytes": size, "errors": errors}
        facts.write(orjson.dumps(document))
    return encoding.counts


def _encode(
    job: Job, encoding: Encoding, shard: Shard, errors: list[dict[str, Any]]
) -> Iterator[Any]:
    """Yield the rows of a shard as record batches, and add the rows with an error to a list.

    Raises CommandError for such a row if `on_error` is `fail`.
    """
    for rows in shard.parts:
        indices = pa.array(np.arange(rows.first, rows.first + len(rows)))
        origin = [indices, pa.array([rows.file] * len(rows), pa.string())][: 1 + job.has_files]
        try:
            yield from encoding.batches(rows.texts, [*origin, *rows.columns], rows.problems)
        except InvalidError:
            if not encoding.errors:
                raise
        for index, message in sorted(encoding.errors):
            row, (code, _, text) = rows.first + index, message.partition(": ")
            if job.encoder.on_error == "fail":
                raise CommandError(f"Row {row} of {rows.file}: {text}")
            errors.append({"file": rows.file, "row": row, "code": code, "error": text})


def facts_path(path: Path) -> Path:
    """Return the path of the facts about a shard: its counts, its size, and rows with an error."""
    return path.with_name(f"_{path.stem}.json")


def read_facts(path: Path) -> tuple[Counts, list[dict[str, Any]]]:
    """Return the counts of a shard, and the rows with an error.

    Raises CommandError if a file is damaged.
    """
    try:
        facts = orjson.loads(facts_path(path).read_bytes())
        if facts["bytes"] == path.stat().st_size:
            return Counts(**facts["counts"]), facts["errors"]
    except (OSError, ValueError, TypeError, KeyError):
        pass
    raise CommandError(f"{path.name} is damaged: remove it and run again.")


def write_lines(file: IO[bytes], schema: Any, batches: Iterable[Any], _compression: str) -> None:
    """Write batches as lines of JSON."""
    names = [name for name in schema.names if name in FLOAT_COLUMNS]
    style = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    for batch in batches:
        # Numbers stay arrays, so that each has the digits of its type.
        columns = [map(_array_of_row, batch.column(name)) for name in names]
        try:
            rows = batch.drop_columns(names).to_pylist()
        except (OverflowError, ValueError):
            raise CommandError(
                "A column of --keep has a date or time that JSON lines cannot have, such as one"
                " after the year 9999: use --format parquet."
            ) from None
        for row, *arrays in zip(rows, *columns, strict=True):
            line = row | dict(zip(names, arrays, strict=True))
            file.write(orjson.dumps(line, default=_as_string, option=style))


def _as_string(value: Any) -> str:
    """Return a value of --keep that JSON does not have, such as a decimal, or bytes as UTF-8."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _array_of_row(row: Any) -> Any:
    """Return the array of a row of numbers; None if it is null."""
    values = row.values
    if values is None:
        return None
    if not pa.types.is_fixed_size_list(values.type):
        return values.to_numpy(zero_copy_only=False)
    matrix = values.flatten().to_numpy(zero_copy_only=False)
    return matrix.reshape(len(values), values.type.list_size)


def write_parquet(file: IO[bytes], schema: Any, batches: Iterable[Any], compression: str) -> None:
    """Write batches as a Parquet file with row groups of about GROUP_BYTES."""
    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty)
    leaves = pq.ParquetFile(empty).schema
    paths = [leaves.column(i).path for i in range(len(leaves))]
    # Floating-point numbers hardly compress, and their minimum and maximum are useless.
    floats = {path for path in paths if path.split(".")[0] in FLOAT_COLUMNS}
    others = [path for path in paths if path not in floats]
    with pq.ParquetWriter(
        file.name,
        schema,
        compression={path: compression if path in floats else "zstd" for path in paths},
        use_dictionary=others,
        write_statistics=others,
        use_byte_stream_split=sorted(floats) if compression == "zstd" else False,
    ) as writer:
        for group in _groups(batches):
            table = pa.Table.from_batches(group)
            writer.write_table(table, row_group_size=len(table))


def _groups(batches: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield lists of batches with rows, which together reach GROUP_BYTES."""
    group, size = list[Any](), 0
    for batch in filter(len, batches):
        group.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
