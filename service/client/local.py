"""A model in this process, called as a service is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from service.client.vectors import DEFAULT, Sentence, Text, Token
from service.encoding.choice import Choice, Dtype, Part, Unlisted
from service.encoding.encoder import Batch, Encoded
from service.encoding.limits import Limits
from service.encoding.pooling import POOLED, Pooling, sentence_vectors
from service.encoding.stages import Stages
from service.settings import Settings
from service.store.model import Model
from service.store.registry import Registry
from service.text.case import Case

_MOST = 1 << 62
UNLIMITED = Limits(_MOST, _MOST, _MOST, _MOST, _MOST)
"""Who calls in his own process pays for himself."""


class LocalModel:
    """A model that is mapped into this process; threads may share it."""

    def __init__(self, model: Model, limits: Limits = UNLIMITED) -> None:
        self.model, self._limits = model, limits

    @classmethod
    def of(cls, name: str | None = None, models_dir: Path | None = None) -> "LocalModel":
        """Map a model of this machine; `POLYSEME_…` variables say what is not given."""
        settings = Settings() if models_dir is None else Settings(models_dir=models_dir)
        registry = Registry.of(settings.models_dir, settings.model, verify=settings.verify_models)
        return cls(registry.model(name))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.manifest.name

    @property
    def dimension(self) -> int:
        """d, the width of a vector."""
        return self.model.manifest.dimension

    def encode(
        self,
        texts: Sequence[Text],
        *,
        include: Sequence[Part] = DEFAULT,
        layers: Literal["all", "last"] | Sequence[int] = "all",
        heads: Literal["all", "mean"] = "all",
        oov: Unlisted | None = None,
        case: Case = "auto",
        truncate: bool = False,
        dtype: Dtype = "float32",
    ) -> list[Sentence]:
        """Static vectors, contextual vectors and attention of sentences, in their order.

        The fields are those of /v1/encode (docs/api.md). Raises PolysemeError.
        """
        choice = Choice(
            frozenset(include), layers, heads == "mean", oov, case, truncate=truncate, dtype=dtype
        )
        return [_sentence(one) for one in self._batch(texts, choice)]

    def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling = "informativeness",
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """One vector of length 1 of each sentence, zero where no word is known. -> [S, d]

        Raises PolysemeError.
        """
        vectors = list(sentence_vectors(self._batch(texts, POOLED), pooling, dimensions))
        width = dimensions or self.dimension
        return np.array(vectors, np.float32).reshape(len(vectors), width)

    def _batch(self, texts: Sequence[Text], choice: Choice) -> Batch:
        if isinstance(texts, str):
            raise TypeError("Give a list of texts, or of lists of words.")
        return Batch(self.model, texts, choice, self._limits, Stages())


def _sentence(one: Encoded) -> Sentence:
    tokens = [Token(t.text, t.start, t.end, t.key, t.resolution) for t in one.tokens]
    return Sentence(tokens, truncated=one.truncated, **one.arrays)
