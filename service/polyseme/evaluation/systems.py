"""The vectors that are measured: the model's own, and what they have to beat."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.layers import FeedForward, Layer, Projection, contextualize
from polyseme.evaluation.occurrences import Occurrence, Table, by_sentence, numbered
from polyseme.evaluation.progress import Course, quiet
from polyseme.evaluation.readings import Reading, Source
from polyseme.importing.attention import in_closed_form
from polyseme.importing.order import sorted_by_frequency
from polyseme.models.model import Model

SEEDS = (1, 2, 3)
"""Of the random projections; their figures are averaged."""
Kind: TypeAlias = Literal["control", "model", "compared"]
Reader: TypeAlias = Callable[[Reading, Sequence[int]], Floats]
"""The vectors of some places of a sentence. -> [m, d]"""


@dataclass(frozen=True)
class System:
    """One way to a vector. Several readers are several draws of it: figures are averaged."""

    name: str
    """as `--systems` takes it"""
    title: str
    kind: Kind
    readers: tuple[Reader, ...]


def systems(model: Model, names: Collection[str] | None = None) -> dict[str, System]:
    """The systems of some names by name, all when None; see NAMES."""
    return {
        name: System(name, title, "model" if name == "model" else "control", make(model))
        for name, (title, make) in _LOCAL.items()
        if names is None or name in names
    }


def served_systems(names: Collection[str] | None = None) -> dict[str, System]:
    """What can be measured of a model that is behind a service: its weights stay there."""
    made = {name: readers for name, readers in _SERVED.items() if names is None or name in names}
    return {
        name: System(name, _LOCAL[name][0], "model" if name == "model" else "control", readers)
        for name, readers in made.items()
    }


def tabulate(
    source: Source,
    readers: Mapping[str, Reader],
    occurrences: Sequence[Occurrence],
    course: Course = quiet,
) -> dict[str, Table]:
    """Every vector of every reader in one pass: a sentence is read once, whoever asks for it."""
    rows = numbered(occurrences)
    sentences = by_sentence(rows)
    found: dict[str, Floats] = {}
    with course("sentences", len(sentences)) as advance:
        readings = source(list(sentences))
        for reading, (places, numbers) in zip(readings, sentences.values(), strict=True):
            for name, reader in readers.items():
                vectors = reader(reading, places)
                if name not in found:
                    found[name] = np.empty((len(rows), vectors.shape[1]), np.float32)
                found[name][numbers] = vectors
            advance(1)
    return {name: Table(rows, vectors) for name, vectors in found.items()}


def _static(reading: Reading, places: Sequence[int]) -> Floats:
    return reading.sentence.vectors[list(places)]


def _context_mean(reading: Reading, places: Sequence[int]) -> Floats:
    """The other words' mean, but for its length, which no cosine sees."""
    vectors = reading.sentence.vectors
    return np.stack([np.delete(vectors, place, axis=0).sum(axis=0) for place in places])


def _stack(layers: Sequence[Layer]) -> Reader:
    def read(reading: Reading, places: Sequence[int]) -> Floats:
        return contextualize(reading.sentence, layers).contextual[list(places)]

    return read


def _served(reading: Reading, places: Sequence[int]) -> Floats:
    if reading.contextual is None:
        raise TypeError("this reading has no contextual vectors")
    return reading.contextual[list(places)]


def _closed(model: Model) -> Reader:
    """The layer and the word bias that an import of the model's vectors would give them."""
    closed = _in_closed_form(model)

    def read(reading: Reading, places: Sequence[int]) -> Floats:
        sentence = closed.sentence(reading.tokens)
        return contextualize(sentence, closed.layers).contextual[list(places)]

    return read


def _in_closed_form(model: Model) -> Model:
    """The model as an import of its vectors would make it."""
    words = (model.vocabulary.word(row) for row in range(len(model.vocabulary)))
    by_rank = bool(sorted_by_frequency(words))
    closed = in_closed_form(model.rows, None, by_rank=by_rank)
    return replace(model, layers=closed.layers, word_bias=closed.word_bias)


def _unassociated(model: Model) -> list[Layer]:
    return [replace(layer, key=_nothing(layer.key, model)) for layer in model.layers]


def _nothing(projection: Projection, model: Model) -> Projection:
    d = model.manifest.dimension
    shape = (d, d) if projection.weight is None else projection.weight.shape
    return replace(projection, weight=np.zeros(shape, np.float32))


def _uniform(model: Model) -> list[Layer]:
    return [
        replace(layer, scoring=replace(layer.scoring, word_bias=False)) for layer in model.layers
    ]


def _random(model: Model) -> tuple[Reader, ...]:
    drawn = (np.random.default_rng(seed) for seed in SEEDS)
    d = model.manifest.dimension
    return tuple(_stack([_drawn(layer, d, rng) for layer in model.layers]) for rng in drawn)


def _drawn(layer: Layer, d: int, rng: np.random.Generator) -> Layer:
    """The layer with projections of the same shapes drawn at random, and nothing else changed.

    Normal numbers of variance 1 / rows, which keeps the lengths of vectors; no biases. An output
    projection is drawn where the layer has one.
    """

    def drawn(projection: Projection, rows: int) -> Projection:
        shape = (rows, d) if projection.weight is None else projection.weight.shape
        numbers = rng.standard_normal(shape) / shape[0] ** 0.5
        return Projection(numbers.astype(np.float32))

    query, key, value = (drawn(one, d) for one in (layer.query, layer.key, layer.value))
    output = layer.output if layer.output.weight is None else drawn(layer.output, d)
    network = layer.feed_forward
    if network is not None:
        network = FeedForward(drawn(network.inner, d), drawn(network.outer, d), network.activation)
    return replace(layer, query=query, key=key, value=value, output=output, feed_forward=network)


_LOCAL: dict[str, tuple[str, Callable[[Model], tuple[Reader, ...]]]] = {
    "static": ("static vector", lambda _: (_static,)),
    "mean": ("plain mean of the context", lambda _: (_context_mean,)),
    "parameter-free": ("parameter-free attention", lambda _: (_stack([Layer()]),)),
    "random": ("random projections", _random),
    "closed-form": ("closed form", lambda model: (_closed(model),)),
    "no-association": ("without association", lambda model: (_stack(_unassociated(model)),)),
    "no-informativeness": ("without informativeness", lambda model: (_stack(_uniform(model)),)),
    "model": ("contextual vector", lambda model: (_stack(model.layers),)),
}
_SERVED: dict[str, tuple[Reader, ...]] = {
    "static": (_static,),
    "mean": (_context_mean,),
    "parameter-free": (_stack([Layer()]),),
    "model": (_served,),
}
NAMES = tuple(_LOCAL)
"""As `--systems` takes them, in the order they are shown, the model last."""
SERVED_NAMES = tuple(_SERVED)
DEFAULT = tuple(name for name in NAMES if not name.startswith("no-"))
"""The systems that are measured unless others are named."""
