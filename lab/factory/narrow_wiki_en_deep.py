"""Narrow the layers of a model and teach them its vectors: the weights of `wiki-en-deep`.

    python lab/factory/narrow_wiki_en_deep.py --corpus FOLDER --leave-out FILE [--minutes 66]

The teacher is the model that `train_wiki_en_deep.py` writes, with the words that were left out. Its
keys, values and hidden units are narrowed in closed form:

- The scores of a head are x·A·yᵀ with A = Wq·Wkᵀ/√k. Of all matrices of rank `--keys`, the narrow
  A is nearest in mean square over the inputs x and y of real text. Inputs of keys are centered,
  because a constant in all scores of a query changes no weight.
- The values of a head and its part of the output matrix are one matrix, too, which is approximated
  in the same way over the inputs that attention has mixed.
- Hidden units are removed one by one, each time the unit whose output the others replace best
  (Hassibi & Stork 1993); then the outer matrix is fitted to the teacher's outputs.

The narrow layers then learn the teacher's results on every `*.txt.zst` of the corpus, for half of
the batches with hidden words: its contextual vectors, what it computes for hidden words, and the
results of its lower layers. Each loss is a mean squared error relative to the variance. One thread
runs the teacher, another one the student. `fit_senses.py --model` adds the projection for senses,
and the same with `--pairs` the rule.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TypeVar

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyseme.engine import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import IDENTITY, FeedForward, Layer, Projection
from polyseme.errors import CommandError
from polyseme.models.reader import read_model
from polyseme.models.writer import rewrite_model
from polyseme.terminal import Progress
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.hidden_words import UNKNOWN, HiddenBatch, HiddenWords, tokenize_files
from polyseme_lab.training.network import Network, TrainingBatch
from polyseme_lab.training.stack import adam_w

_T = TypeVar("_T")
WIKI_EN_DEEP = Path(__file__).parents[2] / "models" / "wiki-en-deep"
BATCHES, PENALTY = 30, 1e-3
"""The number of batches to narrow over, and the penalty relative to the mean square of a column."""
WEIGHT_LAYERS, WEIGHT_HIDDEN = 0.3, 1.0
"""The weights of the losses of lower layers and of hidden words; that of the vectors is 1."""
RATE, DECAY, WARM_UP, CONSTANT = 1e-3, 0.01, 100, 0.3
"""The learning rate, the decay of the weights, the steps in which the rate rises, and the share of
the time until it falls to 0."""
CHECK_EVERY, HELD_OUT = 2000, 4


@dataclass(frozen=True)
class Inputs:
    """What a layer computes for m tokens of real text."""

    attention: Floats
    """[m, d], the input of attention"""
    mixed: Floats
    """[m, h, d], that input, mixed by the weights of each head"""
    feed_forward: Floats
    """[m, d]"""


def inputs_of(layers: Sequence[Layer], batches: Sequence[SentenceArrays]) -> list[Inputs]:
    """Return the inputs of each pre-norm layer at the known tokens of some stacks."""
    parts: list[list[Inputs]] = [[] for _ in layers]
    for sentences in batches:
        x, known = sentences.vectors, sentences.known
        for layer, part in zip(layers, parts, strict=True):
            start = required(layer.attention_norm)(x)
            with np.errstate(all="ignore"):  # the softmax handles large scores
                result = layer(x, sentences, keep_weights=True)
            mixed = np.swapaxes(required(result.weights) @ start[:, None], 1, 2)
            after = required(layer.feed_forward_norm)(result.mixed)
            part.append(Inputs(start[known], mixed[known], after[known]))
            x = result.output
    return [
        Inputs(*(np.concatenate([getattr(one, name) for one in part]) for name in vars(part[0])))
        for part in parts
    ]


def narrow(layer: Layer, inputs: Inputs, keys: int, values: int, units: int) -> Layer:
    """Return the layer with `keys` and `values` columns for each head, and so many hidden units."""
    query, key = narrow_scores(layer, inputs.attention, keys)
    value, output = narrow_values(layer, inputs.mixed, values)
    feed_forward = narrow_units(required(layer.feed_forward), inputs.feed_forward, units)
    return replace(
        layer, query=query, key=key, value=value, output=output, feed_forward=feed_forward
    )


def narrow_scores(layer: Layer, x: Floats, width: int) -> tuple[Projection, Projection]:
    """Return query and key projections of so many columns for each head. [m, d]"""
    with_one = np.hstack([x, np.ones((len(x), 1))]).astype(np.float64)
    left = square_roots(with_one.T @ with_one / len(x))
    right = square_roots(np.cov(x.T.astype(np.float64), bias=True))
    query = np.vstack([required(layer.query.weight), required(layer.query.bias)])
    queries, keys = [], []
    heads = (by_head(weight, layer.heads) for weight in (query, required(layer.key.weight)))
    for q, k in zip(*heads, strict=True):
        one, other = low_rank(q @ k.T / math.sqrt(k.shape[1]), left, right, width)
        queries.append(one * math.sqrt(width))  # the engine divides scores by √k
        keys.append(other.T)
    weight = np.hstack(queries)
    return projection(weight[:-1], weight[-1]), projection(np.hstack(keys))


def narrow_values(layer: Layer, mixed: Floats, width: int) -> tuple[Projection, Projection]:
    """Return value and output projections of so many columns for each head. [m, h, d]"""
    value_weight, output_weight = required(layer.value.weight), required(layer.output.weight)
    bias = required(layer.value.bias) @ output_weight + required(layer.output.bias)
    values, outputs = [], []
    heads = zip(
        by_head(value_weight, layer.heads),
        by_head(output_weight.T, layer.heads),
        np.swapaxes(mixed, 0, 1).astype(np.float64),
        strict=True,
    )
    for value, output, x in heads:
        whole = value @ output.T
        roots = square_roots(np.cov(x.T, bias=True))
        one, other = low_rank(whole, roots, None, width)
        values.append(one)
        outputs.append(other)
        bias = bias + x.mean(axis=0) @ (whole - one @ other)
    return projection(np.hstack(values)), projection(np.vstack(outputs), bias)


def narrow_units(network: FeedForward, x: Floats, count: int) -> FeedForward:
    """Return a feed-forward network with the `count` units that serve best. [m, d]"""
    active = network.activate(x)
    hidden, outputs = active.astype(np.float64), network.outer(active)
    units = best_units(np.cov(hidden.T, bias=True), required(network.outer.weight), count)
    with_one = np.hstack([hidden[:, units], np.ones((len(x), 1))])
    squares = with_one.T @ with_one
    squares += PENALTY * np.trace(squares) / len(squares) * np.eye(len(squares))
    outer = np.linalg.solve(squares, with_one.T @ outputs)
    weight, bias = required(network.inner.weight), required(network.inner.bias)
    inner = projection(weight[:, units], bias[units])
    return FeedForward(inner, projection(outer[:-1], outer[-1]), network.activation)


def best_units(covariance: Floats, outer: Floats, count: int) -> NDArray[np.intp]:
    """Return which hidden units remain. [u, u], [u, d] -> [count]"""
    size = len(covariance)
    ridge = PENALTY * np.trace(covariance) / size
    inverse = np.linalg.inv(covariance + ridge * np.eye(size))
    weight, alive = outer.astype(np.float64), np.ones(size, np.bool_)
    for _ in range(size - count):
        cost = np.where(alive, np.square(weight).sum(axis=1) / inverse.diagonal(), np.inf)
        unit = int(cost.argmin())
        column = inverse[:, unit] / inverse[unit, unit]
        weight -= np.outer(column, weight[unit])
        inverse -= np.outer(column, inverse[unit])
        weight[unit], inverse[unit, unit], alive[unit] = 0, 1, False
    return np.flatnonzero(alive)


def square_roots(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the square root of a covariance, and its inverse. [d, d] -> [d, d], [d, d]"""
    values, directions = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-6 * values.max())
    return (directions * values**0.5) @ directions.T, (directions * values**-0.5) @ directions.T


