"""A model in this process, called as a service is."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.problems import shifted
from polyseme.client.results import (
    Comparison,
    ModelFacts,
    Neighbour,
    Token,
    Trace,
    comparison_of,
    given_occurrences,
    model_of,
    neighbours_of,
    trace_of,
)
from polyseme.client.threads import ONE_THREAD
from polyseme.client.vectors import Options, Sentence, Text, choice_of, row, several
from polyseme.encoding import documents
from polyseme.encoding.choice import Choice
from polyseme.encoding.compare import Occurrence, compare
from polyseme.encoding.encoder import Batch, Encoded
from polyseme.encoding.limits import Limits
from polyseme.encoding.neighbours import neighbours_of_vector, neighbours_of_word
from polyseme.encoding.pooling import POOLED, Pooling, sentence_vectors
from polyseme.encoding.stages import Stages
from polyseme.encoding.tracing import trace_text
from polyseme.errors import InvalidError
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.settings import Settings
from polyseme.tokenizer import Case

_MOST = 1 << 62
UNLIMITED = Limits(_MOST, _MOST, _MOST, _MOST, _MOST, _MOST)
"""Who calls in his own process pays for himself."""
_TOGETHER = 64
"""Texts that `encode_each` reads at a time."""


class LocalModel:
    """A model that is mapped into this process; threads may share it."""

    def __init__(
        self,
        model: Model,
        limits: Limits = UNLIMITED,
        pooling: Pooling = "informativeness",
    ) -> None:
        self.model, self._limits, self._pooling = model, limits, pooling

    @classmethod
    def of(cls, name: str | None = None, models_dir: Path | None = None) -> "LocalModel":
        """Map a model of this machine; `POLYSEME_…` variables say what is not given."""
        settings = Settings() if models_dir is None else Settings(models_dir=models_dir)
        registry = Registry.of(settings.models_dir, settings.model, verify=settings.verify_models)
        return cls(registry.model(name), pooling=settings.pooling)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.manifest.name

    @property
    def dimension(self) -> int:
        """d, the width of a vector."""
        return self.model.manifest.dimension

    def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Static vectors, contextual vectors and attention of sentences, in their order.

        The options are the fields of /v1/encode (docs/api.md). Raises PolysemeError.
        """
        # The whole answer is held, so that its tokens may be, rather than cut a second time.
        limits = replace(self._limits, stream_bytes=_MOST)
        batch = Batch(self.model, several(texts), choice_of(options), limits, Stages())
        with ONE_THREAD:
            return [_sentence(one) for one in batch]

    def encode_each(self, texts: Iterable[Text], **options: Unpack[Options]) -> Iterator[Sentence]:
        """Yield what `encode` gives, of any number of texts, which are read a few at a time."""
        choice = choice_of(options)
        return self._each(iter(several(texts)), choice)

    def _each(self, texts: Iterator[Text], choice: Choice) -> Iterator[Sentence]:
        first = 0
        while some := list(islice(texts, _TOGETHER)):
            try:
                batch = self._batch(some, choice)
            except InvalidError as error:
                raise shifted(error, first) from None
            answers = iter(batch)
            for _ in some:
                # What the caller does with one is done with the threads that he has.
                with ONE_THREAD:
                    one = next(answers)
                yield _sentence(one)
            first += len(some)

    def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """One vector of length 1 of each sentence, zero where no word is known. -> [S, d]

        Pooled as the settings say, unless `pooling` does. Raises PolysemeError.
        """
        batch = self._batch(texts, POOLED)
        with ONE_THREAD:
            vectors = list(sentence_vectors(batch, pooling or self._pooling, dimensions))
        width = dimensions or self.dimension
        return np.array(vectors, np.float32).reshape(len(vectors), width)

    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
    ) -> Comparison:
        """Occurrences of words side by side: `[(text, word), …]`. Raises PolysemeError."""
        given = given_occurrences(occurrences)
        with ONE_THREAD:
            found = compare(self.model, given, neighbors, case, self._limits, Stages())
        return comparison_of(documents.compare_document(self.model.manifest, found))

    def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbour]:
        """The k words nearest to a word, or to a vector [d]. Raises PolysemeError."""
        with ONE_THREAD:
            if isinstance(near, str):
                found = neighbours_of_word(self.model, near, k, case)
            else:
                found = neighbours_of_vector(self.model, row(near), k)
        return neighbours_of(documents.neighbour_documents(found))

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Every step of one layer, in float64. Raises PolysemeError."""
        with ONE_THREAD:
            tokens, steps = trace_text(self.model, text, layer, case, self._limits)
        return trace_of(documents.trace_document(tokens, steps))

    def models(self) -> list[ModelFacts]:
        """The one model that can be asked here."""
        facts = documents.model_document(self.model.manifest)
        return [model_of({"id": self.name, "default": True, **facts})]

    def _batch(self, texts: Sequence[Text], choice: Choice) -> Batch:
        return Batch(self.model, several(texts), choice, self._limits, Stages())


def _sentence(one: Encoded) -> Sentence:
    tokens = [Token(t.text, t.start, t.end, t.key, t.resolution) for t in one.tokens]
    return Sentence(tokens, truncated=one.truncated, **one.arrays)
