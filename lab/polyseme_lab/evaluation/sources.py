"""Sources of static vectors: a model in memory, or a running service."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.models.model import Model
from polyseme.operations.encode import stacks
from polyseme.tokenizer import ResolvedToken, resolve_all
from polyseme_lab.evaluation.datasets import Words

if TYPE_CHECKING:
    from polyseme.client.client import Client


@dataclass(frozen=True)
class StaticStack:
    """B sentences of equal length with their static vectors."""

    numbers: Sequence[int]
    """the places of the sentences among those that a source was called with"""
    inputs: SentenceArrays
    """[B, n]"""
    tokens: Sequence[Sequence[ResolvedToken]] = ()
    """empty if the sentences are from a service"""
    contextual: Floats | None = None
    """[B, n, d], if a service computed them"""


class Source(Protocol):
    """The interface of the sources."""

    def __call__(self, sentences: Sequence[Words]) -> Iterator[StaticStack]:
        """Yield the sentences with their static vectors."""

    def knows(self, words: Sequence[str]) -> list[bool]:
        """Return whether words have a vector, from the vocabulary or composed of subwords."""


class LocalSource:
    """A source that uses a model in memory, with the default options of the service."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __call__(self, sentences: Sequence[Words]) -> Iterator[StaticStack]:
        """Yield the sentences with their static vectors, those of equal length together."""
        for numbers in stacks([len(words) for words in sentences]):
            tokens = [self._resolve(sentences[number]) for number in numbers]
            yield StaticStack(numbers, self._model.stack(tokens), tokens)

    def knows(self, words: Iterable[str]) -> list[bool]:
        """Return whether words have a vector, from the vocabulary or composed of subwords."""
        return [t.row is not None or t.composed is not None for t in self._resolve(words)]

    def _resolve(self, words: Iterable[str]) -> list[ResolvedToken]:
        return resolve_all(words, self._model.vocabulary, composes=self._model.composes)


class ServiceSource:
    """A source that uses a running service, through the project's client."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._client.name

    def __call__(self, sentences: Sequence[Words]) -> Iterator[StaticStack]:
        """Yield each sentence with its vectors, in order, requesting many at once."""
        encoded = self._client.encode_each(sentences, include=("static", "contextual"))
        for number, sentence in enumerate(encoded):
            tokens = sentence.tokens
            # The systems that a service has need neither word IDs nor the word bias.
            known = np.array([token.resolution != "oov" for token in tokens], np.bool_)
            arrays = SentenceArrays(sentence.static, known, np.arange(len(tokens)))
            yield StaticStack([number], arrays.select(None), (), sentence.contextual[None])

    def knows(self, words: Iterable[str]) -> list[bool]:
        """Return whether words have a vector, from the vocabulary or composed of subwords."""
        return [bool(stack.inputs.known[0, 0]) for stack in self([(word,) for word in words])]