def low_rank(
    matrix: Floats,
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats] | None,
    rank: int,
) -> tuple[Floats, Floats]:
    """Return the factors of the nearest matrix of some rank. [a, b] -> [a, rank], [rank, b]

    The distance is that of `left`·matrix·`right`, the roots of covariances.
    """
    seen = left[0] @ matrix @ right[0] if right else left[0] @ matrix
    u, s, v = np.linalg.svd(seen, full_matrices=False)
    roots = np.sqrt(s[:rank])
    one, other = left[1] @ u[:, :rank] * roots, roots[:, None] * v[:rank]
    return one, other @ right[1] if right else other


def required(part: _T | None) -> _T:
    """Return the part of a layer; raise CommandError if it is None."""
    if part is None:
        raise CommandError("The teacher's layers lack a part that this script narrows.")
    return part


def by_head(weight: Floats, heads: int) -> list[Floats]:
    """Split the columns. [d, h·k] -> h of [d, k]"""
    return np.split(weight.astype(np.float64), heads, axis=1)


def projection(weight: Floats, bias: Floats | None = None) -> Projection:
    """Return a projection in float32; its bias is 0 if there is none."""
    bias = np.zeros(weight.shape[1]) if bias is None else bias
    return Projection(np.ascontiguousarray(weight, np.float32), bias.astype(np.float32))


