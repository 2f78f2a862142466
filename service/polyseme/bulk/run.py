"""A bulk run from the files to the finished folder."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from polyseme.bulk.cluster import write_on_cluster
from polyseme.bulk.folder import claimed, finished, note, shard_path
from polyseme.bulk.job import Job
from polyseme.bulk.refusal import BulkError
from polyseme.bulk.shards import Shard, kept_schema, shards
from polyseme.bulk.sources import Source
from polyseme.bulk.table import OWN
from polyseme.bulk.workers import write_in_processes
from polyseme.bulk.writing import Totals, Written, totals_of

Write = Callable[[Job, Iterable[Shard], Callable[[Written], None]], None]
"""Writes shards, and tells of each."""


@dataclass
class Course:
    """How far a run is."""

    total: int
    """bytes of all input"""
    read: int = 0
    rows: int = 0
    tokens: int = 0
    found: int = 0
    """shards that an earlier run had written"""


@dataclass(frozen=True)
class Outcome:
    """What a run ended with."""

    totals: Totals
    """of all shards"""
    shards: int
    bytes: int
    course: Course
    """what this run did itself"""
    peak: int
    """bytes of memory of all workers at most, counting what they share once for each"""


def run(
    job: Job, files: list[Source], version: str, write: Write, tell: Callable[[Course], None]
) -> Outcome:
    """Write what is missing of a job's shards, and note that it is complete.

    Raises BulkError, after which the same run goes on where it stopped.
    """
    wishes = job.wishes
    _require_names(job, files)
    kept = kept_schema(files[0], wishes.column, wishes.keep)
    job = replace(job, kept=kept, named=len(files) > 1)
    document = _document(job, files, version)
    course = Course(sum(file.bytes for file in files))
    peaks: dict[int, int] = {}
    numbers: list[int] = []

    def told(one: Written) -> None:
        peaks[one.process] = max(one.peak, peaks.get(one.process, 0))
        course.rows += one.totals.rows
        course.tokens += one.totals.tokens
        course.read = max(course.read, one.read)
        tell(course)

    with claimed(job.out, document):
        cut = shards(files, wishes.column, kept, wishes.shard_rows)
        write(job, _missing(job, cut, numbers, course), told)
        totals, size = _sum(job, numbers)
        note(job.out, document, {"shards": len(numbers), **asdict(totals)})
    return Outcome(totals, len(numbers), size, course, sum(peaks.values()))


def _require_names(job: Job, files: list[Source]) -> None:
    """Refuse kept columns that would have the name of another one, and input that is output."""
    keep = job.wishes.keep
    wrong = [name for name in keep if name in OWN or keep.count(name) > 1]
    if wrong:
        raise BulkError(f"--keep {wrong[0]}: the output has a column of this name already.")
    out = job.out.resolve()
    if any(out in file.path.resolve().parents for file in files):
        raise BulkError("The input lies in the folder of the output: give another folder.")


def _document(job: Job, files: list[Source], version: str) -> dict[str, Any]:
    """What the bytes of the shards depend on."""
    return {
        "format": "polyseme-bulk",
        "format_version": 1,
        "polyseme": version,
        "model": {"name": job.model, "sha256": job.sha256},
        "options": job.wishes.document(),
        "input": [file.document() for file in files],
    }


def _missing(job: Job, cut: Iterable[Shard], numbers: list[int], course: Course) -> Iterator[Shard]:
    """Pass on the shards that are not there; note all of them."""
    there = finished(job.out)
    for shard in cut:
        numbers.append(shard.number)
        if shard_path(job.out, shard.number, job.wishes.format).name in there:
            course.found += 1
        else:
            yield shard


def _sum(job: Job, numbers: list[int]) -> tuple[Totals, int]:
    """What all shards say of themselves, and their bytes; raise BulkError where one is damaged."""
    paths = [shard_path(job.out, number, job.wishes.format) for number in numbers]
    if finished(job.out) != {path.name for path in paths}:
        raise BulkError("The folder has shards that are not of this job: give another folder.")
    total = sum((totals_of(path) for path in paths), Totals())
    return total, sum(path.stat().st_size for path in paths)


def in_processes(workers: int) -> Write:
    """Write with processes of this machine."""

    def write(job: Job, missing: Iterable[Shard], told: Callable[[Written], None]) -> None:
        write_in_processes(job, missing, workers, told)

    return write


def on_cluster(address: str) -> Write:
    """Write with the workers of a Dask cluster."""

    def write(job: Job, missing: Iterable[Shard], told: Callable[[Written], None]) -> None:
        write_on_cluster(job, missing, address, told)

    return write
