"""A Dask cluster of real processes, one of which is killed during the work."""

import os
import re
import signal
import subprocess
import sys

import pytest

from polyseme.bulk.run import write_on_cluster
from polyseme.errors import CommandError
from tests.bulk import (
    job_of,
    many,
    parts,
    run_inline,
    shards_of,
    start_bulk,
    table_of,
    until,
    write_lines,
)
from tests.conftest import PYTHONPATH, free_port

ROWS, SHARD = 1_200, 40


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of a scheduler, and its two worker processes."""
    folder = tmp_path_factory.mktemp("cluster")
    address = f"tcp://127.0.0.1:{free_port()}"
    running = []

    def start(name, *command):
        with (folder / name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + command[0], *command[1:]],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": PYTHONPATH},
                stdout=log,
                stderr=log,
            )
        running.append(process)
        return process

    start("scheduler", "scheduler", "--port", address.rsplit(":", 1)[1], "--no-dashboard")
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
    workers = [start(f"worker-{n}", "worker", address, *options) for n in range(2)]
    yield address, workers
    for process in running:
        process.kill()  # no process has work to finish
    for process in running:
        process.wait(30)


def options(address):
    """Options of a job on the cluster."""
    return ("--scheduler", address, "--shard-rows", str(SHARD), "--pooling", "mean")


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_writes_every_row_once_and_the_same_bytes(cluster, tmp_path):
    address, workers = cluster
    source = write_lines(tmp_path / "in.txt", many(ROWS))
    out = tmp_path / "out"
    process = start_bulk(source, out, *options(address))
    until(lambda: len(parts(out)) > 5, process)
    workers[0].kill()
    written = len(parts(out))
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert workers[0].wait(30) == -signal.SIGKILL
    assert 5 < written < ROWS // SHARD
    assert stdout.startswith(f"{ROWS:,} rows")
    assert table_of(out).column("row").to_pylist() == list(range(ROWS))
    run_inline(source, tmp_path / "alone", shard_rows=SHARD, pooling="mean")
    assert shards_of(out) == shards_of(tmp_path / "alone")


@pytest.mark.slow
def test_a_row_that_stops_the_work_is_named_as_without_a_cluster(cluster, tmp_path):
    address, _ = cluster
    source = write_lines(tmp_path / "in.txt", ["fine", "word " * 2000])
    process = start_bulk(source, tmp_path / "out", *options(address), "--on-error", "fail")
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    last = stderr.strip().splitlines()[-1]
    assert re.match(r"polyseme: Row 1 of in\.txt: A sentence has too many tokens: 2000", last)
    assert "Traceback" not in stderr


def test_an_unreachable_scheduler_is_reported_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.bulk.run._CLUSTER_TIMEOUT", 1)
    with pytest.raises(CommandError, match="The Dask scheduler does not respond"):
        write_on_cluster(job_of(tmp_path), [], print, address=f"tcp://127.0.0.1:{free_port()}")