@dataclass(frozen=True)
class Example:
    """A batch with the results of the teacher's layers."""

    sentences: TrainingBatch
    hidden: Tensor
    """[B, n]"""
    results: list[Tensor]


class Lesson:
    """Teaches a student the results of a teacher, whose final projection both have."""

    def __init__(
        self, teacher: Sequence[Layer], data: HiddenWords, table: NDArray[np.float32]
    ) -> None:
        d = table.shape[1]
        final = teacher[-1].final.weight
        self.data, self.table = data, torch.from_numpy(table)
        self.final = torch.eye(d) if final is None else torch.from_numpy(final)
        network = Network.from_layers(without_final(teacher), d)
        self.teacher = network.with_tensors(network.tensors, torch.bfloat16)

    def example(self, step: int) -> Example:
        """Return the batch of a step; the words of every other one are hidden."""
        batch, hides = self.data.batch(step), step % 2 == 1
        rows = torch.from_numpy(batch.rows if hides else shown(batch))
        known = rows != UNKNOWN
        vectors = functional.embedding(torch.where(known, rows, len(self.table) - 1), self.table)
        positions = torch.from_numpy(batch.positions)
        asked = torch.from_numpy(batch.targets != UNKNOWN)
        hidden = torch.zeros_like(known).scatter(1, positions, asked) & ~known
        sentences = TrainingBatch(vectors, known, rows, positions)
        with torch.no_grad():
            return Example(sentences, hidden, list(self.teacher.results(sentences)))

    def losses(self, network: Network, example: Example) -> dict[str, Tensor]:
        """Return the loss of the vectors, of the hidden words if there are any, and of layers."""
        known, hidden = example.sentences.known, example.hidden
        pairs = list(zip(network.results(example.sentences), example.results, strict=True))
        used = known | hidden
        lower = [error(own[used], of[used]) for own, of in pairs[:-1]]
        own, of = (part.float() @ self.final for part in pairs[-1])
        losses = {"vectors": error(own[known], of[known])}
        losses["layers"] = torch.stack(lower).mean() if lower else torch.zeros(())
        return losses | ({"hidden": error(own[hidden], of[hidden])} if hidden.any() else {})

    def examples(self) -> Iterator[Example]:
        """Yield the examples of the steps, made in a thread of their own."""
        made: Queue[Example] = Queue(4)

        def make() -> None:
            step = 0
            while True:
                made.put(self.example(step))
                step += 1

        Thread(target=make, daemon=True).start()
        while True:
            yield made.get()

    def teach(
        self, student: Sequence[Layer], minutes: float
    ) -> tuple[list[Layer], dict[str, float]]:
        """Train the student for some minutes; return it with the steps and its mean losses."""
        network = Network.from_layers(without_final(student), self.table.shape[1])
        tensors = {name: tensor.requires_grad_() for name, tensor in network.tensors.items()}
        optimizer = adam_w(tensors, RATE, DECAY)
        fast = network.with_tensors(tensors, torch.bfloat16)
        held_out = [self.example(10**6 + n) for n in range(HELD_OUT)]
        began = time.monotonic()
        for step, example in enumerate(self.examples()):
            part = (time.monotonic() - began) / (60 * minutes)
            if step % CHECK_EVERY == 0 or part >= 1:
                facts = {"steps": step, **self.mean_losses(network, held_out)}
                click.echo(facts)
            if part >= 1:
                break
            falling = min(1.0, (1 - part) / (1 - CONSTANT))
            for group in optimizer.param_groups:
                group["lr"] = RATE * min((step + 1) / WARM_UP, falling)
            losses = self.losses(fast, example)
            loss = losses["vectors"] + WEIGHT_LAYERS * losses["layers"]
            loss = loss + WEIGHT_HIDDEN * losses.get("hidden", 0)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(tensors.values(), 1.0)
            optimizer.step()
        layers = network.to_layers()
        last = student[-1]
        return [*layers[:-1], replace(layers[-1], final=last.final, skip=last.skip)], facts

    def mean_losses(self, network: Network, examples: Sequence[Example]) -> dict[str, float]:
        """Return the mean of each loss."""
        with torch.no_grad():
            found = [self.losses(network, example) for example in examples]
        names = dict.fromkeys(name for losses in found for name in losses)
        return {
            name: round(float(np.mean([float(one[name]) for one in found if name in one])), 4)
            for name in names
        }


