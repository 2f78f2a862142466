"""The interface of `LocalModel` and `Client`, and the requests that its methods make."""

import inspect
import textwrap
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.errors import NoSuchTokenError
from polyseme.client.results import VECTOR_KINDS, Array, ModelFacts, Sentence, VectorKind
from polyseme.errors import FieldError, InvalidError
from polyseme.operations.compare import CompareRequest, Comparison, Occurrence
from polyseme.operations.embed import EmbeddingsRequest, Pooling
from polyseme.operations.neighbors import NeighborsRequest
from polyseme.operations.options import Dtype, EncodeOptions, OovPolicy, Part
from polyseme.operations.schema import Neighbor, Request, Result
from polyseme.operations.trace import Trace, TraceRequest
from polyseme.senses.find import Senses, SensesRequest, require_inventory
from polyseme.senses.inventory import (
    AppliedSenses,
    ApplySensesRequest,
    Matching,
    SenseInventory,
)
from polyseme.tokenizer import Case
from polyseme.validation import did_you_mean, one_of

Text: TypeAlias = str | Sequence[str]
"""A sentence, or a list of its words."""


# The keyword arguments of several methods, with texts for `help`. Their defaults are those of the
# fields of the requests.


class SharedArguments(TypedDict, total=False):
    """The options of `encode`, `compare`, `senses` and `vector`."""

    phrases: Annotated[
        bool, "Whether consecutive words become one token if the vocabulary has their phrase."
    ]


class EncodeArguments(SharedArguments, total=False):
    """The options of `encode` and `encode_each`."""

    include: Annotated[
        Sequence[Part],
        'The arrays to return: a list of "static", "contextual", "features", "attention",'
        ' "contributions", "queries", "keys", "values" and "scores".',
    ]
    layers: Annotated[
        Literal["all", "last"] | Sequence[int],
        "The layers whose attention, contributions, queries, keys, values and scores are returned:"
        ' "all", "last" or a list of layer numbers, counted from 0.',
    ]
    heads: Annotated[
        Literal["all", "mean"], 'Attention and scores of "all" heads, or their "mean".'
    ]
    oov: Annotated[
        OovPolicy | None,
        'The vector of a word that is not in the vocabulary: "zero", "subword" (composed of its'
        ' subwords) or "error" (raise UnknownWordError). None: "subword" if the model has subword'
        ' vectors, else "zero".',
    ]
    case: Annotated[
        Case,
        'How words are looked up: "auto", as written or else in another letter case; "exact", as'
        ' written; "lower", in lower case.',
    ]
    truncate: Annotated[
        bool, "Whether a sentence over `max_sentence_tokens` is truncated instead of rejected."
    ]
    dtype: Annotated[Dtype, 'The type of the arrays: "float32" or "float16".']
    share: Annotated[
        float | None,
        "The share of the static vector in `contextual`, 0 to 4. None: that of the model.",
    ]


class CompareArguments(SharedArguments, total=False):
    """The options of `compare`."""

    neighbors: Annotated[int, "The number of neighbors of each vector."]
    case: Annotated[Case, "How words are looked up, as in `encode`."]
    share: Annotated[
        float | None,
        "The share of the static vector in contextual vectors and in the search for contextual"
        " neighbors. None: the defaults.",
    ]


class SensesArguments(SharedArguments, total=False):
    """The options of `senses`."""

    forms: Annotated[Sequence[str], "Other forms of the word, such as its plural."]
    case: Annotated[
        Matching, 'Whether occurrences are found in "any" letter case or in the "exact" one.'
    ]
    senses: Annotated[int | None, "The maximum number of senses. None estimates their number."]
    keywords: Annotated[int, "The number of keywords of each sense."]
    neighbors: Annotated[int, "The number of neighbors of each sense."]
    examples: Annotated[int, "The number of examples of each sense."]


_Function = TypeVar("_Function", bound=Callable[..., Any])


