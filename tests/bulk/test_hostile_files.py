"""Small files that would take gigabytes are read in bounded memory."""

import bz2
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.bulk import bulk, table_of

MB = 1 << 20
READ = """
import re, sys
from pathlib import Path
from polyseme.bulk.files import find_files
from polyseme.bulk.sources import kept_schema, split_shards
from polyseme.errors import CommandError

def peak():  # not ru_maxrss, which includes the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024

before, rows, message = peak(), 0, ""
try:
    files = find_files(Path(sys.argv[1]))
    kept = kept_schema(files, "text", sys.argv[2:])
    for shard in split_shards([files], "text", kept, 4096):
        rows += len(shard)
except CommandError as error:
    message = error.sentence
print(peak() - before, rows, message)
"""
LIMIT = 270
"""Megabytes that reading may take."""


def read(path, *keep):
    """Read a file in a process of its own; return the number of rows and the error."""
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", READ, path, *keep]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    peak, rows, message = done.stdout.rstrip("\n").split(" ", 2)
    assert int(peak) < LIMIT
    return int(rows), message


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
    ),
]
ROWS = 1024


def repeated(value, count=ROWS):
    """A value that is stored once and repeated."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([value]))


def lists(ends, values):
    return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), values)


def write(path, text, **columns):
    """Write a Parquet file whose types do not say how values are stored."""
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}
    pq.write_table(pa.table({"text": text, **columns}), path, store_schema=False, **options)
    assert path.stat().st_size < 50_000
    return path


LONG = repeated("bank " * (MB // 5))
ONE_EACH = range(1, ROWS + 1)
REPEATED = {
    "string": LONG,
    "binary": repeated(b"x" * MB),
    "fixed-size binary": pa.array([b"x" * 100_000] * ROWS, pa.binary(100_000)),
    "struct": pa.StructArray.from_arrays([LONG], ["a"]),
    "list": lists(ONE_EACH, LONG),
    "list of lists": lists(ONE_EACH, lists(ONE_EACH, LONG)),
    "map": pa.MapArray.from_arrays(pa.array([0, *ONE_EACH], pa.int32()), LONG, LONG),
}
"""Columns of a gigabyte."""


@pytest.mark.parametrize("column", REPEATED.values(), ids=REPEATED)
def test_long_values_that_parquet_repeats_are_decoded_in_parts(tmp_path, column):
    path = write(tmp_path / "a.parquet", repeated("bank"), k=column)
    assert read(path, "k") == (ROWS, "")


@pytest.mark.parametrize("column", [LONG, lists(ONE_EACH, LONG)], ids=["texts", "lists"])
def test_long_texts_that_parquet_repeats_are_decoded_in_parts(tmp_path, column):
    assert read(write(tmp_path / "a.parquet", column)) == (ROWS, "")


def test_many_short_lists_of_words_are_read_in_parts(tmp_path):
    words = repeated("bank", 40_000 * ROWS)
    path = write(tmp_path / "a.parquet", lists(range(40_000, 40_000 * ROWS + 1, 40_000), words))
    assert read(path) == (ROWS, "")


TOO_LARGE = "a.parquet has a page or a row that is too large to read: write it again with smaller"


@pytest.mark.parametrize("keep", [False, True])
def test_a_page_or_a_list_that_is_too_large_is_an_error(tmp_path, keep):
    many = lists([1, 30_000_000], repeated("bank", 30_000_000))
    for column in (many, pa.array(["a", "x" * (300 * MB)])):
        columns = {"text": ["a", "b"], "k": column} if keep else {"text": column}
        path = write(tmp_path / "a.parquet", **columns)
        rows, message = read(path, *(["k"] * keep))
        assert (rows, message.startswith(TOO_LARGE)) == (0, True)


def test_a_row_of_parquet_over_the_limit_is_an_error_of_its_row(tmp_path):
    path = write(tmp_path / "a.parquet", pa.array(["bank", "x" * (17 * MB), "river"]), k=[1, 2, 3])
    code, stdout, stderr = bulk(path, tmp_path / "out", "--workers", "1", "--keep", "k")
    assert (code, b"  1 with an error  " in stdout) == (0, True), stderr
    rows = table_of(tmp_path / "out").select(["k", "keys"]).to_pylist()
    assert rows == [
        {"k": 1, "keys": ["bank"]},
        {"k": None, "keys": None},
        {"k": 3, "keys": ["river"]},
    ]


SEPARATORS = {"csv": ",", "tsv": "\t"}


@pytest.mark.parametrize("kind", SEPARATORS)
def test_only_the_requested_columns_of_a_wide_table_are_read(tmp_path, kind):
    width, separator, path = 300_000, SEPARATORS[kind], tmp_path / f"a.{kind}"
    header = separator.join(("text", "id", *map(str, range(width))))
    path.write_text(f"{header}\nbank{separator}7{separator * width}\n")
    assert read(path, "id") == (1, "")


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
HEADS = {
    "txt": b"",
    "jsonl": b'{"text": "',
    "csv": b"text\n",
    "quoted.csv": b'text\n"',
    "tsv": b"text\n",
    "quoted.tsv": b'text\nbank\n"',
}


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("kind", HEADS)
def test_a_line_without_an_end_is_not_kept(tmp_path, kind, compression):
    path = tmp_path / f"a.{kind}.{compression}"
    path.write_bytes(COMPRESS[compression](HEADS[kind] + b"x" * (300 * MB)))
    _, message = read(path)
    assert "has more than 16777216 bytes" in message


def text_beside(values):
    """A line of JSON that has a text and other values, and is 16 MB long."""
    line = f'{{"text": "bank", "k": [{values}, "'
    return f'{line}{"x" * (16 * MB - len(line) - 10)}"]}}'


LINES = {
    "lists": lambda: text_beside(",".join(["[]"] * 5 * MB)),
    "objects": lambda: text_beside(",".join(['{"":1}'] * 2 * MB)),
    "numbers at the limit": lambda: text_beside(",".join(["1.25"] * 499_000)),
    "objects at the limit": lambda: text_beside(",".join(['{"":1}'] * 249_000)),
    "words at the limit": lambda: json.dumps({"text": ["word"] * 499_000}),
    "names at the limit": lambda: json.dumps({"text": "bank", **dict.fromkeys(range(499_000))}),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_of_json_with_many_values_is_read_or_an_error(tmp_path, line):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n' + line().encode(), 1))
    assert read(path, "k") == (2, "")


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@pytest.mark.parametrize("start", ["", "a,text\n"], ids=["header", "row"])
def test_a_line_of_a_table_with_millions_of_cells_is_an_error(tmp_path, kind, start):
    content = start + "ab," * 5 * MB
    path = tmp_path / f"a.{kind}.gz"
    path.write_bytes(gzip.compress(content.replace(",", SEPARATORS[kind]).encode(), 1))
    assert "has more than 16777216 bytes or 500000 columns" in read(path)[1]


def test_a_mark_that_opens_a_cell_reads_a_bounded_number_of_lines_ahead(tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b'a\ttext\n1\t"a\n' + b"\n" * 10 * MB))
    assert read(path) == (1, "")


def test_a_long_text_is_not_copied_for_all_its_tokens_at_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("bank river " * 90_000)
    options = ("--rows", "tokens", "--keep", "text", "--truncate", "--workers", "1")
    code, _, stderr = bulk(path, tmp_path / "out", *options)
    assert code == 0, stderr
    file = pq.ParquetFile(tmp_path / "out" / "part-00000.parquet")
    assert file.metadata.num_rows == 1024
    assert file.metadata.num_row_groups > 10
