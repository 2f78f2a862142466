"""Bulk work: files in, shards out."""

from pathlib import Path

import pyarrow.parquet as pq

from polyseme import __version__
from polyseme.bulk.job import Job, Wishes, fingerprint
from polyseme.bulk.run import run
from polyseme.bulk.sources import sources
from polyseme.bulk.writing import write_shard
from polyseme.models.registry import bundled_models
from polyseme.settings import BUNDLED

SENTENCES = [
    "The river bank was high.",
    "",
    "She sat on the bank of the river, near the old mill.",
    "Money in the bank is money safe; Apple and apple differ.",
    "naïve café — 𝒳 is beyond the plane, zxqvbnt is no word",
]


def job_of(out, *, models=None, model=BUNDLED, **wishes):
    """A job for a model of a folder, the bundled one where none is given."""
    places = (bundled_models(), *([models] if models else []))
    folder = places[-1] / model
    return Job(Wishes(**wishes), Path(out), model, places, fingerprint(folder), verify=False)


def inline(job, missing, told):
    """Write shards in this process."""
    for shard in missing:
        told(write_shard(job, shard))


def run_inline(source, out, **wishes):
    """Carry out a job in this process."""
    return run(job_of(out, **wishes), sources(Path(source)), __version__, inline, lambda _: None)


def table_of(out):
    """All rows of a folder of Parquet, as any reader of such a folder sees them."""
    return pq.read_table(out)


def shards_of(out):
    """The bytes of all that is there but the lock, by name."""
    return {one.name: one.read_bytes() for one in Path(out).iterdir() if one.name != "_lock"}


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def many(count):
    """Sentences, each another one."""
    return [f"Row {n}: {SENTENCES[n % 5]} {n * 7919} ends here." for n in range(count)]
