"""Measure the tokens per second of the engine on one core, compared with baselines.

    python benchmarks/engine.py [--rounds 15]

All start from static vectors: the engine, with attention weights in the result and without; the
matrix products alone, which are the upper limit; and the same layer in torch with
scaled_dot_product_attention. They run in turn on 500 sentences of 32 tokens and on 1,000 of 5 to 60
from Simple English Wikipedia, and on sentences of 8 to 512 tokens, one by one. Tokens without a
vector are left out, because torch's layer has none. Figures are tokens per second and ratios of
medians. What text costs is measured by lists.py. Results: results/engine.json.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import click
import numpy as np
import torch
from record import in_turn, record, seconds
from rivals import TorchLayer, Way, products, tensors
from sentences import bundled, lengths, sentences
from threadpoolctl import threadpool_limits

from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import contextualize
from polyseme.models.model import Model

CURVE = (8, 16, 32, 64, 128, 256, 512)
ONE, DIFFERENT = 32, 500
"""The length of the single sentences in tokens, and their number."""
MANY = 1000
MIN_SECONDS = 0.02
"""Minimum time of a measurement; shorter work is repeated."""
WITH, WITHOUT = ("weights",), ()
WAYS: tuple[Way, ...] = ("as they are", "padded")
TOLERANCE = 1e-5

Work = Callable[[], int]
"""A function that encodes sentences and returns their number of tokens."""


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


def from_vectors(
    model: Model, sentences: Sequence[SentenceArrays], torch_layer: TorchLayer
) -> dict[str, Work]:
    """Return the systems that start from static vectors."""
    tokens = sum(len(sentence.words) for sentence in sentences)
    inputs = list(map(tensors, sentences))
    alone = [products(model, sentence.vectors) for sentence in sentences]

    def engine(names: Sequence[str]) -> int:
        for sentence in sentences:
            contextualize(sentence, model.layers, names)
        return tokens

    def in_torch(way: Way) -> int:
        for sentence in inputs:
            torch_layer(*sentence, way)
        return tokens

    def multiply() -> int:
        for run in alone:
            run()
        return tokens

    return {
        "engine, with attention": lambda: engine(WITH),
        "engine, without": lambda: engine(WITHOUT),
        "products alone": multiply,
        "torch, as they are": lambda: in_torch("as they are"),
        "torch, padded": lambda: in_torch("padded"),
    }


def ready(model: Model, lengths: Sequence[int]) -> list[SentenceArrays]:
    """Return the engine's input for a sentence of each length."""
    texts = (" ".join(words) for words in sentences([2 * length for length in lengths]))
    tokens = (model.tokenizer.look_up(text) for text in texts)
    known = ([t for t in text if t.row is not None or t.composed] for text in tokens)
    return [model.sentence(text[:length]) for text, length in zip(known, lengths, strict=True)]


def require_agreement(
    model: Model, sentences: Sequence[SentenceArrays], torch_layer: TorchLayer
) -> None:
    """Raise SystemExit if torch's results differ from the engine's."""
    for sentence in sentences:
        ours = contextualize(sentence, model.layers).contextual
        for way in WAYS:
            theirs = torch_layer(*tensors(sentence), way).numpy()
            if not np.allclose(ours, theirs, rtol=0, atol=TOLERANCE):
                raise SystemExit(f"torch's layer differs by {np.abs(ours - theirs).max()}.")


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios of the engine's rate to those of other systems."""
    torch_rate = max(rates["torch, as they are"], rates["torch, padded"])
    pairs = {
        "with attention, to products": (rates["engine, with attention"], rates["products alone"]),
        "without, to products": (rates["engine, without"], rates["products alone"]),
        "without, to torch": (rates["engine, without"], torch_rate),
    }
    return {name: round(ours / theirs, 3) for name, (ours, theirs) in pairs.items()}


@click.command()
@click.option("--rounds", default=15)
def main(rounds: int) -> None:
    """Run the benchmark."""
    torch.set_num_threads(1)
    model = bundled()
    torch_layer = TorchLayer(model, max(CURVE))
    groups = {
        "sentences": {"1": ready(model, [ONE] * DIFFERENT), "1000": ready(model, lengths(MANY))},
        "lengths": {str(length): ready(model, [length]) for length in CURVE},
    }
    results: dict[str, dict[str, Any]] = {group: {} for group in groups}
    with threadpool_limits(1), torch.inference_mode():
        for group, cases in groups.items():
            for name, arrays in cases.items():
                require_agreement(model, arrays, torch_layer)
                rates = tokens_per_second(from_vectors(model, arrays, torch_layer), rounds)
                results[group][name] = {"tokens_per_second": rates, "ratios": ratios(rates)}
                click.echo(f"{group} {name}: {results[group][name]}")
    record("engine", ["numpy", "torch"], {"rounds": rounds, **results})


if __name__ == "__main__":
    main()
