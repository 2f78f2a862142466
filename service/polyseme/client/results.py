"""Sentences, model facts and exceptions, and readers, which reject malformed responses.

    ClientError
        UnreachableError        also a ConnectionError
        AnswerError
        NoSuchTokenError        also a KeyError
        NotRequestedError       also an AttributeError

Errors that a service reports are raised as the same classes of `polyseme.errors` as in process.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib.format import read_array_header_1_0
from numpy.typing import NDArray
from pydantic import TypeAdapter

from polyseme.errors import install_command
from polyseme.operations.compare import WordForms
from polyseme.operations.encode import Encoded, Token
from polyseme.operations.schema import PER_LAYER, PER_PAIR, PER_TOKEN, EncodeOptions, OneLine, Part

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = NDArray[np.floating]
VectorKind: TypeAlias = Literal["static", "contextual", "features"]
VECTOR_KINDS: tuple[VectorKind, ...] = get_args(VectorKind)


class ClientError(Exception):
    """The base class. The message says what is wrong and what to do."""


class UnreachableError(ClientError, ConnectionError):
    """The connection fails after all retries, the TLS handshake fails, or a timeout is exceeded."""


class AnswerError(ClientError):
    """The response is malformed or not from Polyseme, for example a page of a proxy."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """the status if it is not 200; None for a malformed response"""


class NoSuchTokenError(ClientError, KeyError):
    """No token of a sentence has this text, or `nth` is out of range."""

    __str__ = Exception.__str__  # KeyError's would put the message in quotation marks


class NotRequestedError(ClientError, AttributeError):
    """The sentence was encoded without this array, so `hasattr` returns False for it."""


class _Arrays:
    """Gives the entries of `arrays` as attributes.

    Reading an array that was not requested raises NotRequestedError, an AttributeError.
    """

    arrays: dict[Part, Array]
    static: Array
    """[n, d]; [d] of a token"""
    contextual: Array
    """[n, d]; [d] of a token"""
    features: Array
    """Unit static vectors and unit contexts, concatenated. [n, 2d]; [2d] of a token"""
    attention: Array
    """[L, h, n, n]; [L, h, n] of a token; without h for the mean of the heads; rows are queries"""
    contributions: Array
    """The exact share of each token, then of the residual, the position and the output bias where
    the model has them; rows sum to 1. [L, n, m]"""
    queries: Array
    """[L, h, n, k]"""
    keys: Array
    """[L, h, n, k]"""
    values: Array
    """[L, h, n, v]"""
    scores: Array
    """The scores before scaling, biases and softmax, of the shape of `attention`."""
    _parts: ClassVar[tuple[str, ...]] = get_args(Part)

    if not TYPE_CHECKING:  # for type checkers, the attributes are those above

        def __getattr__(self, name: str) -> Any:
            if name not in self._parts:
                return super().__getattribute__(name)  # raises the error of the attribute
            if name not in self.arrays:
                raise NotRequestedError(
                    f'The sentence was encoded without `{name}`: add "{name}" to `include` of'
                    " `encode`."
                )
            return self.arrays[name]


@dataclass(frozen=True, repr=False)
class EncodedToken(OneLine, Token, _Arrays):
    """A token of a sentence with its rows of the arrays.

    Reading an array that was not requested raises NotRequestedError, an AttributeError.
    """

    index: int
    """the position in the sentence, from 0"""
    arrays: dict[Part, Array] = field(default_factory=dict)
    """the requested ones of `static`, `contextual`, `features` and `attention`"""
    _parts: ClassVar = (*VECTOR_KINDS, "attention")


@dataclass(frozen=True, repr=False)
class Sentence(OneLine, _Arrays):
    """The vectors and attention of one sentence.

    Reading an array that was not requested raises NotRequestedError, an AttributeError.
    `sentence["bank"]` and `sentence[2]` return a token with its vectors, and iteration yields such
    tokens.
    """

    tokens: list[Token]
    arrays: dict[Part, Array] = field(default_factory=dict)
    """the requested arrays by name"""
    truncated: int = 0
    """number of words that were cut off"""

    @classmethod
    def of(cls, encoded: Encoded) -> "Sentence":
        """Return the sentence of an encoded one; its tokens are made when they are read."""
        sentence = object.__new__(cls)
        vars(sentence).update(
            arrays=encoded.arrays, truncated=encoded.truncated, _source=encoded.sentence
        )
        return sentence

    if not TYPE_CHECKING:  # for type checkers, `tokens` is a field

        def __getattr__(self, name: str) -> Any:
            if name != "tokens" or "_source" not in vars(self):
                return super().__getattr__(name)
            tokens = [Token.of(token) for token in self._source.with_offsets()]
            vars(self)["tokens"] = tokens
            return tokens

    @property
    def words(self) -> list[str]:
        """The texts of the tokens."""
        return [token.text for token in self.tokens]

    def __len__(self) -> int:
        """Return the number of tokens n."""
        return len(self.tokens)

    def __iter__(self) -> Iterator[EncodedToken]:
        """Yield each token with its vectors."""
        return map(self._encoded, range(len(self.tokens)))

    def __contains__(self, word: object) -> bool:
        """Return whether `sentence[word]` finds a token."""
        return isinstance(word, str) and bool(self._indices(word))

    def __getitem__(self, token: str | int) -> EncodedToken:
        """Return a token with its vectors, by its text or by its position.

        A text that occurs more than once gives its first token; `find` gives the others. Raises
        NoSuchTokenError, a KeyError, if no token has this text, and IndexError if the position is
        out of range.
        """
        if isinstance(token, str):
            return self.find(token)
        count = len(self.tokens)
        try:
            position = index(token)
        except TypeError:
            raise TypeError(
                "Give a word or a position; `list(sentence)[1:3]` gives several tokens."
            ) from None
        if not -count <= position < count:
            raise IndexError(f"The sentence has {count} tokens; positions count from 0.")
        return self._encoded(position % count)

    def find(self, word: str, nth: int = 0) -> EncodedToken:
        """Return the nth occurrence of a word, counted from 0, with its vectors.

        A word that does not occur as written is found in another letter case, as in `compare`.
        Raises NoSuchTokenError, a KeyError, if there is no such occurrence.
        """
        if not isinstance(word, str):
            raise TypeError("The word must be a string.")
        try:
            nth = index(nth)
        except TypeError:
            raise TypeError("`nth` must be an integer, 0 for the first occurrence.") from None
        indices = self._indices(word)
        if not indices:
            raise NoSuchTokenError(
                "The sentence has no token with this text: `sentence.words` lists its tokens."
            )
        if not 0 <= nth < len(indices):
            raise NoSuchTokenError(
                f"`nth` must be less than {len(indices)}, the number of occurrences of the word,"
                " and not negative: it counts from 0."
            )
        return self._encoded(indices[nth])

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas DataFrame with a row for each token.

        The columns are the fields of `Token`, and `static`, `contextual` and `features` if they
        were requested: `np.stack(frame["contextual"])` is [n, d]. Raises ModuleNotFoundError
        without pandas.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"A data frame needs pandas: {install_command('pandas')}."
            ) from error
        names = [one.name for one in fields(Token)]
        rows = [asdict(token) for token in self.tokens]
        # Offsets are missing for input that was already tokenized; Int64 keeps them integers.
        frame = pd.DataFrame(rows, columns=names).astype({"start": "Int64", "end": "Int64"})
        for part in PER_TOKEN:
            if part in self.arrays:
                frame[part] = list(self.arrays[part])
        return frame

    def _indices(self, word: str) -> list[int]:
        """Return the indices of the tokens with this text, or else with it in another case."""
        exact = WordForms([word], exact=True).indices(self.words)
        return exact or WordForms([word]).indices(self.words)

    def _encoded(self, i: int) -> EncodedToken:
        rows = {part: self.arrays[part][i] for part in PER_TOKEN if part in self.arrays}
        if "attention" in self.arrays:
            rows["attention"] = self.arrays["attention"][..., i, :]
        return EncodedToken(**vars(self.tokens[i]), index=i, arrays=rows)


@dataclass(frozen=True)
class ModelFacts:
    """The main facts about a model."""

    name: str
    default: bool
    dimension: int | None
    """None if the model is broken; likewise `vocabulary_size`, `layers` and `heads`"""
    vocabulary_size: int | None
    layers: int | None
    heads: int | None
    document: Mapping[str, Any] = field(repr=False)
    """the model's entry in /v1/models; in process, `id`, `default` and the manifest's fields"""


def require(condition: object) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError


# The readers of responses raise exceptions of any class if one is malformed.


def model_facts(document: Mapping[str, Any]) -> ModelFacts:
    """Read the entry of one model."""
    names = ("dimension", "vocabulary_size", "layers", "heads")
    counts: dict[str, Any] = {name: document.get(name) for name in names}
    require(all(count is None or isinstance(count, int) for count in counts.values()))
    default = document.get("default") is True
    return ModelFacts(str(document["id"]), default, document=document, **counts)


@dataclass(frozen=True)
class _SentenceTokens:
    """The member `tokens` of an archive has one for each sentence."""

    tokens: list[Token]
    truncated: int


_TOKENS = TypeAdapter(list[_SentenceTokens])
_MAGIC = b"\x93NUMPY\x01\x00"
_MAX_HEADER_BYTES = 1024


def read_sentences(content: bytes, count: int, options: EncodeOptions) -> list[Sentence]:
    """Read the sentences of a `.npz` archive of /v1/encode.

    It must have exactly the requested sentences and arrays, with consistent shapes and finite
    values.
    """
    with ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        # Compressed or repeated members could expand a few bytes into gigabytes.
        require(all(member.compress_type == ZIP_STORED for member in members))
        require(all(member.filename.endswith(".npy") for member in members))
        require(len({member.filename for member in members}) == len(members))
        arrays = {}
        for member in members:
            data = archive.read(member)
            require(data.startswith(_MAGIC))
            start = 10 + int.from_bytes(data[8:10], "little")
            require(start <= _MAX_HEADER_BYTES)
            shape, dtype = _read_npy_header(data[8:start])
            # No memory is allocated, so a header with a huge shape is harmless.
            array = np.frombuffer(data, dtype, offset=start).reshape(shape)
            arrays[member.filename.removesuffix(".npy")] = array
    offsets, encoded = arrays.pop("offsets"), arrays.pop("tokens")
    require(encoded.dtype == np.uint8)
    sentences = _TOKENS.validate_json(encoded.tobytes(), strict=True, extra="ignore")
    require(len(sentences) == count)
    tokens = (token for sentence in sentences for token in sentence.tokens)
    require(all((token.start is None) == (token.end is None) for token in tokens))
    lengths = [len(sentence.tokens) for sentence in sentences]
    require(offsets.dtype == np.int64 and offsets.tolist() == [*accumulate(lengths, initial=0)])

    rows = {part: arrays.pop(part) for part in PER_TOKEN if part in options.include}
    widths = {array.shape[1] / PER_TOKEN[part] for part, array in rows.items()}
    require(len(widths) <= 1 and 0 not in widths)
    require(all(array.shape == (sum(lengths), array.shape[1]) for array in rows.values()))
    per_layer = [part for part in PER_LAYER if part in options.include]
    layers = [{part: arrays.pop(f"{part}_{i}") for part in per_layer} for i in range(count)]
    require(not arrays)
    for n, of_layers in zip(lengths, layers, strict=True):
        for part, array in of_layers.items():
            # [L, h, n, n] or [L, n, n] for the mean of the heads, and [L, h, n, k]
            without_heads = part == "contributions" or (
                part in PER_PAIR and options.heads == "mean"
            )
            require(array.ndim == (3 if without_heads else 4) and array.shape[-2] == n)
            require(part not in PER_PAIR or array.shape[-1] == n)
    for array in (*rows.values(), *(one for of_layers in layers for one in of_layers.values())):
        require(array.dtype == np.dtype(options.dtype) and np.isfinite(array).all())

    read = []
    for i, (sentence, of_layers) in enumerate(zip(sentences, layers, strict=True)):
        first, last = offsets[i : i + 2]
        of_tokens = {part: array[first:last] for part, array in rows.items()}
        # Copies are writable, and one sentence does not keep the whole response in memory.
        copies = {part: array.copy() for part, array in (of_tokens | of_layers).items()}
        read.append(Sentence(sentence.tokens, copies, sentence.truncated))
    return read


@lru_cache(1024)  # sentences of one length have the same headers
def _read_npy_header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the dtype of an array."""
    shape, fortran, dtype = read_array_header_1_0(io.BytesIO(header), _MAX_HEADER_BYTES)
    require(not fortran and dtype.kind in "fiu" and all(side >= 0 for side in shape))
    return shape, dtype
