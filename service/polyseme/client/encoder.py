"""The interface of `LocalModel` and `Client`, and the checks of its arguments."""

import operator
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from numbers import Integral
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.errors import NoSuchTokenError
from polyseme.client.results import (
    Array,
    ModelFacts,
    Sentence,
    VectorKind,
)
from polyseme.errors import FieldError, FieldPath, InvalidError
from polyseme.operations.compare import CompareRequest, Comparison, Occurrence
from polyseme.operations.embed import EmbeddingsRequest, Pooling
from polyseme.operations.neighbors import Neighbor, NeighborsRequest
from polyseme.operations.options import (
    MAX_SENSES,
    Dtype,
    EncodeOptions,
    OovPolicy,
    Part,
)
from polyseme.operations.schema import Request, Result
from polyseme.operations.senses import Matching, Senses, SensesRequest
from polyseme.operations.trace import Trace, TraceRequest
from polyseme.tokenizer import Case
from polyseme.validation import did_you_mean, one_of

Text: TypeAlias = str | Sequence[str]
"""A sentence, or a list of its words."""
_Heads: TypeAlias = Literal["all", "mean"]
_NamedLayers: TypeAlias = Literal["all", "last"]


class Options(TypedDict, total=False):
    """The options of `encode` and `encode_each`.

    Options, which are the fields of /v1/encode (docs/api.md):
        include: The arrays to return: a list of "static", "contextual", "features", "attention",
            "queries", "keys", "values" and "scores". Default: static, contextual and attention.
        layers: The layers whose attention, queries, keys, values and scores are returned: "all"
            (default), "last" or a list of layer numbers, counted from 0.
        heads: Attention and scores of "all" heads (default) or their "mean".
        oov: The vector of a word that is not in the vocabulary: "zero", "subword" (composed of
            its subwords) or "error" (raise UnknownWordError). Default, None: "subword" if the
            model has subword vectors, else "zero".
        case: How words are looked up: "auto" (default), as written or else in another letter case;
            "exact", as written; "lower", in lower case.
        phrases: Whether consecutive words become one token if the vocabulary has their phrase.
            Default: False.
        truncate: Whether a sentence over the limit of a service is truncated instead of rejected.
            Default: False.
        dtype: The type of the arrays: "float32" (default) or "float16".
        share: The share of the static vector in `contextual`, 0 to 4. Default, None: that of the
            model.
    """

    include: Sequence[Part]
    layers: _NamedLayers | Sequence[int]
    heads: _Heads
    oov: OovPolicy | None
    case: Case
    phrases: bool
    truncate: bool
    dtype: Dtype
    share: float | None


