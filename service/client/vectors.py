"""What an encoder gives: sentences with their tokens and arrays, whoever computed them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.encoding.choice import Dtype, Part, Unlisted
from service.encoding.pooling import Pooling
from service.text.case import Case, Resolution

Array: TypeAlias = NDArray[np.floating]
Text: TypeAlias = str | Sequence[str]
"""A sentence, or the words of one."""
DEFAULT: tuple[Part, ...] = ("static", "contextual", "attention")


@dataclass(frozen=True)
class Token:
    """A token and the vocabulary entry that stands for it."""

    text: str
    start: int | None
    """in code points; None for words that came already cut"""
    end: int | None
    key: str | None
    """the vocabulary entry; None where there is none"""
    resolution: Resolution


@dataclass(frozen=True)
class Sentence:
    """The answer for one sentence; an array is None where it was not asked for."""

    tokens: list[Token]
    static: Array | None = None
    """[n, d]"""
    contextual: Array | None = None
    """[n, d]"""
    attention: Array | None = None
    """[L, h, n, n], [L, n, n] as a mean of the heads; row = the token that looks"""
    queries: Array | None = None
    """[L, h, n, k]"""
    keys: Array | None = None
    """[L, h, n, k]"""
    values: Array | None = None
    """[L, h, n, v]"""
    scores: Array | None = None
    """as attention, before scaling, biases and softmax"""
    truncated: int = 0
    """how many words were cut off"""

    @property
    def words(self) -> list[str]:
        """The tokens as they are written."""
        return [token.text for token in self.tokens]


class Encoder(Protocol):
    """What `service.load(NAME)` and `service.client.Client(url)` both are."""

    @property
    def dimension(self) -> int:
        """d, the width of a vector."""
        ...

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
        ...

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
        ...
