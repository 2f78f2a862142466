"""Measure time and memory by the length of a sentence, with attention weights and without.

    python benchmarks/growth.py [--longest 16384] [--rounds 3]

A sentence is encoded from text to vectors on one core, each length in a separate process. Memory is
the growth of the process at its peak (`VmHWM`) and the peak size of the arrays (tracemalloc). The
exponents are fitted to lengths of 1,024 and more. The longest sentence needs 6 GB of memory.
Results: results/growth.json.
"""

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import orjson
from record import record
from sentences import bundled, sentences
from threadpoolctl import threadpool_limits

from polyseme.engine.layers import contextualize

MIN_TOKENS, MAX_TOKENS = 16, 16_384
FITTED_FROM = 1024
ARRAYS = {"with attention": ("weights",), "without": ()}
MEASURES = ("seconds", "peak_mb", "arrays_mb")
SMALL, REPEATS = 512, 5
"""Sentences of up to SMALL tokens are timed REPEATS times in each process."""


def encoding(tokens: int, names: Sequence[str]) -> Callable[[], object]:
    """Return a function that encodes a sentence, after warming up with a short one."""
    model = bundled()
    short, long = (" ".join(one) for one in sentences([MIN_TOKENS, tokens]))

    def encode(text: str) -> object:
        return contextualize(
            model.sentence(model.tokenizer.tokens(text)[:tokens]), model.layers, names
        )

    encode(short)
    return lambda: encode(long)


def memory(name: str) -> float:
    """Return an entry of /proc/self/status in MB, such as VmRSS."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(kilobytes) * 1.024e-3


def one(tokens: int, arrays: str) -> dict[str, float]:
    """Measure one length, in this process."""
    with threadpool_limits(1):
        encode = encoding(tokens, ARRAYS[arrays])
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # resets VmHWM
        before, times = memory("VmRSS"), []
        for number in range(REPEATS if tokens <= SMALL else 1):
            began = time.perf_counter()
            encode()
            times.append(time.perf_counter() - began)
            if not number:
                peak = memory("VmHWM") - before
        tracemalloc.start()
        encode()
        size = tracemalloc.get_traced_memory()[1] / 1e6
    return {"seconds": median(times), "peak_mb": peak, "arrays_mb": size}


def in_process(tokens: int, arrays: str) -> dict[str, float]:
    """Measure one length in a separate process."""
    command = [sys.executable, __file__, "--one", str(tokens), arrays]
    done = subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own
    found: dict[str, float] = orjson.loads(done.stdout)
    return found


def exponents(lengths: Sequence[int], found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the exponent of each measure, by least squares on logarithms."""
    long = [length for length in lengths if length >= FITTED_FROM]
    return {
        measure: round(
            float(np.polyfit(np.log(long), np.log([found[str(n)][measure] for n in long]), 1)[0]), 3
        )
        for measure in MEASURES
    }


@click.command()
@click.option("--longest", default=MAX_TOKENS)
@click.option("--rounds", default=3)
@click.option("--one", "single", type=(int, str), hidden=True)
def main(longest: int, rounds: int, single: tuple[int, str] | None) -> None:
    """Run the benchmark."""
    if single:
        click.echo(orjson.dumps(one(*single)))
        return
    lengths = [MIN_TOKENS * 2**step for step in range((longest // MIN_TOKENS).bit_length())]
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for length in lengths:
            for name in ARRAYS:
                runs.setdefault((name, length), []).append(in_process(length, name))
                click.echo(f"{length:>6} {name:<15} {runs[name, length][-1]}")
    found: dict[str, Any] = {}
    for name in ARRAYS:
        found[name] = {
            str(n): {m: round(median(run[m] for run in runs[name, n]), 6) for m in MEASURES}
            for n in lengths
        }
    fitted = {name: exponents(lengths, found[name]) for name in ARRAYS}
    about = {"rounds": rounds, "fitted_from": FITTED_FROM}
    record("growth", ["numpy"], {**about, "exponents": fitted, "tokens": found})


if __name__ == "__main__":
    main()
