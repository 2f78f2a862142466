"""Write the shards of a job, each with its totals: tables, or NumPy archives."""

import os
import platform
import resource
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyseme.atomic_files import atomic_files, atomic_write
from polyseme.bulk.job import Job
from polyseme.bulk.sources import RowRange, Shard
from polyseme.bulk.tables import (
    TOTALS_KEY,
    RowErrors,
    Totals,
    bulk_error,
    count_rows,
    tokenize_texts,
    write_table,
)
from polyseme.engine.arrays import NonFiniteError
from polyseme.errors import CommandError, OutOfRangeError, PolysemeError
from polyseme.models.model import Model
from polyseme.operations.embed import pooled_options, sentence_vectors
from polyseme.operations.encode import cast, encode_each, windows
from polyseme.operations.options import PER_TOKEN
from polyseme.operations.serialize import token_documents
from polyseme.tokenizer import Tokenized


@dataclass(frozen=True)
class ShardResult:
    """A worker's report after it has written a shard."""

    number: int
    totals: Totals
    bytes: float
    """bytes of the input that the rows take"""
    process: tuple[str, int]
    """the name of the machine and the process ID"""
    peak: int
    """peak memory of the process in bytes"""


def write_shard(job: Job, shard: Shard) -> ShardResult:
    """Encode and write a shard.

    Raises CommandError if a row cannot be encoded and the job is strict, and the errors of
    `Job.load_model`.
    """
    model = job.load_model()
    write = write_npz if job.options.format == "npz" else write_table
    path = job.shard_path(shard.number)
    # The totals are renamed first, because a shard with its final name is complete.
    paths = [_totals_path(path), path] if job.options.format == "jsonl" else [path]
    with atomic_files(*paths) as files:
        errors = RowErrors(job)
        try:
            totals = write(files[-1], job, model, shard, errors)
            if errors.entries:
                style = orjson.OPT_APPEND_NEWLINE
                lines = [orjson.dumps(entry, option=style) for entry in errors.in_order(shard)]
                atomic_write(errors_path(path), b"".join(lines))
            if len(files) > 1:
                files[0].write(orjson.dumps(asdict(totals)))
        except PolysemeError as error:
            raise CommandError(f"{shard.label()}: {bulk_error(error)}") from None
        except MemoryError:
            raise CommandError(
                f"{shard.label()}: there is not enough memory; use fewer --workers or a smaller"
                " --batch-rows. Finished shards are kept."
            ) from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    process = (platform.node(), os.getpid())
    return ShardResult(shard.number, totals, shard.bytes, process, peak)


def _totals_path(path: Path) -> Path:
    """Return the path of the totals of a `.jsonl` shard."""
    return path.with_name(f"_{path.stem}.json")


def errors_path(path: Path) -> Path:
    """Return the path of the rows with an error of a shard, which exists if there are any."""
    return path.with_name(f"_{path.stem}.errors.jsonl")


def read_totals(path: Path) -> Totals:
    """Return the totals of a shard. Raises CommandError if its file is damaged."""
    try:
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                totals = archive.comment
        elif path.suffix == ".jsonl":
            totals = _totals_path(path).read_bytes()
        else:
            totals = pq.read_metadata(path).metadata[TOTALS_KEY.encode()]
        return Totals(**orjson.loads(totals))
    except (OSError, ValueError, TypeError, KeyError, BadZipFile, pa.ArrowException):
        raise CommandError(f"{path.name} is damaged: remove it and run again.") from None


def write_npz(file: IO[bytes], job: Job, model: Model, shard: Shard, errors: RowErrors) -> Totals:
    """Write an archive like that of /v1/encode (`serialize.npz_archive`), also with `rows`.

    It has `files` if there are several input files, and `vectors` if there is a pooling. The arrays
    are not all in memory: sentences are encoded once for each requested array of PER_TOKEN and once
    for the others. A row with an error has no tokens, or is left out.
    """
    encoding, pooling, ranges = job.options.encoding, job.options.pooling, shard.ranges
    tokenized = [
        errors.without_errors(rows, tokenize_texts(job, model, rows.texts, encoding))
        for rows in ranges
    ]
    try:
        return _write_archive(file, job, model, ranges, tokenized, errors)
    except (NonFiniteError, OutOfRangeError):  # begin again without the sentences that cause it
        for rows, sentences in zip(ranges, tokenized, strict=True):
            for place, sentence in enumerate(sentences):
                try:
                    alone = [sentence] if sentence else []
                    list(encode_each(model, alone, encoding))
                    if pooling:
                        cast(sentence_vectors(model, alone, pooling), encoding.dtype)
                except (NonFiniteError, OutOfRangeError):
                    errors.add(rows, place, OutOfRangeError())
                    sentences[place] = None
        file.seek(0)
        file.truncate()
        return _write_archive(file, job, model, ranges, tokenized, errors)


def _write_archive(
    file: IO[bytes],
    job: Job,
    model: Model,
    ranges: Sequence[RowRange],
    tokenized: Sequence[Sequence[Tokenized | None]],
    errors: RowErrors,
) -> Totals:
    options, encoding = job.options, job.options.encoding
    sentences: list[Tokenized] = []
    numbers, names = [np.empty(0, np.int64)], list[str]()
    totals = Totals(failed=len(errors.entries))
    for rows, some in zip(ranges, tokenized, strict=True):
        totals += count_rows(rows, some)
        places = np.flatnonzero(~errors.left_out(rows))
        sentences += [some[place] or Tokenized([]) for place in places.tolist()]
        numbers.append(rows.first + places)
        names += [rows.name] * len(places)
    arrays: dict[str, NDArray[Any]] = {"rows": np.concatenate(numbers)}
    if job.several_files:
        arrays["files"] = np.array(names, np.str_)
    if options.pooling:
        pooled = pooled_options(options.pooling)
        vectors = [np.empty((0, model.manifest.dimension), np.float32)]
        for window in windows(model, sentences, pooled):
            vectors += [sentence_vectors(model, window, options.pooling)]
        arrays["vectors"] = cast(np.concatenate(vectors), encoding.dtype)
    offsets = np.cumsum([0, *(len(sentence.words) for sentence in sentences)], dtype=np.int64)
    facts = [{"tokens": token_documents(s), "truncated": s.truncated} for s in sentences]
    with ZipFile(file, "w") as archive:
        _write_member(archive, "offsets", offsets)
        _write_member(archive, "tokens", np.frombuffer(orjson.dumps(facts), np.uint8))
        for part, width in PER_TOKEN.items():
            if part in encoding.include:
                shape = (int(offsets[-1]), width * model.manifest.dimension)
                dtype = np.dtype(encoding.dtype).str
                header = {"descr": dtype, "fortran_order": False, "shape": shape}
                with archive.open(f"{part}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, header)
                    alone = encoding.model_copy(update={"include": [part]})
                    for sentence in encode_each(model, sentences, alone):
                        member.write(np.ascontiguousarray(sentence.arrays[part]).data)
        rest = [part for part in encoding.include if part not in PER_TOKEN]
        others = encoding.model_copy(update={"include": rest})
        for number, sentence in enumerate(encode_each(model, sentences, others)):
            for part, array in sentence.arrays.items():
                _write_member(archive, f"{part}_{number}", array)
        for name, array in arrays.items():
            _write_member(archive, name, array)
        archive.comment = orjson.dumps(asdict(totals))
    return totals


def _write_member(archive: ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
