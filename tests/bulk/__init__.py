"""Bulk jobs in this process, and the contents of their folders."""

import json
import time
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from polyseme.arrow import Encoder, open_model
from polyseme.bulk.read import find_files
from polyseme.bulk.run import run, with_schema
from polyseme.bulk.write import Job
from polyseme.settings import BUNDLED
from polyseme.terminal import ProgressBar
from tests.cli.conftest import run as run_command

SENTENCES = [
    "The river bank was high.",
    "",
    "She sat on the bank of the river, near the old mill.",
    "Money in the bank is money safe; Apple and apple differ.",
    "naïve café — 𝒳 is beyond the plane, unbankable is no word",
]
bulk = partial(run_command, "bulk")
"""`polyseme bulk` in this process."""


def job_of(source, out, **options):
    """The job and its files; as in the command, the default is contextual vectors of all tokens."""
    of_job = {n: options.pop(n) for n in ("format", "compression", "shard_rows") if n in options}
    options = {"include": "contextual", "pooling": None, **options}
    model, folder = options.pop("model", BUNDLED), options.pop("models_dir", None)
    sha256 = open_model(model, folder, None)[1]
    encoder = Encoder(model=model, models_dir=folder, sha256=sha256, **options)
    files = find_files(Path(source))
    job = Job(encoder, Path(out), has_files=not Path(source).is_file(), **of_job)
    return with_schema(job, files), files


def run_inline(source, out, **options):
    """Carry out a job in this process."""
    return run(*job_of(source, out, **options), ProgressBar(), workers=1)


def table_of(out):
    """All rows of a folder of Parquet files."""
    return pq.read_table(out)


def shards_of(out):
    """The bytes of all files but the lock, by name."""
    return {one.name: one.read_bytes() for one in Path(out).iterdir() if one.name != "_lock"}


def lines_of(out):
    """The rows of all shards of lines of JSON."""
    return [json.loads(line) for part in parts(out) for line in part.read_bytes().splitlines()]


def parts(out):
    """The paths of all shards."""
    return sorted(Path(out).glob("part-*"))


def workers_of(process):
    """The worker processes of a run."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in command_of(pid)]


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def until(condition, process=None):
    """Wait for a condition; fail if the process ends before."""
    for _ in range(20_000):
        if condition():
            return
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.003)
    raise AssertionError("the condition is still false")


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def many(count):
    """Different sentences."""
    return [f"Row {i}: {SENTENCES[i % 5]} {i * 7919} ends here." for i in range(count)]
