"""Measure the time of a search for neighbors on one core, compared with a pass over the table.

    python benchmarks/neighbors.py [--words 400000] [--width 100] [--rounds 31]

The pass is the dot product of a flattened float32 table with itself, the fastest BLAS operation
that reads each value. Ten neighbors are searched in the same table as float32, float16 and int8,
and in the bundled model's table. The pass and the searches run in turn, and the figures are medians
and their ratios. The first search of a worker also computes the norms of the rows; `lengths` is the
time for that. Results: results/neighbors.json.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from record import in_turn, medians, record, seconds
from threadpoolctl import threadpool_limits

from polyseme.engine.quantization import quantize, stored
from polyseme.engine.similarity import Table, nearest, norms
from polyseme.models.reader import bundled_models, read_model
from polyseme.settings import BUNDLED

SEED, NEIGHBORS, PASS = 1, 10, "float32 pass"


def tables(words: int, width: int) -> dict[str, Table]:
    """Return the same normally distributed table in each dtype, and the bundled model's table."""
    rng = np.random.default_rng(SEED)
    table = rng.standard_normal((words, width), dtype=np.float32)
    return {
        "float32": table,
        "float16": table.astype(np.float16),
        "int8": stored(quantize(table))[0],
        BUNDLED: stored(read_model(bundled_models() / BUNDLED).rows)[0],
    }


def actions(by_name: dict[str, Table]) -> dict[str, Callable[[], Any]]:
    """Return the functions to time: the pass, and for each table a search and the norms."""
    rng = np.random.default_rng(SEED)
    numbers: NDArray[np.float32] = by_name["float32"].reshape(-1)
    timed: dict[str, Callable[[], Any]] = {PASS: lambda: numbers @ numbers}
    for name, table in by_name.items():
        vector, row_norms = rng.standard_normal(table.shape[1]), norms(table)
        timed[name] = lambda v=vector, t=table, s=row_norms: nearest(v, t, s, NEIGHBORS)
        timed[f"{name}, lengths"] = lambda t=table: norms(t)
    return timed


@click.command()
@click.option("--words", default=400_000)
@click.option("--width", default=100)
@click.option("--rounds", default=31)
def main(words: int, width: int, rounds: int) -> None:
    """Run the benchmark."""
    by_name = tables(words, width)
    with threadpool_limits(1):
        timed = {name: partial(seconds, action) for name, action in actions(by_name).items()}
        times = in_turn(timed, rounds)
    middle = medians({name: [1000 * taken for taken in runs] for name, runs in times.items()})
    ratios = {name: round(middle[name] / middle[PASS], 2) for name in timed if name != PASS}
    for name, ratio in ratios.items():
        click.echo(f"{name:<20} {middle[name]:7.2f} ms  {ratio:5.2f} passes")
    shapes = {name: {"shape": list(t.shape), "dtype": t.dtype.name} for name, t in by_name.items()}
    record(
        "neighbors",
        ["numpy"],
        {
            "rounds": rounds,
            "neighbors": NEIGHBORS,
            "tables": shapes,
            "gigabytes_per_second": round(by_name["float32"].nbytes / middle[PASS] / 1e6, 1),
            "median_milliseconds": middle,
            "ratio_to_the_pass": ratios,
        },
    )


if __name__ == "__main__":
    main()
