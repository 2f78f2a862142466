"""Measure the tokens per second of the engine on one core, compared with matrix products.

    python benchmarks/engine.py [--rounds 15]

All start from static vectors: the engine, with attention weights in the result and without, and the
matrix products alone, which are the upper limit. They run in turn on 500 sentences of 32 tokens and
on 1,000 of 5 to 60 from Simple English Wikipedia, and on sentences of 8 to 512 tokens, one by one.
Tokens without a vector are left out. Figures are tokens per second and ratios of medians. What text
costs is measured by lists.py. Results: results/engine.json.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import click
import numpy as np
from record import in_turn, record, seconds
from sentences import bundled, lengths, sentences
from threadpoolctl import threadpool_limits

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Projection, contextualize
from polyseme.models.model import Model

CURVE = (8, 16, 32, 64, 128, 256, 512)
ONE, DIFFERENT = 32, 500
"""The length of the single sentences in tokens, and their number."""
MANY = 1000
MIN_SECONDS = 0.02
"""Minimum time of a measurement; shorter work is repeated."""
WITH, WITHOUT = ("weights",), ()

Work = Callable[[], int]
"""A function that encodes sentences and returns their number of tokens."""


def products(model: Model, x: Floats) -> Callable[[], None]:
    """Return a function that computes only the layer's matrix products for x [n, d]."""
    layer, n = model.layers[0], len(x)
    heads, wide = layer.heads, model.value_width
    weights = [np.ascontiguousarray(_weight(part)) for part in (layer.query, layer.key)]
    projected = [np.empty((n, weight.shape[1]), np.float32) for weight in weights]
    queries, keys = (_heads(x @ weight, heads) for weight in weights)
    transposed = np.ascontiguousarray(keys.transpose(0, 2, 1))
    values, scores = _heads(x, heads), np.empty((heads, n, n), np.float32)
    mixed, attention = np.empty((heads, n, wide), np.float32), np.full_like(scores, 1 / n)

    def run() -> None:
        for weight, out in zip(weights, projected, strict=True):
            np.matmul(x, weight, out=out)
        np.matmul(queries, transposed, out=scores)
        np.matmul(attention, values, out=mixed)

    return run


def _heads(x: Floats, heads: int) -> Floats:
    return np.ascontiguousarray(x.reshape(len(x), heads, -1).transpose(1, 0, 2))


def _weight(projection: Projection) -> Floats:
    if projection.weight is None:
        raise SystemExit("The bundled model's layer lacks a weight that this script expects.")
    return projection.weight


def tokens_per_second(systems: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the median tokens per second of each system over rounds in which all run in turn."""

    def rate(work: Work, repeats: int) -> float:
        began = time.perf_counter()
        tokens = sum(work() for _ in range(repeats))
        return tokens / (time.perf_counter() - began)

    actions = {}
    for name, work in systems.items():
        work()  # the first run is slower
        repeats = max(round(MIN_SECONDS / seconds(work)), 1)
        actions[name] = partial(rate, work, repeats)
    return {name: round(median(rates)) for name, rates in in_turn(actions, rounds).items()}


def from_vectors(model: Model, sentences: Sequence[SentenceArrays]) -> dict[str, Work]:
    """Return the systems that start from static vectors."""
    tokens = sum(len(sentence.words) for sentence in sentences)
    alone = [products(model, sentence.vectors) for sentence in sentences]

    def engine(names: Sequence[str]) -> int:
        for sentence in sentences:
            contextualize(sentence, model.layers, names)
        return tokens

    def multiply() -> int:
        for run in alone:
            run()
        return tokens

    return {
        "engine, with attention": lambda: engine(WITH),
        "engine, without": lambda: engine(WITHOUT),
        "products alone": multiply,
    }


def ready(model: Model, lengths: Sequence[int]) -> list[SentenceArrays]:
    """Return the engine's input for a sentence of each length."""
    texts = (" ".join(words) for words in sentences([2 * length for length in lengths]))
    tokens = (model.tokenizer.look_up(text) for text in texts)
    known = ([t for t in text if t.row is not None or t.composed] for text in tokens)
    return [model.sentence(text[:length]) for text, length in zip(known, lengths, strict=True)]


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios of the engine's rates to that of the products."""
    products = rates["products alone"]
    pairs = {
        "with attention, to products": rates["engine, with attention"],
        "without, to products": rates["engine, without"],
    }
    return {name: round(rate / products, 3) for name, rate in pairs.items()}


@click.command()
@click.option("--rounds", default=15)
def main(rounds: int) -> None:
    """Run the benchmark."""
    model = bundled()
    groups = {
        "sentences": {"1": ready(model, [ONE] * DIFFERENT), "1000": ready(model, lengths(MANY))},
        "lengths": {str(length): ready(model, [length]) for length in CURVE},
    }
    results: dict[str, dict[str, Any]] = {group: {} for group in groups}
    with threadpool_limits(1):
        for group, cases in groups.items():
            for name, arrays in cases.items():
                rates = tokens_per_second(from_vectors(model, arrays), rounds)
                results[group][name] = {"tokens_per_second": rates, "ratios": ratios(rates)}
                click.echo(f"{group} {name}: {results[group][name]}")
    record("engine", ["numpy"], {"rounds": rounds, **results})


if __name__ == "__main__":
    main()