def error(own: Tensor, of: Tensor) -> Tensor:
    """Return the mean squared error, relative to the variance. [m, d], [m, d] -> []"""
    return (own - of).square().sum() / (of - of.mean(dim=0)).square().sum()


def without_final(layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers without the projection of their result and the skip connection."""
    return [*layers[:-1], replace(layers[-1], final=IDENTITY, skip=None)]


def shown(batch: HiddenBatch) -> NDArray[np.int64]:
    """Return the rows of a batch in which nothing is hidden. -> [B, n]"""
    rows = batch.rows.copy()
    before = np.take_along_axis(rows, batch.positions, 1)
    words = np.where(batch.targets != UNKNOWN, batch.targets, before)
    np.put_along_axis(rows, batch.positions, words, 1)
    return rows


_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--corpus", type=_path, required=True)
@click.option("--leave-out", type=_path, required=True, help="Words that are never hidden.")
@click.option("--teacher", type=_path, default=Path("build/wiki-en-deep/models/deep"))
@click.option("--output", type=click.Path(path_type=Path), default=WIKI_EN_DEEP)
@click.option("--keys", default=8, show_default=True)
@click.option("--values", default=36, show_default=True)
@click.option("--units", default=160, show_default=True)
@click.option("--minutes", default=66.0, show_default=True)
def main(
    corpus: Path,
    leave_out: Path,
    teacher: Path,
    output: Path,
    keys: int,
    values: int,
    units: int,
    minutes: float,
) -> None:
    """Narrow a model."""
    torch.set_num_threads(1)
    model = read_model(teacher)
    text = tokenize_files(model, sorted(corpus.glob("*.txt.zst")), Progress())
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    config = HiddenWordsConfig(steps=1, leave_out=leave_out.read_text().split(), hidden=0.2)
    data = HiddenWords(text, words, config)
    layers = [layer.astype(np.float32) for layer in model.layers]
    lesson = Lesson(layers, data, text.table(model))
    batches = [lesson.example(2 * n).sentences for n in range(BATCHES)]
    arrays = [SentenceArrays(b.vectors.numpy(), b.known.numpy(), b.words.numpy()) for b in batches]
    found = inputs_of(without_final(layers), arrays)
    student = [
        narrow(layer, inputs, keys, values, units)
        for layer, inputs in zip(layers, found, strict=True)
    ]
    taught, facts = lesson.teach(student, minutes)
    widths = {"keys": keys, "values": values, "units": units, "minutes": minutes}
    training = model.manifest.training | {"narrowed": widths | facts}
    licence = (WIKI_EN_DEEP / "LICENSE").read_bytes()
    rewrite_model(
        output.absolute(), model, layers=taught, weights_dtype="float16", training=training
    )
    (output / "LICENSE").write_bytes(licence)


if __name__ == "__main__":
    main()
