"""How near `polyseme bulk` comes to a plain loop over the engine on every processor.

    python benchmarks/bulk.py ../shared/data/corpora/enwiki.txt.zst [--rows 1000000]

The first million sentences of the English Wikipedia to sentence vectors, and a fifth of them to
contextual vectors: sentences a second with `--workers 2`, beside loops over the first fortieth of
the same sentences, before and after:

- plain: in one process, which writes and keeps nothing;
- settled: one whose garbage collector runs as rarely as in the workers;
- at once: as many of the latter as the command has workers, at the same time;
- writing: the same, and each writes its numbers bare, and brings them to the disk as often as the
  command ends a shard.

`cores_worth` is the command's rate over that of as many loops; `of_processor_time` the same from
the processors' time alone, which other work on the machine changes less. Memory is the sum of PSS
of all processes, twice a second. Results: results/bulk.json. It needs zstandard and about 9 GB of
disk.
"""

import io
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
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click
import orjson
import zstandard
from record import RESULTS, record

WORKERS = 2
BATCH = 1024
SHARD = 4096


class Loop(NamedTuple):
    """How a loop is run."""

    settled: bool = True
    """whether Python's garbage collector comes seldom"""
    at_once: int = WORKERS
    """how many do the same at the same time"""
    writes: bool = False


LOOPS = {
    "plain": Loop(settled=False, at_once=1),
    "settled": Loop(at_once=1),
    "at once": Loop(),
    "writing": Loop(writes=True),
}
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"“(])")
CASES: dict[str, tuple[int, tuple[str, ...]]] = {
    "sentence vectors": (1, ("--include", "none", "--pooling", "informativeness")),
    "contextual vectors": (5, ("--include", "contextual")),
}
"""By how much fewer rows each case has, and its options."""
ENVIRONMENT = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}}


def sentences(corpus: Path) -> Iterator[str]:
    """The sentences of paragraphs, split where a capital follows a full stop."""
    with corpus.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        for paragraph in io.TextIOWrapper(stream, "utf-8"):
            yield from filter(None, map(str.strip, _END.split(paragraph)))


def loop(file: Path, pooled: bool, settled: bool, writes: bool) -> None:
    """Encode the lines of a file in one process and keep nothing; print the seconds it took."""
    from polyseme.bulk.run import tune_garbage_collector  # noqa: PLC0415 - only in its own process
    from polyseme.client.local import LocalModel  # noqa: PLC0415
    from polyseme.encoding.encode import Timings, encode_sentence, tokenize  # noqa: PLC0415
    from polyseme.encoding.options import Limits  # noqa: PLC0415
    from polyseme.encoding.sentences import POOLED, sentence_vector  # noqa: PLC0415

    model = LocalModel.of().model
    if settled:
        tune_garbage_collector()
    texts = file.read_text("utf-8").splitlines()
    tokens, timings = 0, Timings()
    began, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryFile(dir=file.parent) as out:
        for start in range(0, len(texts), BATCH):
            for one in tokenize(model, texts[start : start + BATCH], POOLED, Limits()):
                encoded = encode_sentence(model, one, POOLED, timings)
                vectors = sentence_vector(model, encoded) if pooled else None
                if writes:
                    out.write(encoded.arrays["contextual"] if vectors is None else vectors)
                tokens += len(one.tokens)
            if writes and start % SHARD == SHARD - BATCH:
                out.flush()
                os.fsync(out.fileno())
    found = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
    click.echo(orjson.dumps({**found, "rows": len(texts), "tokens": tokens}))


def looped(file: Path, pooled: bool, how: Loop) -> list[dict[str, float]]:
    """The loop in processes of its own."""
    command = [sys.executable, __file__, str(file), "--loop", "pooled" if pooled else "single"]
    command += ["--settled"] if how.settled else []
    command += ["--writes"] if how.writes else []
    processes = [
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE)  # noqa: S603
        for _ in range(how.at_once)
    ]
    answers = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("The loop failed.")
    return [orjson.loads(answer) for answer in answers]


