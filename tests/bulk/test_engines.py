"""The programs of docs/bulk.md with a local Spark, Ray and Dask."""

import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.bulk import SENTENCES, run_inline, table_of
from tests.conftest import PYTHONPATH, ROOT, free_port
from tests.environments import output, python_of

PAGE = ROOT / "docs" / "bulk.md"
BLOCK = ROOT / "tests" / "environments" / "page_block.py"
COLUMNS = ["id", "error", "truncated", "vector"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder of two files, in which some rows have no text, no words, or too many."""
    folder = tmp_path_factory.mktemp("engines") / "sentences.parquet"
    folder.mkdir()
    texts = [None, "", "word " * 2000, "…", *SENTENCES]
    for i in range(2):
        table = pa.table({"id": range(i * len(texts), (i + 1) * len(texts)), "text": texts})
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


def run_section(python, heading, folder, page=PAGE, **environment):
    """Run the program of a section of the page in a folder with the source."""
    environment |= {"PYTHONPATH": PYTHONPATH, "PYTHONWARNINGS": "default"}
    output(python, BLOCK, page, heading, folder=folder, **environment)


@pytest.fixture
def folder(source, tmp_path):
    (tmp_path / source.name).symlink_to(source)
    return tmp_path


SPARK = {
    # A Java process, and a Python process for each of the two files.
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false"
    " --conf spark.sql.files.openCostInBytes=1g pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


@pytest.mark.clients
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17")
def test_spark_writes_the_bytes_of_the_command(folder, expected):
    run_section(python_of("spark"), "Spark", folder, **SPARK)
    assert len([*folder.glob("vectors.parquet/part-*")]) == 2
    assert rows_of(folder / "vectors.parquet") == expected


@pytest.mark.clients
def test_ray_writes_the_bytes_of_the_command(folder, expected):
    run_section(python_of("ray"), "Ray", folder, RAY_USAGE_STATS_ENABLED="0")
    assert rows_of(folder / "vectors.parquet") == expected


@pytest.mark.slow
def test_dask_writes_the_bytes_of_the_command(folder, expected, monkeypatch):
    port = str(free_port())
    address = f"tcp://127.0.0.1:{port}"
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    programs = (
        ["dask_scheduler", "--no-dashboard", "--port", port],
        ["dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"],
    )
    running = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.{name}", *options], cwd=folder)
        for name, *options in programs
    ]
    page = folder / "bulk.md"
    page.write_text(PAGE.read_text("utf-8").replace("tcp://127.0.0.1:8786", address), "utf-8")
    (folder / "vectors.parquet").mkdir()
    try:
        run_section(sys.executable, "Dask", folder, page)
    finally:
        for one in running:
            one.kill()  # no process has work to finish
        for one in running:
            one.wait(30)
    assert rows_of(folder / "vectors.parquet") == expected
