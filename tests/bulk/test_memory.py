"""Files are read in bounded memory, also a row that is too long."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.bulk import bulk, table_of

MB = 1 << 20
READ = """
import re, sys
from pathlib import Path
from polyseme.bulk.read import find_files, read_schema, split_shards
from polyseme.errors import CommandError

def peak():  # not ru_maxrss, which includes the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024

before, rows, message = peak(), 0, ""
try:
    files = find_files(Path(sys.argv[1]))
    schema = read_schema(files, "text", sys.argv[2:])
    for shard in split_shards([files], "text", schema, 4096):
        rows += len(shard)
except CommandError as error:
    message = str(error)
print(peak() - before, rows, message)
"""
LIMIT = 270
"""Megabytes that reading may take."""
SHORT, LONG = 8_000, 128_000
"""Rows of a thousand bytes."""
ALLOWED_GROWTH = 64
"""For a file that is 120 MB larger. No growth is expected, but allocators and pages vary."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
    ),
]


def read(path, *keep):
    """Read a file in a process of its own; return the peak, the number of rows and the error."""
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", READ, path, *keep]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    peak, rows, message = done.stdout.rstrip("\n").split(" ", 2)
    assert int(peak) < LIMIT
    return int(peak), int(rows), message


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_long_file_takes_no_more_memory_than_a_short_one(tmp_path, kind):
    rng = random.Random(1)
    pool = " ".join(f"word{rng.randrange(10**6)}" for _ in range(20_000))
    peaks = []
    for rows in (SHORT, LONG):
        path = tmp_path / f"{rows}.{kind}"
        starts = (rng.randrange(len(pool) - 1000) for _ in range(rows))
        texts = [pool[start : start + 1000] for start in starts]
        table = pa.table({"text": texts, "id": range(rows)})
        if kind == "parquet":  # one row group, as pandas writes it
            pq.write_table(table, path, row_group_size=rows, compression="zstd")
        else:
            pyarrow.csv.write_csv(table, path)
        peak, count, message = read(path, "id")
        assert (count, message) == (rows, "")
        peaks.append(peak)
    assert peaks[1] - peaks[0] < ALLOWED_GROWTH


def test_row_of_parquet_over_the_limit_is_an_error_of_its_row(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["bank", "x" * (17 * MB), "river"], "k": [1, 2, 3]}), path)
    code, stdout, stderr = bulk(path, tmp_path / "out", "--workers", "1", "--keep", "k")
    assert (code, b"  1 with an error  " in stdout) == (0, True), stderr
    columns = table_of(tmp_path / "out").select(["k", "keys"]).to_pydict()
    assert columns == {"k": [1, None, 3], "keys": [["bank"], None, ["river"]]}


HEADS = {
    "txt": b"",
    "jsonl": b'{"text": "',
    "csv": b"text\n",
    "quoted.csv": b'text\n"',
    "tsv": b"text\n",
    "quoted.tsv": b'text\nbank\n"',
}


@pytest.mark.parametrize("kind", HEADS)
def test_line_without_an_end_is_not_kept(tmp_path, kind):
    path = tmp_path / f"a.{kind}.zst"
    compress, part = zstandard.ZstdCompressor().compress, b"x" * (20 * MB)
    # Compressed parts that follow each other are one file.
    path.write_bytes(compress(HEADS[kind] + part) + compress(part) * 14)
    _, _, message = read(path)
    assert re.search("has more than 16777216 bytes|at most 16777216 characters", message)


def test_long_text_is_not_copied_for_all_its_tokens_at_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("bank river " * 90_000)
    options = ("--rows", "tokens", "--keep", "text", "--truncate", "--workers", "1")
    code, _, stderr = bulk(path, tmp_path / "out", *options)
    assert code == 0, stderr
    file = pq.ParquetFile(tmp_path / "out" / "part-00000.parquet")
    assert file.metadata.num_rows == 1024
    assert file.metadata.num_row_groups > 10


ROWS = 1024
ONCE = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), pa.array(["bank " * (MB // 10)]))
"""A string of half a megabyte that all rows repeat and a file stores once."""
OFFSETS = pa.array(range(ROWS + 1), pa.int32())
LISTS = pa.ListArray.from_arrays(OFFSETS, ONCE)
REPEATED = {
    "list of lists": pa.ListArray.from_arrays(OFFSETS, LISTS),
    "struct": pa.StructArray.from_arrays([ONCE], ["a"]),
    "map": pa.MapArray.from_arrays(OFFSETS, ONCE, ONCE),
}


@pytest.mark.parametrize(
    "columns",
    [{"text": ONCE}, *({"text": ["bank"] * ROWS, "k": column} for column in REPEATED.values())],
    ids=["text", *REPEATED],
)
def test_strings_that_parquet_repeats_are_decoded_in_parts(tmp_path, columns):
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path, store_schema=False, **options)
    assert path.stat().st_size < 50_000
    _, rows, message = read(path, *(columns.keys() - {"text"}))
    assert (rows, message) == (ROWS, "")


def test_list_that_is_too_large_is_an_error(tmp_path):
    words = pa.DictionaryArray.from_arrays(np.zeros(50_000_000, np.int32), pa.array(["bank"]))
    column = pa.ListArray.from_arrays(pa.array([0, len(words)], pa.int32()), words)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": column}), path, compression="zstd", store_schema=False)
    _, rows, message = read(path)
    assert rows == 0
    assert "too large to read" in message
