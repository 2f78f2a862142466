"""Measure the speed of `polyseme bulk`, compared with loops over the engine.

    python benchmarks/bulk.py ../shared/data/corpora/enwiki.txt.zst [--rows 1000000]

The command encodes the first million sentences of the English Wikipedia to sentence vectors, and a
fifth of them to contextual vectors, with `--workers 2`. Before and after each run of the command,
as many loops as it has workers encode the first fortieth of the million at the same time, each in a
process with the garbage collector tuned as theirs, which writes its raw values and flushes them to
disk after every 4,096 sentences. That is the command's default for a shard of contextual vectors.
Its shards of sentence vectors have 16,384, of which such a loop would flush one.

`cores_worth` is the rate of the command (sentences per second) divided by that of the loops;
`of_processor_time` is the same ratio in processor time, which depends less on other work on the
machine. Memory is the peak of the sum of the PSS of the command's processes,
measured twice a second. Results: results/bulk.json. The benchmark needs about 7 GB of disk.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, islice
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import click
import orjson
from processes import children, megabytes
from record import record

from polyseme_lab.files import read_lines

WORKERS = 2
BATCH = 1024
SHARD = 4096
"""The number of sentences after which a loop flushes its file."""
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"“(])")
CASES: dict[str, tuple[int, tuple[str, ...]]] = {
    "sentence vectors": (1, ("--include", "none", "--pooling", "informativeness")),
    "contextual vectors": (5, ("--include", "contextual")),
}
"""For each case, the divisor of the number of rows, and the options."""
ENVIRONMENT = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}}


def sentences(corpus: Path) -> Iterator[str]:
    """Yield the sentences of paragraphs, split after `.!?` before `A-Z`, `0-9`, a quote or `(`."""
    for paragraph in read_lines(corpus):
        yield from filter(None, map(str.strip, _END.split(paragraph)))


def loop(file: Path, pooled: bool) -> None:
    """Encode the lines of a file in this process; print the times and the counts."""
    from polyseme.bulk.run import tune_garbage_collector
    from polyseme.client.local import LocalModel
    from polyseme.operations.embed import pooled_options, sentence_vectors
    from polyseme.operations.encode import encode_each, tokenize, windows
    from polyseme.operations.limits import Limits

    model, options = LocalModel.of().model, pooled_options("informativeness")
    tune_garbage_collector()
    texts = file.read_text("utf-8").splitlines()
    tokens = 0
    began, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryFile(dir=file.parent) as out:
        for start in range(0, len(texts), BATCH):
            sentences = tokenize(model, texts[start : start + BATCH], options, Limits())
            tokens += sum(len(sentence.tokens) for sentence in sentences)
            encoded = encode_each(model, sentences, options)
            arrays = (sentence.arrays["contextual"] for sentence in encoded)
            if pooled:
                lists = windows(model, sentences, options)
                arrays = (sentence_vectors(model, part, "informativeness") for part in lists)
            for array in arrays:
                out.write(array)
            if start % SHARD == SHARD - BATCH:
                out.flush()
                os.fsync(out.fileno())
    times = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
    click.echo(orjson.dumps({**times, "rows": len(texts), "tokens": tokens}))


def looped(file: Path, pooled: bool) -> list[dict[str, float]]:
    """Run the loops; return the results of each process."""
    command = [sys.executable, __file__, str(file), "--loop", "pooled" if pooled else "single"]
    processes = [
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE)  # noqa: S603
        for _ in range(WORKERS)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("The loop failed.")
    return [orjson.loads(output) for output in outputs]


class MemoryMonitor(threading.Thread):
    """Measures the memory of a process and its descendants twice a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self.peak, self._stopped = pid, 0.0, threading.Event()

    def run(self) -> None:
        """Measure until `stop` is called."""
        while not self._stopped.wait(0.5):
            with suppress(OSError):  # a process has ended
                pss = sum(megabytes(pid, "Pss") for pid in family(self._pid))
                self.peak = max(self.peak, pss)

    def stop(self) -> None:
        """Stop measuring."""
        self._stopped.set()
        self.join()


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    for child in children(pid):
        yield from family(child)


