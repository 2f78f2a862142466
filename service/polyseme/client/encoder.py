"""The interface of `LocalModel` and `Client`, and the checks of its arguments."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.results import Comparison, ModelFacts, Senses, Sentence, Trace
from polyseme.encoding.compare import Occurrence
from polyseme.encoding.neighbors import Neighbor
from polyseme.encoding.options import MAX_SHARE, Dtype, EncodeOptions, OovPolicy, Part
from polyseme.encoding.sentences import Pooling
from polyseme.errors import FieldError, InvalidError
from polyseme.senses.induction import Matching
from polyseme.tokenizer import Case

Text: TypeAlias = str | Sequence[str]
"""A sentence, or a list of its words."""
_Heads: TypeAlias = Literal["all", "mean"]
_NamedLayers: TypeAlias = Literal["all", "last"]


class Options(TypedDict, total=False):
    """The options of `encode`: the fields of /v1/encode (docs/api.md)."""

    include: Sequence[Part]
    """arrays to return; `static`, `contextual` and `attention` by default"""
    layers: _NamedLayers | Sequence[int]
    """layers whose attention, queries, … are returned; all by default"""
    heads: _Heads
    """whether to return attention and scores of all heads or their mean"""
    oov: OovPolicy | None
    """what to do with words that are not in the vocabulary"""
    case: Case
    phrases: bool
    """whether consecutive words become one token if the vocabulary has their phrase"""
    truncate: bool
    """truncate a sentence over the limit instead of rejecting it"""
    dtype: Dtype
    share: float | None
    """share of the static vector in `contextual`, 0 to 4; by default that of the model"""


class Encoder(Protocol):
    """The interface of `polyseme.load(NAME)` and `polyseme.Client(url)`."""

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    @property
    def dimension(self) -> int:
        """The width d of a vector."""
        ...

    def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Return static vectors, contextual vectors and attention of each sentence, in order.

        Raises PolysemeError; `Client` also raises ClientError if the service does not respond.
        """
        ...

    def encode_each(self, texts: Iterable[Text], **options: Unpack[Options]) -> Iterator[Sentence]:
        """Yield the results of `encode` for any number of texts, reading a few at a time."""
        ...

    def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """Return one unit vector per sentence, zero if no word is known. -> [S, d]

        `pooling` defaults to POLYSEME_POOLING. Raises the same exceptions as `encode`.
        """
        ...

    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
        phrases: bool = False,
        share: float | None = None,
    ) -> Comparison:
        """Compare occurrences of words: `[(text, word), …]`.

        `phrases` and `share` have the same meaning as in `encode`; `share` also applies to the
        contextual neighbors.
        Raises the same exceptions as `encode`.
        """
        ...

    def senses(
        self,
        word: str,
        texts: Sequence[str],
        *,
        forms: Sequence[str] = (),
        case: Matching = "any",
        phrases: bool = False,
        senses: int | None = None,
        keywords: int = 8,
        neighbors: int = 5,
        examples: int = 3,
    ) -> Senses:
        """Return at most `senses` senses of a word in texts; None estimates their number.

        The occurrences are the tokens that equal `word` or one of `forms`; upper and lower case
        are distinguished only if `case` is `exact`.
        Raises the same exceptions as `encode`, and InvalidError if the word does not occur.
        """
        ...

    def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbor]:
        """Return the k words nearest to a word or a vector [d].

        Raises the same exceptions as `encode`.
        """
        ...

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Return each step of a layer, in float64. Raises the same exceptions as `encode`."""
        ...

    def models(self) -> list[ModelFacts]:
        """Return the models of this encoder. Raises the same exceptions as `encode`."""
        ...


_Texts = TypeVar("_Texts")


def require_list(texts: _Texts) -> _Texts:
    """Return the texts; raise TypeError for a string, which would pass as a list of characters."""
    if isinstance(texts, str):
        raise TypeError("Give a list of texts, or a list of lists of words.")
    return texts


def parse_options(options: Options) -> EncodeOptions:
    """Return the options of `encode` as EncodeOptions. Raises TypeError or InvalidError."""
    for name in options.keys() - Options.__annotations__.keys():
        raise TypeError(f"Unknown option `{name}`.")
    include = options.get("include", ("static", "contextual", "attention"))
    layers = options.get("layers", "all")
    _require_allowed("include", include, Part)
    for name, kind in (("heads", _Heads), ("oov", OovPolicy), ("case", Case), ("dtype", Dtype)):
        value: Any = options.get(name)
        _require_allowed(name, [] if value is None else [value], kind)
    if isinstance(layers, str):
        _require_allowed("layers", [layers], _NamedLayers)
    return EncodeOptions(
        frozenset(include),
        layers,
        options.get("heads") == "mean",
        options.get("oov"),
        options.get("case", "auto"),
        phrases=options.get("phrases", False),
        truncate=options.get("truncate", False),
        dtype=options.get("dtype", "float32"),
        share=parse_share(options.get("share")),
    )


def _require_allowed(name: str, values: Iterable[Any], kind: Any) -> None:
    allowed = get_args(kind)
    if any(value not in allowed for value in values):
        raise InvalidError([FieldError(f"/{name}", f"must be one of {', '.join(allowed)}")])


def parse_share(share: Any) -> float | None:
    """Return a share as a float. Raises InvalidError unless it is a number from 0 to 4."""
    if share is None:
        return None
    is_number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
    if not is_number or not 0 <= share <= MAX_SHARE:
        raise InvalidError([FieldError("/share", f"must be a number from 0 to {MAX_SHARE:g}")])
    return float(share)


def parse_occurrences(given: Sequence[Occurrence | tuple[str, str]]) -> list[Occurrence]:
    """Convert (text, word) pairs to occurrences and check all. Raises InvalidError."""
    occurrences = [one if isinstance(one, Occurrence) else Occurrence(*one) for one in given]
    if len(occurrences) < 2:  # noqa: PLR2004 - a comparison takes two
        raise InvalidError([FieldError("/occurrences", "must have at least 2 items")])
    for number, one in enumerate(occurrences):
        message = None
        if (one.start is None) != (one.end is None) or (one.word is None) == (one.start is None):
            message = "give either `word` or both `start` and `end`"
        elif one.nth < 0 or one.word == "":
            message = "`word` must not be empty, and `nth` must be 0 or more"
        elif one.start is not None and not 0 <= one.start < (one.end or 0) <= len(one.text):
            message = "`start` and `end` must be a span of the text that is not empty"
        if message:
            raise InvalidError([FieldError(f"/occurrences/{number}", message)])
    return occurrences


def vector_to_list(vector: ArrayLike) -> list[float]:
    """Convert a vector [d] to a list. Raises InvalidError unless all d values are finite."""
    try:
        row = np.asarray(vector, np.float64)
    except (TypeError, ValueError):
        row = np.zeros(())
    if row.ndim != 1 or not np.isfinite(row).all():
        raise InvalidError([FieldError("/vector", "must be a row of finite numbers")])
    numbers: list[float] = row.tolist()
    return numbers
