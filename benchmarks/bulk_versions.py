"""Compare the processor time of bulk jobs with that of another version, on real text.

    python benchmarks/bulk_versions.py ../shared/data/corpora/simplewiki.txt.zst --before OTHER

OTHER is the folder `service` of another checkout, such as that of `git worktree add OTHER COMMIT`.
Each run is a process that writes the shards of the first paragraphs of the corpus, as a worker
does; the versions take turns. The time is the processor time of the shards alone, without imports
and loading the model: medians, in microseconds a token. Memory is the peak of the process, which
includes mapped files. `equal` tells whether both versions write the same values. Results:
results/bulk_versions.json.
"""

import hashlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
import orjson
import zstandard
from record import medians, record

CASES: dict[str, dict[str, Any]] = {
    "contextual": {"include": ["contextual"]},
    "features": {"include": ["features"]},
    "rows of tokens": {"include": ["contextual"], "rows": "tokens"},
    "mean attention": {"include": ["attention"], "heads": "mean"},
    "whitened": {"include": [], "pooling": "whitened"},
    "informativeness": {"include": [], "pooling": "informativeness"},
    "contextual, npz": {"include": ["contextual"], "format": "npz"},
    "contextual, jsonl": {"include": ["contextual"], "format": "jsonl"},
}
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}


def write(source: Path, out: Path, case: str) -> dict[str, Any]:
    """Write the shards of a job in this process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from polyseme.bulk.job import BulkOptions, Job, fingerprint
    from polyseme.bulk.run import tune_garbage_collector
    from polyseme.bulk.shards import write_shard
    from polyseme.bulk.sources import find_files, kept_schema, split_shards
    from polyseme.models.reader import bundled_models
    from polyseme.operations.options import EncodeOptions
    from polyseme.settings import BUNDLED

    fields = {name: value for name, value in CASES[case].items() if name in ("include", "heads")}
    others = {name: value for name, value in CASES[case].items() if name not in fields}
    options = BulkOptions(EncodeOptions(**fields), max_sentence_tokens=1 << 20, **others)
    folders = (bundled_models(),)
    job = Job(options, out, BUNDLED, folders, fingerprint(folders[0] / BUNDLED))
    files = find_files(source)
    kept = kept_schema(files, "text", ())
    job = replace(job, kept=kept)
    job.load_model()
    tune_garbage_collector()
    shards = list(split_shards(files, "text", kept, options.shard_rows))
    before = time.process_time()
    tokens = sum(write_shard(job, shard).totals.tokens for shard in shards)
    took = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    digest = hashlib.sha256()
    for file in sorted(out.iterdir()):
        if file.suffix == ".parquet":  # versions may choose other row groups
            table = pq.read_table(file).combine_chunks()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            digest.update(sink.getvalue())
        else:
            digest.update(file.read_bytes())
    size = sum(file.stat().st_size for file in out.iterdir())
    found = {"time": took / tokens * 1e6, "peak": peak, "bytes": size, "tokens": tokens}
    return {**found, "digest": digest.hexdigest()}


@click.command()
@click.argument("corpus", type=click.Path(exists=True, path_type=Path))
@click.option("--before", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--rows", default=8192)
@click.option("--rounds", default=5)
@click.option("--case", "cases", type=click.Choice(list(CASES)), multiple=True)
@click.option("--out", type=click.Path(path_type=Path), hidden=True)
def main(
    corpus: Path, before: Path, rows: int, rounds: int, cases: tuple[str, ...], out: Path | None
) -> None:
    """Run the benchmark."""
    if out:
        click.echo(orjson.dumps(write(corpus, out, cases[0])))
        return
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.txt"
        with corpus.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            lines = islice(io.TextIOWrapper(stream, "utf-8"), rows)
            source.write_text("".join(lines), "utf-8")
        for case in cases or CASES:
            runs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
            for _ in range(rounds):
                for version, path in (("before", str(before)), ("now", None)):
                    environment = {**os.environ, **THREADS}
                    if path:
                        environment["PYTHONPATH"] = path
                    with tempfile.TemporaryDirectory(dir=folder) as shards:
                        command = [sys.executable, __file__, str(source), "--before", str(before)]
                        command += ["--case", case, "--out", shards]
                        done = subprocess.run(  # noqa: S603
                            command, env=environment, stdout=subprocess.PIPE, check=True
                        )
                    runs[version].append(orjson.loads(done.stdout))
            times = {name: [run["time"] for run in some] for name, some in runs.items()}
            found = medians(times)
            first = {name: some[0] for name, some in runs.items()}
            results[case] = {
                "microseconds_a_token": found,
                "ratio": round(found["now"] / found["before"], 3),
                "peak_mb": {name: round(one["peak"] / 1e6) for name, one in first.items()},
                "output_mb": round(first["now"]["bytes"] / 1e6),
                "equal": first["now"]["digest"] == first["before"]["digest"],
            }
            click.echo(f"{case}: {results[case]}")
    record("bulk_versions", ["numpy", "pyarrow"], {"rows": rows, "cases": results})


if __name__ == "__main__":
    main()