def describe_options(
    options: type, defaults: Mapping[str, object]
) -> Callable[[_Function], _Function]:
    """Show the keywords of a TypedDict in the signature and the docstring of a method.

    `help` and completion would show `**options` only; type checkers read the TypedDict itself.
    """

    def described(method: _Function) -> _Function:
        signature = inspect.signature(method)
        *parameters, _ = signature.parameters.values()
        lines = [inspect.cleandoc(method.__doc__ or ""), "", "Options:"]
        for name, annotation in options.__annotations__.items():
            kind, default = inspect.Parameter.KEYWORD_ONLY, defaults[name]
            parameters.append(
                inspect.Parameter(name, kind, default=default, annotation=annotation.__origin__)
            )
            meaning = textwrap.fill(f"{name}: {annotation.__metadata__[0]}", 92)
            lines.append(textwrap.indent(meaning.replace("\n", "\n    "), "    "))
        method.__doc__ = "\n".join(lines)
        shown = signature.replace(parameters=parameters)
        method.__signature__ = shown  # type: ignore[attr-defined]
        return method

    return described


def as_blocking(blocking: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Show the signature and the docstring of a method of `Encoder` for an asynchronous one."""

    def described(method: _Function) -> _Function:
        method.__doc__ = blocking.__doc__
        method.__signature__ = inspect.signature(blocking)  # type: ignore[attr-defined]
        return method

    return described


def defaults_of(request: type[Request[Any]]) -> dict[str, Any]:
    """Return the defaults of the fields of a request."""
    return {name: field.default for name, field in request.model_fields.items()}


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

    @describe_options(EncodeArguments, defaults_of(EncodeOptions))
    def encode(self, texts: Sequence[Text], **options: Unpack[EncodeArguments]) -> list[Sentence]:
        """Return static and contextual vectors [n, d] and attention [L, h, n, n] of each sentence.

        Raises PolysemeError; `Client` also raises ClientError if the service does not respond or a
        response is malformed.
        """
        return self._encode(require_list(texts), encode_options(options))

    @describe_options(EncodeArguments, defaults_of(EncodeOptions))
    def encode_each(
        self, texts: Iterable[Text], **options: Unpack[EncodeArguments]
    ) -> Iterator[Sentence]:
        """Yield the results of `encode` for any number of texts, reading a few at a time."""
        return self._encode_each(require_list(texts), encode_options(options))

    @describe_options(SharedArguments, defaults_of(EncodeOptions))
    def vector(
        self,
        text: Text,
        word: str,
        *,
        nth: int = 0,
        kind: VectorKind = "contextual",
        **options: Unpack[SharedArguments],
    ) -> Array:
        """Return the vector of a word in a text. -> [d], or [2d] for features

        `nth` selects an occurrence, counted from 0. With `phrases`, the word may be a phrase of the
        vocabulary. Raises NoSuchTokenError, a KeyError, if there is no such occurrence, and the
        same exceptions as `encode`.
        """
        (sentence,) = self._encode([text], vector_options(kind, options))
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
        vectors = list(self._embed(require_list(texts), embeddings_request(pooling, dimensions)))
        return np.concatenate(vectors or [np.zeros((0, dimensions or self.dimension), np.float32)])

    @describe_options(CompareArguments, defaults_of(CompareRequest))
    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[str, str]],
        **options: Unpack[CompareArguments],
    ) -> Comparison:
        """Compare m occurrences of words, `[(text, word), …]`; similarities are [m, m].

        Raises the same exceptions as `encode`.
        """
        return self._call(compare_request(occurrences, options))

    @describe_options(SensesArguments, {**defaults_of(SensesRequest), "senses": None})
    def senses(self, word: str, texts: Sequence[str], **options: Unpack[SensesArguments]) -> Senses:
        """Return the senses of a word in texts; `save` of the result keeps them for `apply`.

        The occurrences are the tokens that equal `word` or one of `forms`. Raises the same
        exceptions as `encode`, and InvalidError if the word does not occur.
        """
        return self._call(senses_request(word, texts, options))

    def apply(self, inventory: Senses | SenseInventory, texts: Sequence[str]) -> AppliedSenses:
        """Return the sense of each occurrence of an inventory's word in texts.

        `inventory` is a result of `senses`, or of `polyseme.load_senses`. Raises the same
        exceptions as `encode`, and InvalidError if another model found the senses.
        """
        return self._call(apply_request(inventory, texts))

    def neighbors(
        self,
        near: str | ArrayLike | None = None,
        k: int = 10,
        *,
        positive: Sequence[str | ArrayLike] = (),
        negative: Sequence[str | ArrayLike] = (),
        case: Case = "auto",
    ) -> list[Neighbor]:
        """Return the k words nearest to a word or a vector [d], or to a sum.

        The sum has the unit vectors of the words or vectors in `positive`, less those in
        `negative`. Words of the query are no neighbors. Raises the same exceptions as `encode`.
        """
        return self._call(neighbors_request(near, k, positive, negative, case)).neighbors

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Return each step of a layer, in float64. Raises the same exceptions as `encode`."""
        return self._call(request_of(TraceRequest, text=text, layer=layer, case=case))

    def models(self) -> list[ModelFacts]:
        """Return the models of this encoder. Raises the same exceptions as `encode`."""
        ...


_Iterable = TypeVar("_Iterable")


def require_list(values: _Iterable, items: str = "texts, or a list of lists of words") -> _Iterable:
    """Return an iterable of texts or other items unchanged; `items` is for the message.

    Raises TypeError for a value that is not iterable, for a string, which would pass as a list of
    characters, and for a table or a mapping, which would pass as a list of its column names or
    keys.
    """
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        raise TypeError("Give one column of texts, not a table or a mapping.")
    if isinstance(values, str) or not isinstance(values, Iterable | AsyncIterable):
        raise TypeError(f"Give a list of {items}.")
    return values


def require_text(text: Any, number: int) -> Text:
    """Return a text as a string or a list of words.

    Raises TypeError for anything else, InvalidError for unpaired surrogates.
    """
    is_list = isinstance(text, Iterable) and not isinstance(text, str | bytes)
    words: list[Any] = list(text) if is_list else [text]
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"Text {number} is neither a string nor a list of words.")
    plain("".join(words), "input", number)
    return words if is_list else words[0]