_HAVE_DEFAULTS = ("heads", "oov", "case", "dtype", "share")
"""The options for which None is the default."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


def describe_options(options: type) -> Callable[[_Function], _Function]:
    """Add the list of options in the docstring of a TypedDict to the docstring of a method.

    `help` shows `**options` as the name of the TypedDict only.
    """

    def described(method: _Function) -> _Function:
        _, _, names = cleandoc(options.__doc__ or "").partition("\n\n")
        method.__doc__ = f"{cleandoc(method.__doc__ or '')}\n\n{names}"
        return method

    return described


class Encoder(Protocol):
    """The interface of `polyseme.load(NAME)` and `polyseme.Client(url)`.

    Its methods check their arguments. A subclass computes, or sends requests, in `_call`,
    `_encode_each` and `_embed`.
    """

    def _call(self, request: Request[Result]) -> Result:
        """Return the result of an operation."""
        ...

    def _encode_each(self, texts: Iterable[Text], options: EncodeOptions) -> Iterator[Sentence]:
        """Yield the results for any number of texts, reading a few at a time."""
        ...

    def _encode(self, texts: Iterable[Text], options: EncodeOptions) -> list[Sentence]:
        return list(self._encode_each(texts, options))

    def _embed(
        self, texts: Iterable[Text], request: EmbeddingsRequest
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the sentence vectors of some texts at a time; `request` has no texts."""
        ...

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    @property
    def dimension(self) -> int:
        """The width d of a vector."""
        ...

    @describe_options(Options)
    def encode(self, texts: Sequence[Text], **options: Unpack[Options]) -> list[Sentence]:
        """Return static and contextual vectors [n, d] and attention [L, h, n, n] of each sentence.

        Raises PolysemeError; `Client` also raises ClientError if the service does not respond or a
        response is malformed.
        """
        return self._encode(require_list(texts), encode_options(options))

    @describe_options(Options)
    def encode_each(self, texts: Iterable[Text], **options: Unpack[Options]) -> Iterator[Sentence]:
        """Yield the results of `encode` for any number of texts, reading a few at a time."""
        return self._encode_each(require_list(texts), encode_options(options))

    def vector(
        self,
        text: Text,
        word: str,
        *,
        nth: int = 0,
        kind: VectorKind = "contextual",
        phrases: bool = False,
    ) -> Array:
        """Return the vector of a word in a text. -> [d], or [2d] for features

        `nth` selects an occurrence, counted from 0. With `phrases`, the word may be a phrase of the
        vocabulary. Raises NoSuchTokenError, a KeyError, if there is no such occurrence, and the
        same exceptions as `encode`.
        """
        (sentence,) = self.encode([text], include=parse_kind(kind), phrases=phrases)
        return find_vector(sentence, word, nth, kind)

    def embed(
        self,
        texts: Sequence[Text],
        *,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """Return one unit vector per sentence, zero if no word is known. -> [S, d or `dimensions`]

        `pooling` defaults to POLYSEME_POOLING of the service or of this process. Raises the same
        exceptions as `encode`.
        """
        found = list(self._embed(require_list(texts), embeddings_request(pooling, dimensions)))
        return np.concatenate(found or [np.zeros((0, dimensions or self.dimension), np.float32)])

    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
        phrases: bool = False,
        share: float | None = None,
    ) -> Comparison:
        """Compare m occurrences of words, `[(text, word), …]`; similarities are [m, m].

        `phrases` and `share` have the same meaning as in `encode`; `share` also applies to the
        contextual neighbors.
        Raises the same exceptions as `encode`.
        """
        return self._call(compare_request(occurrences, neighbors, case, phrases, share))

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
        numbers = {"keywords": keywords, "neighbors": neighbors, "examples": examples}
        return self._call(senses_request(word, texts, forms, case, phrases, senses, numbers))

    def neighbors(
        self, near: str | ArrayLike, k: int = 10, *, case: Case = "auto"
    ) -> list[Neighbor]:
        """Return the k words nearest to a word or a vector [d].

        Raises the same exceptions as `encode`.
        """
        return self._call(neighbors_request(near, k, case)).neighbors

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Return each step of a layer, in float64. Raises the same exceptions as `encode`."""
        return self._call(trace_request(text, layer, case))

    def models(self) -> list[ModelFacts]:
        """Return the models of this encoder. Raises the same exceptions as `encode`."""
        ...


_Given = TypeVar("_Given")


def require_list(
    given: _Given, items: str = "texts, or a list of lists of words", name: str = ""
) -> _Given:
    """Return an iterable of texts or other items unchanged; `items` and `name` are for the message.

    Raises TypeError for a value that is not iterable, for a string, which would pass as a list of
    characters, and for a table or a mapping, which would pass as a list of its column names or
    keys.
    """
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        raise TypeError("Give one column of texts, not a table or a mapping.")
    if isinstance(given, str) or not isinstance(given, Iterable | AsyncIterable):
        raise TypeError(f"{f'`{name}`: give' if name else 'Give'} a list of {items}.")
    return given


def require_text(text: Any, number: int) -> Text:
    """Return a text as a string or a list of words.

    Raises TypeError for anything else, InvalidError for unpaired surrogates.
    """
    is_list = isinstance(text, Iterable) and not isinstance(text, str | bytes)
    words: list[Any] = list(text) if is_list else [text]
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"Text {number} is neither a string nor a list of words.")
    require_unicode(f"/input/{number}", *words)
    return words if is_list else words[0]


def require_unicode(pointer: str, *strings: str) -> None:
    """Raise InvalidError if a string has an unpaired surrogate, which UTF-8 cannot encode."""
    try:
        "".join(strings).encode()
    except UnicodeEncodeError:
        error = FieldError(path_of(pointer), "is not valid Unicode")
        raise InvalidError([error], "Remove unpaired surrogates.") from None


def encode_options(options: Options) -> EncodeOptions:
    """Return the options of `encode` as EncodeOptions. Raises TypeError or InvalidError."""
    for name in options.keys() - Options.__annotations__.keys():
        question = did_you_mean(name, Options.__annotations__)
        raise TypeError(f"Unknown option `{name}`{question or '.'}")
    fields = {name: plain(value) for name, value in options.items()}
    for name in _HAVE_DEFAULTS:
        if fields.get(name, "") is None:
            del fields[name]
    return EncodeOptions.of(**fields)


def require_choice(pointer: str, value: Any, kind: Any) -> None:
    """Raise InvalidError unless a value is one of the strings of a Literal type."""
    allowed = get_args(kind)
    if not isinstance(value, str) or value not in allowed:
        raise _invalid(pointer, one_of(allowed))


def parse_integer(pointer: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a value as an integer. Raises InvalidError unless it is one from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise _invalid(pointer, "must be an integer")
    if number < least:
        raise _invalid(pointer, f"must be at least {least}")
    if most is not None and number > most:
        raise _invalid(pointer, f"must be at most {most}")
    return number


def _invalid(pointer: str, message: str) -> InvalidError:
    return InvalidError([FieldError(path_of(pointer), message)])


def path_of(pointer: str) -> FieldPath:
    """Return the path of a JSON pointer."""
    return tuple(int(part) if part.isdecimal() else part for part in pointer.split("/")[1:])


def parse_kind(kind: VectorKind) -> tuple[VectorKind]:
    """Return a kind of vector as the value of `include`. Raises InvalidError for another kind."""
    require_choice("/kind", kind, VectorKind)
    return (kind,)


def find_vector(sentence: Sentence, word: str, nth: int, kind: VectorKind) -> Array:
    """Return the vector of an occurrence of a word. Raises NoSuchTokenError if there is none."""
    if isinstance(word, str) and word not in sentence:
        raise NoSuchTokenError(
            "The text has no token with this word: `encode([text])[0].words` lists its tokens."
        )
    return sentence.find(word, nth).arrays[kind]


def embeddings_request(pooling: Pooling | None, dimensions: int | None) -> EmbeddingsRequest:
    """Return a request without texts for sentence vectors. Raises InvalidError."""
    fields = {"pooling": pooling, "dimensions": plain(dimensions)}
    given = {name: value for name, value in fields.items() if value is not None}
    return EmbeddingsRequest.of(input="", wordless="zero", **given)


def neighbors_request(near: str | ArrayLike, k: int, case: Case) -> NeighborsRequest:
    """Return the request for the neighbors of a word or a vector [d]. Raises InvalidError."""
    if isinstance(near, str):
        return NeighborsRequest.of(word=near, k=plain(k), case=case)
    try:
        row = np.asarray(near, np.float64)
    except (TypeError, ValueError):
        row = np.zeros(())
    if row.ndim != 1 or not np.isfinite(row).all():
        raise _invalid("/vector", "must be a row of finite numbers")
    return NeighborsRequest.of(vector=row.tolist(), k=plain(k), case=case)


def trace_request(text: str, layer: int, case: Case) -> TraceRequest:
    """Return the request for the steps of a layer. Raises TypeError or InvalidError."""
    if not isinstance(text, str):
        raise TypeError("The text must be a string.")
    require_unicode("/text", text)
    return TraceRequest.of(text=text, layer=plain(layer), case=case)


def compare_request(
    occurrences: Sequence[Occurrence | tuple[str, str]],
    neighbors: int,
    case: Case,
    phrases: bool,
    share: float | None,
) -> CompareRequest:
    """Return the request for a comparison of (text, word) and (text, word, nth) tuples.

    Raises TypeError for what is no occurrence, InvalidError for an invalid one.
    """
    pairs = require_list(occurrences, "pairs of a text and a word")
    given = [_occurrence_fields(one, number) for number, one in enumerate(pairs)]
    fields = {"neighbors": plain(neighbors), "case": case}
    if phrases is not False:  # earlier services reject the field
        fields["phrases"] = plain(phrases)
    if share is not None:
        fields["share"] = plain(share)
    return CompareRequest.of(occurrences=given, **fields)


def _occurrence_fields(given: Any, number: int) -> dict[str, Any]:
    """Return the fields of an occurrence that have values."""
    one = Occurrence(*given) if isinstance(given, tuple | list) and len(given) in {2, 3} else given
    is_typed = (
        isinstance(one, Occurrence)
        and isinstance(one.text, str)
        and isinstance(one.word, str | None)
        and isinstance(one.nth, Integral)
        and not isinstance(one.nth, bool)
        and isinstance(one.start, Integral | None)
        and isinstance(one.end, Integral | None)
    )
    if not is_typed:
        raise TypeError(
            f"Occurrence {number} is neither (text, word) nor (text, word, nth) nor an Occurrence."
        )
    require_unicode(f"/occurrences/{number}", one.text, one.word or "")
    given_fields = {name: plain(value) for name, value in vars(one).items() if value is not None}
    if one.word is None:
        del given_fields["nth"]
    return given_fields


def senses_request(
    word: str,
    texts: Sequence[str],
    forms: Sequence[str],
    case: Matching,
    phrases: bool,
    senses: int | None,
    numbers: Mapping[str, int],
) -> SensesRequest:
    """Return the request for the senses of a word in texts; `numbers` are those of each sense.

    Raises TypeError unless the word is a string and the texts and forms are lists of strings,
    InvalidError for another invalid argument.
    """
    if not isinstance(word, str):
        raise TypeError("The word must be a string.")
    lists = {
        "texts": list(require_list(texts, "texts", "texts")),
        "forms": list(require_list(forms, "words", "forms")),
    }
    for name, strings in lists.items():
        for number, one in enumerate(strings):
            if not isinstance(one, str):
                raise TypeError(f"{name[:-1].capitalize()} {number} is not a string.")
            require_unicode(f"/{name}/{number}", one)
    require_unicode("/word", word)
    fields = {name: plain(value) for name, value in numbers.items()}
    if phrases is not False:  # earlier services reject the field
        fields["phrases"] = plain(phrases)
    if senses is not None:
        fields["senses"] = parse_integer("/senses", senses, 1, MAX_SENSES)
    return SensesRequest.of(word=word, **lists, case=case, **fields)


def plain(value: Any) -> Any:
    """Return a value without types of NumPy and with lists, as strict requests take them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return [plain(item) for item in value]
    return value
