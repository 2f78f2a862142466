"""Sources of static vectors: a model in memory, or a running service."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from polyseme.client.errors import ClientError
from polyseme.engine.arrays import Floats
from polyseme.engine.attention import SentenceArrays
from polyseme.errors import CommandError, PolysemeError, TooLargeError, UnauthorisedError
from polyseme.models.model import Model
from polyseme.operations.encode import stacks
from polyseme.tokenizer import ResolvedToken, resolve_all
from polyseme_lab.evaluation.datasets import Words

_TIMEOUT, _RETRIES, _LONGEST_WAIT = 120.0, 5, 120.0
"""Timeout in seconds, number of retries, and maximum seconds between two attempts."""


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

    def __init__(self, url: str, model: str | None = None, key: str | None = None) -> None:
        with _command_errors():
            from polyseme.client.client import Client

            self._connect = partial(
                Client,
                url,
                key or "",
                timeout=_TIMEOUT,
                retries=_RETRIES,
                longest_wait=_LONGEST_WAIT,
            )
            with self._connect() as client:
                models = {served.name: served.default for served in client.models()}
            default = next((name for name, is_default in models.items() if is_default), "")
            self.model = model or default
            if self.model not in models:
                raise CommandError(
                    f"The service has no such model; it has {', '.join(sorted(models)) or 'none'}."
                )

    def __call__(self, sentences: Sequence[Words]) -> Iterator[StaticStack]:
        """Yield each sentence with its vectors, in order, requesting many at once."""
        with _command_errors(), self._connect(self.model) as client:
            encoded = client.encode_each(sentences, include=("static", "contextual"))
            for number, (words, sentence) in enumerate(zip(sentences, encoded, strict=True)):
                tokens = sentence.tokens
                if not len(words) == len(tokens) == len(sentence.static):
                    raise CommandError(
                        "The service at this address is not Polyseme, or another version of it;"
                        " check --url."
                    )
                # The systems that a service has need neither word IDs nor the word bias.
                known = np.array([token.resolution != "oov" for token in tokens], np.bool_)
                arrays = SentenceArrays(sentence.static, known, np.arange(len(tokens)))
                yield StaticStack([number], arrays[None], (), sentence.contextual[None])

    def knows(self, words: Iterable[str]) -> list[bool]:
        """Return whether words have a vector, from the vocabulary or composed of subwords."""
        return [bool(stack.inputs.known[0, 0]) for stack in self([(word,) for word in words])]


@contextmanager
def _command_errors() -> Iterator[None]:
    """Raise CommandError for errors of the client and of the service."""
    try:
        yield
    except TooLargeError as error:
        raise CommandError(
            f"The service rejects a sentence: {error.detail} Raise its limit."
        ) from None
    except PolysemeError as error:
        hint = "POLYSEME_API_KEY sets the key." if isinstance(error, UnauthorisedError) else None
        message = f"The service responds with {error.status}: {error.message(hint)}"
        raise CommandError(message) from None
    except (ClientError, ModuleNotFoundError, ValueError) as error:
        raise CommandError(str(error)) from None