def require_known(options: Mapping[str, object], names: type) -> dict[str, Any]:
    """Return options. Raises TypeError for one that the TypedDict `names` does not have."""
    for name in options.keys() - names.__annotations__.keys():
        question = did_you_mean(name, names.__annotations__)
        raise TypeError(f"Unknown option `{name}`{question or '.'}")
    return dict(options)


_Request = TypeVar("_Request", bound=Request[Any])


def request_of(kind: type[_Request], **fields: object) -> _Request:
    """Return a request with these fields. Raises InvalidError if one is invalid."""
    return kind.of(**{name: plain(value, name) for name, value in fields.items()})


def plain(value: Any, *path: str | int) -> Any:
    """Return a value without types of NumPy and with lists, as strict requests take them.

    Raises InvalidError for a string with an unpaired surrogate, which UTF-8 cannot encode.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            error = FieldError(path, "is not valid Unicode")
            raise InvalidError([error], "Remove unpaired surrogates.") from None
    elif isinstance(value, Mapping):
        return {name: plain(item, *path, name) for name, item in value.items()}
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item, *path, number) for number, item in enumerate(value)]
    return value


def encode_options(options: EncodeArguments) -> EncodeOptions:
    """Return the options of `encode`. Raises TypeError or InvalidError."""
    return request_of(EncodeOptions, **require_known(options, EncodeArguments))


def vector_options(kind: VectorKind, options: SharedArguments) -> EncodeOptions:
    """Return the options of `encode` for one kind of vector. Raises TypeError or InvalidError."""
    if not isinstance(kind, str) or kind not in VECTOR_KINDS:
        raise InvalidError([FieldError(("kind",), one_of(VECTOR_KINDS))])
    return request_of(EncodeOptions, include=[kind], **require_known(options, SharedArguments))


def find_vector(sentence: Sentence, word: str, nth: int, kind: VectorKind) -> Array:
    """Return the vector of an occurrence of a word. Raises NoSuchTokenError if there is none."""
    if isinstance(word, str) and word not in sentence:
        raise NoSuchTokenError(
            "The text has no token with this word: `encode([text])[0].words` lists its tokens."
        )
    return sentence.find(word, nth).arrays[kind]


def embeddings_request(pooling: Pooling | None, dimensions: int | None) -> EmbeddingsRequest:
    """Return a request without texts for sentence vectors. Raises InvalidError."""
    return request_of(
        EmbeddingsRequest, input="", wordless="zero", pooling=pooling, dimensions=dimensions
    )


def neighbors_request(
    near: str | ArrayLike | None,
    k: int,
    positive: Sequence[str | ArrayLike],
    negative: Sequence[str | ArrayLike],
    case: Case,
) -> NeighborsRequest:
    """Return the request for the neighbors of a word, a vector [d] or a sum.

    Raises TypeError for a string instead of a list, InvalidError for an invalid value.
    """
    options: dict[str, Any] = {"k": k, "case": case}
    for name, terms in (("positive", positive), ("negative", negative)):
        if listed := list(require_list(terms, "words or vectors")):
            options[name] = listed
    if near is None or isinstance(near, str):
        return request_of(NeighborsRequest, word=near, **options)
    try:
        row = np.asarray(near, np.float64)
    except (TypeError, ValueError):
        row = np.zeros(())
    if row.ndim != 1 or not np.isfinite(row).all():
        raise InvalidError([FieldError(("vector",), "must be a row of finite numbers")])
    return request_of(NeighborsRequest, vector=row, **options)


def compare_request(
    occurrences: Sequence[Occurrence | tuple[str, str]], options: CompareArguments
) -> CompareRequest:
    """Return the request for a comparison of (text, word) and (text, word, nth) tuples.

    Raises TypeError for what is no occurrence or an unknown option, InvalidError for an invalid
    value.
    """
    fields = []
    for number, values in enumerate(require_list(occurrences, "pairs of a text and a word")):
        occurrence: Any = values
        if isinstance(values, tuple | list) and len(values) in {2, 3}:
            occurrence = Occurrence(*values)
        if not isinstance(occurrence, Occurrence):
            raise TypeError(
                f"Occurrence {number} is neither (text, word) nor (text, word, nth) nor an"
                " Occurrence."
            )
        given = vars(occurrence).items()
        present = {name: value for name, value in given if value is not None or name == "nth"}
        if occurrence.word is None:
            del present["nth"]
        fields.append(present)
    known = require_known(options, CompareArguments)
    return request_of(CompareRequest, occurrences=fields, **known)


def senses_request(word: str, texts: Sequence[str], options: SensesArguments) -> SensesRequest:
    """Return the request for the senses of a word in texts. Raises TypeError or InvalidError."""
    fields = require_known(options, SensesArguments)
    if fields.get("senses") is None:
        fields["senses"] = "auto"
    texts = require_list(texts, "texts")
    return request_of(SensesRequest, word=word, texts=texts, inventory=True, **fields)


def apply_request(inventory: Senses | SenseInventory, texts: Sequence[str]) -> ApplySensesRequest:
    """Return the request that applies an inventory. Raises TypeError or InvalidError."""
    if not isinstance(inventory, Senses | SenseInventory):
        raise TypeError("Give a result of `senses`, or an inventory of `polyseme.load_senses`.")
    texts = plain(require_list(texts, "texts"), "texts")
    return ApplySensesRequest.of(inventory=require_inventory(inventory), texts=texts)
