"""What an encoder gives: sentences with their tokens and arrays, whoever computed them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.results import Comparison, ModelFacts, Neighbour, Token, Trace
from polyseme.encoding.choice import Choice, Dtype, Part, Unlisted
from polyseme.encoding.compare import Occurrence
from polyseme.encoding.pooling import Pooling
from polyseme.errors import FieldError, InvalidError
from polyseme.tokenizer import Case

Array: TypeAlias = NDArray[np.floating]
Text: TypeAlias = str | Sequence[str]
"""A sentence, or the words of one."""
DEFAULT: tuple[Part, ...] = ("static", "contextual", "attention")


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


class Options(TypedDict, total=False):
    """What `encode` may be asked for: the fields of /v1/encode (docs/api.md)."""

    include: Sequence[Part]
    """which arrays; `static`, `contextual` and `attention` if nothing is said"""
    layers: Literal["all", "last"] | Sequence[int]
    """what attention, queries, … are given for; all if nothing is said"""
    heads: Literal["all", "mean"]
    """attention and scores of each head, or their mean"""
    oov: Unlisted | None
    """what becomes of a word that the vocabulary lacks"""
    case: Case
    truncate: bool
    """cut a sentence that is over the limit instead of refusing it"""
    dtype: Dtype


class Encoder(Protocol):
    """What `polyseme.load(NAME)` and `polyseme.client.Client(url)` both are."""

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    @property
    def dimension(self) -> int:
        """d, the width of a vector."""
        ...

    def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Static vectors, contextual vectors and attention of sentences, in their order.

        Raises PolysemeError, and ClientError where a service cannot be asked.
        """
        ...

    def encode_each(self, texts: Iterable[Text], **options: Unpack[Options]) -> Iterator[Sentence]:
        """Yield what `encode` gives, of any number of texts, a few at a time."""
        ...

    def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """One vector of length 1 of each sentence, zero where no word is known. -> [S, d]

        Pooled as the settings say, unless `pooling` does. Raises as `encode` does.
        """
        ...

    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
    ) -> Comparison:
        """Occurrences of words side by side: `[(text, word), …]`. Raises as `encode` does."""
        ...

    def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbour]:
        """The k words nearest to a word, or to a vector [d]. Raises as `encode` does."""
        ...

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Every step of one layer, in float64. Raises as `encode` does."""
        ...

    def models(self) -> list[ModelFacts]:
        """The models that can be asked here. Raises as `encode` does."""
        ...


_Texts = TypeVar("_Texts")


def several(texts: _Texts) -> _Texts:
    """Return what was given; raise TypeError for one text alone, which is a sequence of letters."""
    if isinstance(texts, str):
        raise TypeError("Give a list of texts, or of lists of words.")
    return texts


def row(vector: ArrayLike) -> list[float]:
    """A vector as a list; raise InvalidError for what is none. [d] ->"""
    try:
        row = np.asarray(vector, np.float64)
    except (TypeError, ValueError):
        row = np.zeros(())
    if row.ndim != 1 or not np.isfinite(row).all():
        raise InvalidError([FieldError("/vector", "has to be one row of finite numbers")])
    numbers: list[float] = row.tolist()
    return numbers


def choice_of(options: Options) -> Choice:
    """What is asked of each sentence; raise TypeError for a name, InvalidError for a value."""
    for name in options.keys() - Options.__annotations__.keys():
        raise TypeError(f"There is no option `{name}`.")
    include = options.get("include", DEFAULT)
    layers = options.get("layers", "all")
    _allow("include", include, Part)
    for name, kind in (("heads", _HEADS), ("oov", Unlisted), ("case", Case), ("dtype", Dtype)):
        value: Any = options.get(name)
        _allow(name, [] if value is None else [value], kind)
    if isinstance(layers, str):
        _allow("layers", [layers], _LAYERS)
    return Choice(
        frozenset(include),
        layers,
        options.get("heads") == "mean",
        options.get("oov"),
        options.get("case", "auto"),
        truncate=options.get("truncate", False),
        dtype=options.get("dtype", "float32"),
    )


_HEADS: TypeAlias = Literal["all", "mean"]
_LAYERS: TypeAlias = Literal["all", "last"]


def _allow(name: str, values: Iterable[Any], kind: Any) -> None:
    allowed = get_args(kind)
    if any(value not in allowed for value in values):
        raise InvalidError([FieldError(f"/{name}", f"may be {', '.join(allowed)}")])
