"""Sentences as a model reads them: their static vectors, and what tells a system the rest."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polyseme.engine.arrays import Floats
from polyseme.engine.attention import Sentence
from polyseme.evaluation.occurrences import Words
from polyseme.models.model import Model
from polyseme.tokenizer import Token, resolve_all


@dataclass(frozen=True)
class Reading:
    """One sentence."""

    sentence: Sentence
    tokens: Sequence[Token] = ()
    """none where a service read it"""
    contextual: Floats | None = None
    """[n, d], where a service made them already"""


Source: TypeAlias = Callable[[Sequence[Words]], Iterator[Reading]]
"""What reads sentences, in their order."""


class LocalSource:
    """Reads with a model that is in memory, as the service does with its defaults."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __call__(self, sentences: Sequence[Words]) -> Iterator[Reading]:
        """Read sentences one by one."""
        for words in sentences:
            tokens = self._resolved(words)
            yield Reading(self._model.sentence(tokens), tokens)

    def knows(self, words: Iterable[str]) -> list[bool]:
        """Whether words have a vector, from the vocabulary or composed."""
        return [t.row is not None or t.composed is not None for t in self._resolved(words)]

    def _resolved(self, words: Iterable[str]) -> list[Token]:
        return resolve_all(words, self._model.vocabulary, composes=self._model.composes)
