"""The interface of `LocalModel`, `Client` and `AsyncClient`, which makes the requests."""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyseme.client.results import (
    VECTOR_KINDS,
    Array,
    ModelFacts,
    NoSuchTokenError,
    Sentence,
    VectorKind,
)
from polyseme.errors import FieldError, InvalidError, one_of
from polyseme.operations.compare import CompareRequest, Comparison, Occurrence
from polyseme.operations.embed import EmbeddingsRequest, Pooling
from polyseme.operations.neighbors import NeighborsRequest
from polyseme.operations.schema import (
    DEFAULT_PARTS,
    Dtype,
    EncodeOptions,
    Neighbor,
    OovPolicy,
    Part,
    Request,
    Result,
)
from polyseme.operations.trace import Trace, TraceRequest
from polyseme.senses.find import Senses, SensesRequest, require_inventory
from polyseme.senses.inventory import AppliedSenses, ApplySensesRequest, Matching, SenseInventory
from polyseme.spellings import Case
from polyseme.tokenizer import Text

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Encoder(Protocol):
    """The interface of `polyseme.load(NAME)` and `polyseme.Client(url)`.

    Its methods check their arguments. A subclass computes, or sends requests, in `_call`,
    `_encode`, `_encode_each` and `_embed`.
    """

    def _call(self, request: Request[Result], read: Callable[[Result], _T]) -> _T:
        """Return what `read` returns for the result of an operation."""
        ...

    def _encode(
        self, texts: Iterable[Text], options: EncodeOptions, read: Callable[[list[Sentence]], _T]
    ) -> _T:
        """Return what `read` returns for the encoded sentences."""
        return read(list(self._encode_each(texts, options)))

    def _encode_each(self, texts: Iterable[Text], options: EncodeOptions) -> Iterator[Sentence]:
        """Yield the results for any number of texts, reading a few at a time."""
        ...

    def _embed(self, texts: Iterable[Text], request: EmbeddingsRequest) -> NDArray[np.float32]:
        """Return the sentence vectors; `request` has no texts."""
        ...

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    @property
    def dimension(self) -> int:
        """The width d of a vector."""
        ...

    def encode(
        self,
        texts: Sequence[Text],
        *,
        include: Sequence[Part] = DEFAULT_PARTS,
        layers: Literal["all", "last"] | Sequence[int] = "all",
        heads: Literal["all", "mean"] = "all",
        oov: OovPolicy | None = None,
        case: Case = "auto",
        truncate: bool = False,
        dtype: Dtype = "float32",
        share: float | None = None,
        phrases: bool = False,
    ) -> list[Sentence]:
        """Return static and contextual vectors [n, d] and attention [L, h, n, n] of each sentence.

        Raises PolysemeError; `Client` also raises ClientError if the service does not respond or a
        response is malformed.

        Options:
            include: The arrays to return: a list of "static", "contextual", "features",
                "attention", "contributions", "queries", "keys", "values" and "scores".
            layers: The layers whose attention, contributions, queries, keys, values and scores are
                returned: "all", "last" or a list of layer numbers, counted from 0.
            heads: Attention and scores of "all" heads, or their "mean".
            oov: The vector of a word that is not in the vocabulary: "zero", "subword" (composed of
                its subwords) or "error" (raise UnknownWordError). None: "subword" if the model has
                subword vectors, else "zero".
            case: How words are looked up: "auto", as written or else in another letter case;
                "exact", as written; "lower", in lower case.
            truncate: Whether a sentence over `max_sentence_tokens` is truncated instead of
                rejected.
            dtype: The type of the arrays: "float32" or "float16".
            share: The share of the static vector in `contextual`, 0 to 4. None: that of the model.
            phrases: Whether consecutive words become one token if the vocabulary has their phrase.
        """
        options = request_of(
            EncodeOptions,
            include=include,
            layers=layers,
            heads=heads,
            oov=oov,
            case=case,
            truncate=truncate,
            dtype=dtype,
            share=share,
            phrases=phrases,
        )
        return self._encode(require_list(texts), options, _unchanged)

    def encode_each(
        self,
        texts: Iterable[Text],
        *,
        include: Sequence[Part] = DEFAULT_PARTS,
        layers: Literal["all", "last"] | Sequence[int] = "all",
        heads: Literal["all", "mean"] = "all",
        oov: OovPolicy | None = None,
        case: Case = "auto",
        truncate: bool = False,
        dtype: Dtype = "float32",
        share: float | None = None,
        phrases: bool = False,
    ) -> Iterator[Sentence]:
        """Yield the results of `encode` for any number of texts, reading a few at a time.

        The options are those of `encode`.
        """
        options = request_of(
            EncodeOptions,
            include=include,
            layers=layers,
            heads=heads,
            oov=oov,
            case=case,
            truncate=truncate,
            dtype=dtype,
            share=share,
            phrases=phrases,
        )
        return self._encode_each(require_list(texts), options)

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
        if not isinstance(kind, str) or kind not in VECTOR_KINDS:
            raise InvalidError([FieldError(("kind",), one_of(VECTOR_KINDS))])
        options = request_of(EncodeOptions, include=[kind], phrases=phrases)
        return self._encode([text], options, lambda read: _vector_of(read[0], word, nth, kind))

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
        request = request_of(
            EmbeddingsRequest, input="", wordless="zero", pooling=pooling, dimensions=dimensions
        )
        return self._embed(require_list(texts), request)

    def compare(
        self,
        occurrences: Sequence[Occurrence | tuple[Text, str]],
        *,
        neighbors: int = 5,
        case: Case = "auto",
        share: float | None = None,
        phrases: bool = False,
    ) -> Comparison:
        """Compare m occurrences of words, `[(text, word), …]`; similarities are [m, m].

        A text is a string or a list of words. Raises the same exceptions as `encode`.

        Options:
            neighbors: The number of neighbors of each vector.
            case: How words are looked up, as in `encode`.
            share: The share of the static vector in contextual vectors and in the search for
                contextual neighbors. None: the defaults.
            phrases: As in `encode`.
        """
        request = request_of(
            CompareRequest,
            occurrences=_fields_of(occurrences),
            neighbors=neighbors,
            case=case,
            share=share,
            phrases=phrases,
        )
        return self._call(request, _unchanged)

    def senses(
        self,
        word: str | None = None,
        texts: Sequence[Text] | None = None,
        *,
        occurrences: Sequence[Occurrence | tuple[Text, str]] | None = None,
        forms: Sequence[str] = (),
        case: Matching = "any",
        senses: int | None = None,
        keywords: int = 8,
        neighbors: int = 5,
        examples: int = 3,
        phrases: bool = False,
    ) -> Senses:
        """Return the senses of a word in texts; `save` of the result keeps them for `apply`.

        A text is a string or a list of words. The occurrences are the tokens that equal `word` or
        one of `forms`, or those in `occurrences`, given instead of `word` and `texts`. Raises the
        same exceptions as `encode`, and InvalidError if the word does not occur.

        Options:
            occurrences: Occurrences of words, as in `compare`.
            forms: Other forms of the word, such as its plural.
            case: Whether occurrences are found in "any" letter case or in the "exact" one.
            senses: The maximum number of senses. None estimates their number.
            keywords: The number of keywords of each sense.
            neighbors: The number of neighbors of each sense.
            examples: The number of examples of each sense.
            phrases: As in `encode`.
        """
        if texts is not None or occurrences is None:
            texts = require_list(texts, "texts")
        request = request_of(
            SensesRequest,
            word=word,
            texts=texts,
            occurrences=None if occurrences is None else _fields_of(occurrences),
            **({"forms": forms} if forms else {}),
            case=case,
            senses="auto" if senses is None else senses,
            keywords=keywords,
            neighbors=neighbors,
            examples=examples,
            phrases=phrases,
            inventory=True,
        )
        return self._call(request, _unchanged)

    def apply(self, inventory: Senses | SenseInventory, texts: Sequence[Text]) -> AppliedSenses:
        """Return the sense of each occurrence of an inventory's word in texts.

        `inventory` is a result of `senses`, or of `polyseme.load_senses`. Raises the same
        exceptions as `encode`, and InvalidError if another model found the senses.
        """
        if not isinstance(inventory, Senses | SenseInventory):
            raise TypeError("Give a result of `senses`, or an inventory of `polyseme.load_senses`.")
        checked = without_numpy(require_list(texts, "texts"), "texts")
        request = ApplySensesRequest.of(inventory=require_inventory(inventory), texts=checked)
        return self._call(request, _unchanged)

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
        options: dict[str, Any] = {"k": k, "case": case}
        for name, terms in (("positive", positive), ("negative", negative)):
            if listed := list(require_list(terms, "words or vectors")):
                options[name] = listed
        if near is None or isinstance(near, str):
            options["word"] = near
        else:
            options["vector"] = _row(near)
        request = request_of(NeighborsRequest, **options)
        return self._call(request, lambda result: result.neighbors)

    def trace(self, text: str, *, layer: int = 0, case: Case = "auto") -> Trace:
        """Return each step of a layer, in float64. Raises the same exceptions as `encode`."""
        return self._call(request_of(TraceRequest, text=text, layer=layer, case=case), _unchanged)

    def models(self) -> list[ModelFacts]:
        """Return the models of this encoder. Raises the same exceptions as `encode`."""
        ...