def bulked(file: Path, out: Path, options: tuple[str, ...]) -> dict[str, float]:
    """Run the command; return seconds, processor time, peak memory and bytes written."""
    command = [sys.executable, "-m", "polyseme", "bulk", str(file), str(out), *options]
    before, began = _processor(), time.perf_counter()
    process = subprocess.Popen([*command, "--workers", str(WORKERS)], env=ENVIRONMENT)  # noqa: S603
    monitor = MemoryMonitor(process.pid)
    monitor.start()
    if process.wait():
        raise SystemExit("polyseme bulk failed.")
    seconds = time.perf_counter() - began
    monitor.stop()
    size = sum(shard.stat().st_size for shard in out.iterdir())
    shutil.rmtree(out)
    return {
        "seconds": seconds,
        "processor": _processor() - before,
        "peak": monitor.peak,
        "bytes": size,
    }


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_input(corpus: Path, folder: Path, rows: int) -> tuple[Path, Path, Path]:
    """Write three files: all sentences, the first fifth and the first fortieth.

    Sentences stay consecutive, because neighboring ones share words, which makes lookups faster.
    """
    files = [folder / name for name in ("whole.txt", "fifth.txt", "few.txt")]
    with ExitStack() as stack:
        opened = [stack.enter_context(file.open("w", encoding="utf-8")) for file in files]
        count = 0
        for count, sentence in enumerate(islice(sentences(corpus), rows), 1):
            for file, part in zip(opened, (1, 5, 40), strict=True):
                if count <= rows // part:
                    file.write(f"{sentence}\n")
    if count < rows:
        raise SystemExit(f"The corpus has {count:,} sentences; use a smaller --rows.")
    return files[0], files[1], files[2]


def case(
    whole: Path, fifth: Path, rows: int, options: tuple[str, ...], few: Path
) -> dict[str, Any]:
    """Measure a case: the loops, the command, and the loops again."""
    pooled = "--pooling" in options
    loops = [looped(few, pooled)]
    bulk = bulked(whole if pooled else fifth, whole.with_name("out"), options)
    loops.append(looped(few, pooled))
    first = loops[0][0]
    return {
        "rows": rows,
        "tokens_a_sentence": round(first["tokens"] / first["rows"], 1),
        "bulk_sentences_a_second": round(rows / bulk["seconds"]),
        "loops": compared(bulk, rows, loops),
        "peak_pss_mb": round(bulk["peak"]),
        "output_mb": round(bulk["bytes"] / 1e6),
        "seconds": round(bulk["seconds"], 1),
        "load_of_the_machine": round(os.getloadavg()[0], 1),
    }


def compared(
    bulk: dict[str, float], rows: int, loops: list[list[dict[str, float]]]
) -> dict[str, Any]:
    """Compare the command with the loops before and after it."""
    rates = [sum(run["rows"] / run["seconds"] for run in at_once) for at_once in loops]
    # The harmonic mean: all sentences divided by the time of both runs.
    rate = harmonic_mean(rates)
    runs = list(chain.from_iterable(loops))
    by_time = sum(run["rows"] for run in runs) / sum(run["processor"] for run in runs)
    return {
        "sentences_a_second": list(map(round, rates)),
        "cores_worth": round(rows / bulk["seconds"] / rate, 3),
        "of_processor_time": round(rows / bulk["processor"] / by_time, 3),
    }


@click.command()
@click.argument("corpus", type=click.Path(path_type=Path, exists=True))
@click.option("--rows", default=1_000_000)
@click.option("--loop", "how", type=click.Choice(["pooled", "single"]), hidden=True)
def main(corpus: Path, rows: int, how: str | None) -> None:
    """Run the benchmark."""
    if how:
        loop(corpus, how == "pooled")
        return
    cases = {}
    with tempfile.TemporaryDirectory() as made:
        whole, fifth, few = write_input(corpus, Path(made), rows)
        for name, (fewer, options) in CASES.items():
            cases[name] = case(whole, fifth, rows // fewer, options, few)
            click.echo(f"{name}: {cases[name]}")
    record("bulk", ["numpy", "orjson", "pyarrow"], {"workers": WORKERS, "cases": cases})


if __name__ == "__main__":
    main()
