"""Memory while files are read: that of a few shards, however long the file is."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)

SHORT, LONG = 8_000, 128_000
"""Rows of a thousand bytes."""
ROOM = 64 << 20
"""What 120 MB more of a file may take: nothing of it, but allocators and pages vary."""

READ = """
import re, sys
from pathlib import Path
from polyseme.bulk import reading
from polyseme.bulk.shards import kept_schema, shards
from polyseme.bulk.sources import sources
reading._BLOCK = 1 << 18  # of which Arrow reads 32 ahead
files = sources(Path(sys.argv[1]))
kept = kept_schema(files[0], "text", ("id",) if len(sys.argv) > 2 else ())
rows = sum(len(shard) for shard in shards(files, "text", kept, 4096))
# ru_maxrss would count the process that began this one.
(peak,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(rows, int(peak) * 1024)
"""


def write(path, rows):
    """A file of that many texts, which are all different."""
    words = random.Random(1)
    pool = " ".join(f"word{words.randrange(10**6)}" for _ in range(20_000))
    texts = [pool[(at := words.randrange(len(pool) - 1000)) : at + 1000] for _ in range(rows)]
    match path.suffix:
        case ".parquet":
            # As pandas writes it: all rows in one group.
            table = pa.table({"text": texts, "id": range(rows)})
            pq.write_table(table, path, row_group_size=rows, compression="zstd")
        case ".csv":
            pyarrow.csv.write_csv(pa.table({"text": texts, "id": range(rows)}), path)
        case ".jsonl":
            lines = (f"{json.dumps({'text': text, 'id': n})}\n" for n, text in enumerate(texts))
            path.write_text("".join(lines))
        case ".txt":
            path.write_text("\n".join(texts))


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "txt"])
def test_a_long_file_takes_no_more_memory_than_a_short_one(tmp_path, kind):
    peaks = []
    for rows in (SHORT, LONG):
        path = tmp_path / f"{rows}.{kind}"
        write(path, rows)
        keep = ["keep"] if kind != "txt" else []
        command = [sys.executable, "-c", READ, str(path), *keep]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found, peak = map(int, done.stdout.split())
        assert found == rows
        peaks.append(peak)
    assert peaks[1] - peaks[0] < ROOM
