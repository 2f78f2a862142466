"""Measure what a sentence of real text costs, one by one and in lists.

    python benchmarks/lists.py [--rounds 7]

Each system of a round encodes the next 1,024 paragraphs of 8 to 60 words that no measurement has
read before, so that the caches hold what earlier text put there: `wiki-en` and `wiki-en-deep` in
process, one by one, in lists of 64 and of 1,024, to contextual vectors, and to sentence vectors. A
round also measures, for `wiki-en`, the stages of a list of 1,024 and the matrix products of its
layer alone, from static vectors, and other ways on the same paragraphs: all-MiniLM-L6-v2 in ONNX
Runtime (float32 and int8) on some of them, one by one and in batches of similar lengths, attention
in NumPy over the vectors in gensim, their mean, and model2vec's `StaticModel` over them. Figures
are medians of microseconds of processor time a sentence, which depend little on other work on the
machine, on one core. Results: results/lists.json.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

import click
import numpy as np
import torch
from record import medians, record
from rivals import InOnnxRuntime, MiniLM, PlainAttention, keyed_vectors, mean, static_model
from sentences import BUNDLED, bundled, paragraphs
from threadpoolctl import threadpool_limits

from polyseme.client.local import LocalModel
from polyseme.engine import Floats
from polyseme.engine.layers import Projection, contextualize
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.operations.encode import encode_sentences, static_stacks, tokenize
from polyseme.operations.limits import Limits
from polyseme.operations.schema import EncodeOptions

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


def of_minilm(name: str, minilm: MiniLM, texts: list[str]) -> dict[str, float]:
    """Return the processor time of 1,024 sentences, as a multiple of that of some of them."""
    some = sorted(texts[: BATCH * BATCHES], key=len)
    batches = [some[start : start + BATCH] for start in range(0, len(some), BATCH)]
    alone = seconds(lambda: [minilm([text]) for text in texts[:BATCH]])
    together = seconds(lambda: [minilm(batch) for batch in batches])
    return {
        f"{name}, one by one": alone * COUNT / BATCH,
        f"{name}, batches of 32": together * COUNT / len(some),
    }


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


def of_stages(model: Model, texts: list[str]) -> dict[str, float]:
    """Return the processor time of the stages of a list, and of the products alone."""
    before = time.process_time()
    sentences = tokenize(model, texts, OPTIONS, Limits())
    after_tokens = time.process_time()
    stacks = list(static_stacks(model, [sentence.tokens for sentence in sentences]))
    found = {"tokens": after_tokens - before, "static rows": time.process_time() - after_tokens}
    found["engine"] = seconds(lambda: [contextualize(x, model.layers) for _, x in stacks])
    whole = seconds(lambda: encode_sentences(model, sentences, OPTIONS))
    alone = [products(model, model.inputs(sentence.tokens).vectors) for sentence in sentences]
    return found | {
        "stages after tokens, again": whole,
        "products alone": seconds(lambda: [run() for run in alone]),
    }


RIVAL = "MiniLM int8"
PAIRS = {
    "lists of 64, to one by one": ("lists of 64", "one by one"),
    "lists of 1,024, to one by one": ("lists of 1,024", "one by one"),
    "products alone, to lists of 1,024": ("products alone", "lists of 1,024"),
    "products alone, to engine": ("products alone", "engine"),
    "MiniLM int8, to wiki-en, one by one": (f"{RIVAL}, one by one", "one by one"),
    "MiniLM int8, to wiki-en, lists of 64": (f"{RIVAL}, one by one", "lists of 64"),
    "MiniLM int8, to wiki-en, lists of 1,024": (f"{RIVAL}, one by one", "lists of 1,024"),
    "MiniLM int8, to deep, one by one": (f"{RIVAL}, one by one", "deep, one by one"),
    "MiniLM int8, to deep, lists of 64": (f"{RIVAL}, one by one", "deep, lists of 64"),
    "MiniLM int8, to deep in ONNX Runtime": (f"{RIVAL}, one by one", "deep in ONNX Runtime, int8"),
    "MiniLM float32, to wiki-en, one by one": ("MiniLM float32, one by one", "one by one"),
    "plain attention, to wiki-en, one by one": ("plain attention", "one by one"),
    "model2vec, to sentence vectors": ("model2vec", "sentence vectors"),
    "NumPy mean, to sentence vectors": ("NumPy mean", "sentence vectors"),
    "deep, to wiki-en, one by one": ("deep, one by one", "one by one"),
    "deep, to wiki-en, lists of 1,024": ("deep, lists of 1,024", "lists of 1,024"),
}
"""Of each ratio, the numerator and the denominator. MiniLM int8 is fastest one by one."""


@click.command()
@click.option("--rounds", default=7)
def main(rounds: int) -> None:
    """Run the benchmark."""
    torch.set_num_threads(1)
    model, lines = bundled(), paragraphs(range(8, 61))
    plain = LocalModel(model)
    deep = LocalModel(read_model(BUNDLED.with_name("wiki-en-deep")))
    batches = iter(lambda: list(islice(lines, COUNT)), [])
    times: defaultdict[str, list[float]] = defaultdict(list)
    with threadpool_limits(1), torch.inference_mode():
        minilms = {f"MiniLM {kind}": MiniLM(kind == "int8") for kind in ("float32", "int8")}
        vectors = keyed_vectors(model)
        ways = {
            "plain attention": PlainAttention(vectors, model.layers[0]),
            "NumPy mean": partial(mean, vectors),
            "deep in ONNX Runtime, int8": InOnnxRuntime(deep.model),
            "model2vec": partial(static_model(vectors).encode, use_multiprocessing=False),
        }
        warm_up = list(chain.from_iterable(islice(batches, WARM_UP // COUNT)))
        plain.encode(warm_up, include=["contextual"])
        deep.embed(warm_up)  # its tokenizer has caches of its own
        for _ in range(rounds):
            texts = next(batches)
            took = of_lists(plain, batches) | of_stages(model, texts)
            took |= {f"deep, {name}": time for name, time in of_lists(deep, batches).items()}
            for name, minilm in minilms.items():
                took |= of_minilm(name, minilm, texts)
            took |= {name: seconds(partial(way, texts)) for name, way in ways.items()}
            for name, second in took.items():
                times[name].append(second / COUNT * 1e6)
    costs = medians(times)
    results = {
        "microseconds": costs,
        "ratios": {name: round(costs[a] / costs[b], 3) for name, (a, b) in PAIRS.items()},
        "threads": {name: os.environ[name] for name in os.environ if name.endswith("_NUM_THREADS")},
    }
    click.echo(results)
    record("lists", ["numpy", "onnxruntime", "model2vec", "gensim", "polyseme"], results)


if __name__ == "__main__":
    main()
