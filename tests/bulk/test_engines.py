"""The programs of docs/bulk.md with real clusters of Spark, Ray and Dask, which lose workers."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.bulk import many, run_inline, table_of, until
from tests.conftest import PYTHONPATH, ROOT, free_port
from tests.environments import python_of

PAGE = ROOT / "docs" / "bulk.md"
BLOCK = ROOT / "tests" / "environments" / "page_block.py"
FILES, ROWS = 6, 400
COLUMNS = ["id", "error", "truncated", "vector"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of files, in which some rows have no text, no words, or too many."""
    folder = tmp_path_factory.mktemp("engines") / "sentences.parquet"
    folder.mkdir()
    for i in range(FILES):
        texts = [None, "", "word " * 2000, "…", *(f"{text} {i}" for text in many(ROWS - 4))]
        table = pa.table({"id": range(i * ROWS, (i + 1) * ROWS), "text": texts})
        pq.write_table(table, folder / f"{i}.parquet")
    return folder


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory):
    """The rows that the command writes."""
    out = tmp_path_factory.mktemp("command") / "out"
    run_inline(source, out, keep=("id",), include=(), pooling="whitened")
    return rows_of(out)


def rows_of(out):
    """The rows in the order of their IDs, and the bytes of all vectors."""
    table = table_of(out).select(COLUMNS).sort_by("id").combine_chunks()
    vectors = table["vector"].combine_chunks().flatten().to_numpy()
    return table.to_pylist(), vectors.tobytes()


def start(python, heading, folder, **environment):
    """Start the program of a section of the page in a folder with the source."""
    return subprocess.Popen(
        [python, BLOCK, PAGE, heading],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "PYTHONWARNINGS": "default", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr[-3000:]


def descendants(pid):
    """The processes that a process has started, with their command lines."""
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread or a process has ended
            for child in map(int, thread.read_text().split()):
                yield child, Path(f"/proc/{child}/cmdline").read_bytes()
                yield from descendants(child)


@pytest.fixture
def folder(source, tmp_path):
    (tmp_path / source.name).symlink_to(source)
    return tmp_path


SPARK = {
    # Two executors, each a process with one processor.
    "PYSPARK_SUBMIT_ARGS": "--master local-cluster[2,1,1024] --conf spark.ui.enabled=false"
    " --conf spark.sql.files.maxPartitionBytes=10000 pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


@pytest.mark.clients
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17")
def test_spark_writes_the_bytes_of_the_command_and_loses_an_executor(folder, expected):
    python = python_of("spark")
    process = start(python, "Spark", folder, **SPARK)

    def executors():
        return [pid for pid, line in descendants(process.pid) if b"CoarseGrainedExecutor" in line]

    until(lambda: len(executors()) == 2 and any(folder.glob("vectors.parquet/_temporary/0/*")))
    os.kill(executors()[0], signal.SIGKILL)
    finish(process)
    assert rows_of(folder / "vectors.parquet") == expected


@pytest.mark.clients
def test_ray_writes_the_bytes_of_the_command(folder, expected):
    finish(start(python_of("ray"), "Ray", folder, RAY_USAGE_STATS_ENABLED="0"))
    assert rows_of(folder / "vectors.parquet") == expected


@pytest.mark.slow
def test_dask_writes_the_bytes_of_the_command_and_loses_a_worker(folder, expected, monkeypatch):
    address = f"tcp://127.0.0.1:{free_port()}"
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    work += ["--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
    port = address.rsplit(":", 1)[1]
    running = [subprocess.Popen(c, cwd=folder) for c in ([*run, "--port", port], work, work)]
    page = re.sub("tcp://127.0.0.1:8786", address, PAGE.read_text("utf-8"))
    copy = folder / "bulk.md"
    copy.write_text(page, "utf-8")
    (folder / "vectors.parquet").mkdir()
    try:
        process = subprocess.Popen([sys.executable, BLOCK, copy, "Dask"], cwd=folder)
        until(lambda: any(folder.glob("vectors.parquet/*")), process)
        running[1].kill()
        assert process.wait(120) == 0
    finally:
        for one in running:
            one.kill()  # no process has work to finish
        for one in running:
            one.wait(30)
    assert rows_of(folder / "vectors.parquet") == expected