def _awaited(
    method: Callable[Concatenate[Any, _P], _T],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """Return a method of `Encoder` as a coroutine, for a class whose `_call` is one."""

    @wraps(method)
    async def coroutine(self: Any, /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        result: Any = method(self, *arguments, **options)
        return cast("_T", await result)

    return coroutine


def _iterated(
    method: Callable[Concatenate[Any, Iterable[Text], _P], Iterator[_T]],
) -> Callable[Concatenate[Any, Iterable[Text] | AsyncIterable[Text], _P], AsyncIterator[_T]]:
    """Return a method of `Encoder` for a class whose `_encode_each` yields asynchronously."""
    return cast("Callable[..., AsyncIterator[_T]]", method)


class AsyncEncoder:
    """The methods of `Encoder` as coroutines and an asynchronous generator.

    In a subclass, `_call`, `_encode` and `_embed` are coroutines, and `_encode_each` yields
    asynchronously.
    """

    encode = _awaited(Encoder.encode)
    encode_each = _iterated(Encoder.encode_each)
    vector = _awaited(Encoder.vector)
    embed = _awaited(Encoder.embed)
    compare = _awaited(Encoder.compare)
    senses = _awaited(Encoder.senses)
    apply = _awaited(Encoder.apply)
    neighbors = _awaited(Encoder.neighbors)
    trace = _awaited(Encoder.trace)


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


def require_text(text: Any, index: int) -> Text:
    """Return a text as a string or a list of words.

    Raises TypeError for anything else, InvalidError for unpaired surrogates.
    """
    is_list = isinstance(text, Iterable) and not isinstance(text, str | bytes)
    words: list[Any] = list(text) if is_list else [text]
    if not all(isinstance(word, str) for word in words):
        raise TypeError(
            f"Text {index} is neither a string nor a list of words: remove it, or use an empty"
            " string for a missing text."
        )
    without_numpy("".join(words), "input", index)
    return words if is_list else words[0]


_Request = TypeVar("_Request", bound=Request[Any])


def request_of(kind: type[_Request], **fields: object) -> _Request:
    """Return a request with these fields. Raises InvalidError if one is invalid.

    Defaults are absent, so that clients send only what differs from them.
    """
    known = kind.model_fields
    return kind.of(
        **{
            name: without_numpy(value, name)
            for name, value in fields.items()
            if value is not known[name].default
        }
    )


def without_numpy(value: Any, *path: str | int) -> Any:
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
        return {name: without_numpy(item, *path, name) for name, item in value.items()}
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        return [without_numpy(item, *path, i) for i, item in enumerate(value)]
    return value


def _unchanged(result: _T) -> _T:
    return result


def _vector_of(sentence: Sentence, word: str, nth: int, kind: VectorKind) -> Array:
    """Return the vector of an occurrence of a word. Raises NoSuchTokenError if there is none."""
    if isinstance(word, str) and word not in sentence:
        raise NoSuchTokenError(
            "The text has no token with this word: `encode([text])[0].words` lists its tokens."
        )
    return sentence.find(word, nth).arrays[kind]


def _row(values: ArrayLike) -> NDArray[np.float64]:
    """Return a vector [d]. Raises InvalidError for anything else."""
    try:
        row = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        row = np.zeros(())
    if row.ndim != 1 or not np.isfinite(row).all():
        raise InvalidError([FieldError(("vector",), "must be a row of finite numbers")])
    return row


def _fields_of(occurrences: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the fields of occurrences or tuples. Raises TypeError for anything else."""
    fields = []
    for i, values in enumerate(require_list(occurrences, "pairs of a text and a word")):
        is_tuple = isinstance(values, tuple | list) and len(values) in {2, 3}
        occurrence = Occurrence(*values) if is_tuple else values
        if not isinstance(occurrence, Occurrence):
            raise TypeError(
                f"Occurrence {i} is neither (text, word) nor (text, word, nth) nor an Occurrence."
            )
        fields.append(dict(vars(occurrence)))
        if occurrence.word is None:
            del fields[-1]["nth"]
    return fields
