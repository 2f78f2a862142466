"""Measure time and memory by the length of a sentence, with attention weights and without.

    python benchmarks/growth.py [--longest 16384] [--rounds 3]

A sentence is encoded from text to vectors on one core, each length in a separate process. Memory is
the growth of the process at its peak (`VmHWM`) and the peak size of the arrays (tracemalloc). The
exponents are fitted to lengths of 1,024 and more. The longest sentence needs 6 GB of memory.
Results: results/growth.json.
"""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import median

import click
import numpy as np
import orjson
from processes import megabytes, reset_peaks
from record import median_row, record, seconds
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
    short, long = (" ".join(words) for words in sentences([MIN_TOKENS, tokens]))

    def encode(text: str) -> object:
        return contextualize(
            model.sentence(model.tokenizer.tokens(text)[:tokens]), model.layers, names
        )

    encode(short)
    return lambda: encode(long)


def measure(tokens: int, arrays: str) -> dict[str, float]:
    """Measure one length, in this process."""
    with threadpool_limits(1):
        encode = encoding(tokens, ARRAYS[arrays])
        reset_peaks(["self"])
        before = megabytes("self", "VmRSS")
        times = [seconds(encode)]
        peak = megabytes("self", "VmHWM") - before
        times += [seconds(encode) for _ in range(REPEATS - 1 if tokens <= SMALL else 0)]
        tracemalloc.start()
        encode()
        size = tracemalloc.get_traced_memory()[1] / 1e6
    return {"seconds": median(times), "peak_mb": peak, "arrays_mb": size}


def in_process(tokens: int, arrays: str) -> dict[str, float]:
    """Measure one length in a separate process."""
    command = [sys.executable, __file__, "--one", str(tokens), arrays]
    done = subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own
    measured: dict[str, float] = orjson.loads(done.stdout)
    return measured


def exponents(lengths: Sequence[int], measured: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the exponent of each measure, by least squares on logarithms."""
    long = [length for length in lengths if length >= FITTED_FROM]
    return {
        measure: round(
            float(
                np.polyfit(np.log(long), np.log([measured[str(n)][measure] for n in long]), 1)[0]
            ),
            3,
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
        click.echo(orjson.dumps(measure(*single)))
        return
    lengths = [MIN_TOKENS * 2**step for step in range((longest // MIN_TOKENS).bit_length())]
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for length in lengths:
            for name in ARRAYS:
                runs.setdefault((name, length), []).append(in_process(length, name))
                click.echo(f"{length:>6} {name:<15} {runs[name, length][-1]}")
    middle = {name: {str(n): median_row(runs[name, n], 6) for n in lengths} for name in ARRAYS}
    fitted = {name: exponents(lengths, middle[name]) for name in ARRAYS}
    about = {"rounds": rounds, "fitted_from": FITTED_FROM}
    record("growth", ["numpy"], {**about, "exponents": fitted, "tokens": middle})


if __name__ == "__main__":
    main()
