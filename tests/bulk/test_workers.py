"""Workers as processes: how far the input is read ahead, and what they leave behind."""

import multiprocessing
from dataclasses import replace

import pyarrow as pa
import pytest

from polyseme.bulk.refusal import BulkError
from polyseme.bulk.shards import kept_schema, shards
from polyseme.bulk.sources import sources
from polyseme.bulk.workers import write_in_processes
from tests.bulk import job_of, many, write_lines


def cut(source, rows):
    files = sources(source)
    return shards(files, "text", kept_schema(files[0], "text", ()), rows)


def prepared(tmp_path, **wishes):

    out = tmp_path / "out"
    out.mkdir()
    return replace(job_of(out, **wishes), kept=pa.schema([]))


def test_the_input_is_read_no_further_ahead_than_two_shards_for_each_worker(tmp_path):
    source = write_lines(tmp_path / "in.txt", many(120))
    read, written, ahead = [], [], []

    def watched():
        for shard in cut(source, 4):
            read.append(shard.number)
            ahead.append(len(read) - len(written))
            yield shard

    job = prepared(tmp_path)
    write_in_processes(job, watched(), 2, lambda one: written.append(one.number))
    assert sorted(written) == list(range(30))
    # A shard that is done while the next is fetched may be told a moment later.
    assert max(ahead) <= 2 * 2 + 1
    assert len({one.name for one in job.out.iterdir()}) == 30


def test_no_process_is_left_when_a_row_stops_the_work(tmp_path):
    source = write_lines(tmp_path / "in.txt", [*many(40), "word " * 2000, *many(40)])
    before = set(multiprocessing.active_children())
    with pytest.raises(BulkError, match=r"Row 40 of in\.txt"):
        write_in_processes(prepared(tmp_path), cut(source, 4), 2, lambda _: None)
    assert set(multiprocessing.active_children()) == before