class Watched(threading.Thread):
    """Takes the memory of a process and those below it, twice a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self.peak, self._over = pid, 0, threading.Event()

    def run(self) -> None:
        """Watch until it is over."""
        while not self._over.wait(0.5):
            self.peak = max(self.peak, sum(map(pss, family(self._pid))))

    def stop(self) -> None:
        """End watching."""
        self._over.set()
        self.join()


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def pss(pid: int) -> int:
    """The bytes of a process, with its part of what it shares; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def bulked(file: Path, out: Path, options: tuple[str, ...]) -> dict[str, float]:
    """The command over a file: its seconds, the processors', its memory, what it wrote."""
    command = [sys.executable, "-m", "polyseme", "bulk", str(file), str(out), *options]
    before, began = _processor(), time.perf_counter()
    process = subprocess.Popen([*command, "--workers", str(WORKERS)], env=ENVIRONMENT)  # noqa: S603
    watched = Watched(process.pid)
    watched.start()
    if process.wait():
        raise SystemExit("polyseme bulk failed.")
    seconds = time.perf_counter() - began
    watched.stop()
    size = sum(one.stat().st_size for one in out.iterdir())
    shutil.rmtree(out)
    return {
        "seconds": seconds,
        "processor": _processor() - before,
        "peak": watched.peak,
        "bytes": size,
    }


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_input(corpus: Path, folder: Path, rows: int) -> tuple[Path, Path, Path]:
    """The sentences as a file, and the first fifth and fortieth of them as others.

    What stands together has words in common, which are found faster: no file leaves any out.
    """
    files = [folder / name for name in ("whole.txt", "fifth.txt", "few.txt")]
    with ExitStack() as stack:
        opened = [stack.enter_context(one.open("w", encoding="utf-8")) for one in files]
        for number, (sentence, _) in enumerate(zip(sentences(corpus), range(rows), strict=False)):
            for file, part in zip(opened, (1, 5, 40), strict=True):
                if number < rows // part:
                    file.write(f"{sentence}\n")
    return files[0], files[1], files[2]


def case(
    whole: Path, fifth: Path, rows: int, options: tuple[str, ...], looped_rows: Path
) -> dict[str, Any]:
    """A case: the loops, the command, and the loops again."""
    pooled = "--pooling" in options
    loops = {name: [looped(looped_rows, pooled, how)] for name, how in LOOPS.items()}
    bulk = bulked(whole if pooled else fifth, whole.with_name("out"), options)
    for name, how in LOOPS.items():
        loops[name].append(looped(looped_rows, pooled, how))
    first = loops["plain"][0][0]
    return {
        "rows": rows,
        "tokens_a_sentence": round(first["tokens"] / first["rows"], 1),
        "bulk_sentences_a_second": round(rows / bulk["seconds"]),
        "loops": {name: beside(bulk, rows, some) for name, some in loops.items()},
        "peak_pss_mb": round(bulk["peak"] / 1e6),
        "output_mb": round(bulk["bytes"] / 1e6),
        "seconds": round(bulk["seconds"], 1),
        "load_of_the_machine": round(os.getloadavg()[0], 1),
    }


def beside(
    bulk: dict[str, float], rows: int, loops: list[list[dict[str, float]]]
) -> dict[str, Any]:
    """What the command does beside loops: those before it, and those after it."""
    rates = [sum(one["rows"] / one["seconds"] for one in some) for some in loops]
    # The harmonic mean: what they did in the time of both.
    rate = len(rates) / sum(1 / one for one in rates) * WORKERS / len(loops[0])
    every = [one for some in loops for one in some]
    by_time = sum(one["rows"] for one in every) / sum(one["processor"] for one in every)
    return {
        "sentences_a_second": [round(one) for one in rates],
        "cores_worth": round(rows / bulk["seconds"] / rate, 3),
        "of_processor_time": round(rows / bulk["processor"] / by_time, 3),
    }


@click.command()
@click.argument("corpus", type=click.Path(path_type=Path, exists=True))
@click.option("--rows", default=1_000_000)
@click.option("--loop", "how", type=click.EncodeOptions(["pooled", "single"]), hidden=True)
@click.option("--settled", is_flag=True, hidden=True)
@click.option("--writes", is_flag=True, hidden=True)
def main(corpus: Path, rows: int, how: str | None, settled: bool, writes: bool) -> None:
    """Measure."""
    if how:
        loop(corpus, how == "pooled", settled, writes)
        return
    found = {}
    with tempfile.TemporaryDirectory() as made:
        whole, fifth, few = write_input(corpus, Path(made), rows)
        for name, (fewer, options) in CASES.items():
            found[name] = case(whole, fifth, rows // fewer, options, few)
            click.echo(f"{name}: {found[name]}")
    engine = orjson.loads(RESULTS.joinpath("engine.json").read_bytes())
    speed = engine["sentences"]["1000"]["words_per_second"]["MiniLM"]  # measured on this machine
    about = {"workers": WORKERS, "transformer_words_per_second": speed}
    record("bulk", ["numpy", "orjson", "pyarrow"], {**about, "cases": found})


if __name__ == "__main__":
    main()
