"""What a worker has of its own does not grow when its garbage is collected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMAPS = Path("/proc/self/smaps_rollup")
CODE = """
import gc, os
from pathlib import Path
from polyseme.api.app import create_app
from polyseme.http.upkeep import share

app = create_app()
share()
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))

def private_dirty():
    lines = Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

client = app.test_client()
client.post("/v1/encode", json={"input": "River bank flows"})
before = private_dirty()
gc.collect()
print(private_dirty() - before, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not SMAPS.exists(), reason="needs Linux's smaps_rollup")
def test_collecting_garbage_copies_nothing_that_workers_share():
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert int(done.stdout) < 1000, "kB that became the worker's own"
