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

from polyseme.atomic_files import atomic_files
from polyseme.bulk.job import Job
from polyseme.bulk.rows import Rows, Totals, bulk_error, count_rows, tokenize_rows
from polyseme.bulk.sources import Shard
from polyseme.bulk.tables import TOTALS_KEY, write_table
from polyseme.errors import CommandError, PolysemeError
from polyseme.models.model import Model
from polyseme.operations.embed import pooled_options, sentence_vectors
from polyseme.operations.encode import Text, Tokenized, cast, encode_each, encode_sentences, windows
from polyseme.operations.options import PER_TOKEN, EncodeOptions
from polyseme.operations.serialize import token_documents


@dataclass(frozen=True)
class ShardResult:
    """A worker's report after it has written a shard."""

    number: int
    totals: Totals
    bytes_read: int
    """bytes of all input files read up to the end of this shard"""
    process: tuple[str, int]
    """the name of the machine and the process ID"""
    peak: int
    """peak memory of the process in bytes"""


def write_shard(job: Job, shard: Shard) -> ShardResult:
    """Encode and write a shard.

    Raises CommandError if a row cannot be encoded, and the errors of `Job.load_model`.
    """
    model = job.load_model()
    write = _write_npz if job.options.format == "npz" else write_table
    path = job.shard_path(shard.number)
    # The totals are renamed first, because a shard with its final name is complete.
    paths = [_totals_path(path), path] if job.options.format == "jsonl" else [path]
    with atomic_files(*paths) as files:
        try:
            totals = write(files[-1], job, model, shard)
            if len(files) > 1:
                files[0].write(orjson.dumps(asdict(totals)))
        except PolysemeError as error:
            raise bulk_error(error, _range(shard)) from None
        except MemoryError:
            raise CommandError(
                f"{_range(shard)}: there is not enough memory; use fewer --workers or a smaller"
                " --batch-rows. Finished shards are kept."
            ) from None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    process = (platform.node(), os.getpid())
    return ShardResult(shard.number, totals, shard.bytes_read, process, peak)


def _range(shard: Shard) -> str:
    """Return the description of a shard's rows for messages."""
    first, last = shard.ranges[0], shard.ranges[-1]
    file = "" if last.name == first.name else f" of {last.name}"
    return f"Row {first.first} of {first.name} to row {last.first + len(last.rows) - 1}{file}"


def _totals_path(path: Path) -> Path:
    """Return the path of the totals of a `.jsonl` shard."""
    return path.with_name(f"_{path.stem}.json")


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


def _write_npz(file: IO[bytes], job: Job, model: Model, shard: Shard) -> Totals:
    """Write an archive like that of /v1/encode, also with `rows`.

    It has `files` if there are several input files, and `vectors` if there is a pooling.
    """
    options, ranges = job.options, shard.ranges
    texts: list[Text | None] = []
    sentences: list[Tokenized] = []
    for one in ranges:
        of_file = one.rows.column(0).to_pylist()
        present = ["" if text is None else text for text in of_file]
        rows = Rows(one.name, one.first, present)
        sentences += tokenize_rows(job, model, rows, options.encoding)
        texts += of_file
    numbers = [np.arange(one.first, one.first + len(one.rows)) for one in ranges]
    arrays = {"rows": np.concatenate([np.empty(0, np.int64), *numbers])}
    if job.several_files:
        names = [one.name for one in ranges for _ in range(len(one.rows))]
        arrays["files"] = np.array(names, np.str_)
    if options.pooling:
        pooled = pooled_options(options.pooling)
        vectors = np.empty((0, model.manifest.dimension), np.float32)
        for window in windows(model, sentences, pooled):
            encoded = encode_sentences(model, window, pooled)
            vectors = np.append(vectors, sentence_vectors(model, encoded, options.pooling), axis=0)
        arrays["vectors"] = cast(vectors, options.encoding.dtype)
    totals = count_rows(sentences, texts)
    with ZipFile(file, "w") as archive:
        _write_encoded(archive, model, sentences, options.encoding)
        for name, array in arrays.items():
            _write_member(archive, name, array)
        archive.comment = orjson.dumps(asdict(totals))
    return totals


def _write_encoded(
    archive: ZipFile, model: Model, sentences: Sequence[Tokenized], options: EncodeOptions
) -> None:
    """Write the members of `serialize.npz_archive` without keeping all arrays in memory.

    Sentences are encoded once for each requested array of PER_TOKEN and once for the others.
    """
    offsets = np.cumsum([0, *(len(one.words) for one in sentences)], dtype=np.int64)
    facts = [
        {"tokens": token_documents(one.tokens), "truncated": one.truncated} for one in sentences
    ]
    _write_member(archive, "offsets", offsets)
    _write_member(archive, "tokens", np.frombuffer(orjson.dumps(facts), np.uint8))
    for part, width in PER_TOKEN.items():
        if part in options.include:
            shape = (int(offsets[-1]), width * model.manifest.dimension)
            header = {"descr": np.dtype(options.dtype).str, "fortran_order": False, "shape": shape}
            alone = options.model_copy(update={"include": [part]})
            with archive.open(f"{part}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                for one in encode_each(model, sentences, alone):
                    member.write(np.ascontiguousarray(one.arrays[part]).data)
    rest = [part for part in options.include if part not in PER_TOKEN]
    others = options.model_copy(update={"include": rest})
    for number, one in enumerate(encode_each(model, sentences, others)):
        for part, array in one.arrays.items():
            _write_member(archive, f"{part}_{number}", array)


def _write_member(archive: ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
