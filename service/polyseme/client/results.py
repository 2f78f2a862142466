"""The results of an encoder: sentences, comparisons, senses, neighbors, traces, model facts.

The `read_…` functions read them from responses and from documents made in process, and reject
malformed ones. Only the arrays of an archive are checked completely.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import orjson
from numpy.lib.format import read_array_header_1_0
from numpy.typing import NDArray

from polyseme.client.errors import NoSuchTokenError, NotRequestedError, malformed_response
from polyseme.errors import install_command
from polyseme.operations.compare import match_forms, word_places
from polyseme.operations.encode import Encoded, Token
from polyseme.operations.options import PER_LAYER, PER_PAIR, PER_TOKEN, EncodeOptions, Part
from polyseme.operations.schema import OneLine
from polyseme.tokenizer import Resolution

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = NDArray[np.floating]
Doubles: TypeAlias = NDArray[np.float64]
VectorKind: TypeAlias = Literal["static", "contextual", "features"]


def _requested(arrays: Mapping[Part, Array], part: Part) -> Array:
    """Return an array. Raises NotRequestedError if the sentence was encoded without it."""
    if part not in arrays:
        raise NotRequestedError(
            f'The sentence was encoded without `{part}`: add "{part}" to `include` of `encode`.'
        )
    return arrays[part]


@dataclass(frozen=True, repr=False)
class EncodedToken(OneLine, Token):
    """A token of a sentence with its rows of the arrays.

    Reading an array that was not requested raises NotRequestedError, an AttributeError.
    """

    index: int
    """the position in the sentence, from 0"""
    arrays: dict[Part, Array] = field(default_factory=dict)
    """the requested ones of `static`, `contextual`, `features` and `attention`"""

    @property
    def static(self) -> Array:
        """The row of the static vectors. [d]"""
        return _requested(self.arrays, "static")

    @property
    def contextual(self) -> Array:
        """The row of the contextual vectors. [d]"""
        return _requested(self.arrays, "contextual")

    @property
    def features(self) -> Array:
        """The unit static vector and the unit context, concatenated. [2d]"""
        return _requested(self.arrays, "features")

    @property
    def attention(self) -> Array:
        """The attention to each token. [L, h, n], or [L, n] for the mean of the heads"""
        return _requested(self.arrays, "attention")


@dataclass(frozen=True, repr=False)
class Sentence(OneLine):
    """The vectors and attention of one sentence.

    Reading an array that was not requested raises NotRequestedError, an AttributeError; `arrays`
    contains the requested ones. `sentence["bank"]` and `sentence[2]` return a token with its
    vectors, and iteration yields such tokens.
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
                return super().__getattribute__(name)  # raises the error of the attribute
            tokens = [Token.of(token) for token in self._source.tokens]
            vars(self)["tokens"] = tokens
            return tokens

    @property
    def static(self) -> Array:
        """The static vectors. [n, d]"""
        return _requested(self.arrays, "static")

    @property
    def contextual(self) -> Array:
        """The contextual vectors. [n, d]"""
        return _requested(self.arrays, "contextual")

    @property
    def features(self) -> Array:
        """Unit static vectors and unit contexts, concatenated, for classifiers. [n, 2d]"""
        return _requested(self.arrays, "features")

    @property
    def attention(self) -> Array:
        """The attention. [L, h, n, n], or [L, n, n] for the mean of the heads; rows are queries"""
        return _requested(self.arrays, "attention")

    @property
    def queries(self) -> Array:
        """The queries. [L, h, n, k]"""
        return _requested(self.arrays, "queries")

    @property
    def keys(self) -> Array:
        """The keys. [L, h, n, k]"""
        return _requested(self.arrays, "keys")

    @property
    def values(self) -> Array:
        """The values. [L, h, n, v]"""
        return _requested(self.arrays, "values")

    @property
    def scores(self) -> Array:
        """The scores before scaling, biases and softmax, of the shape of `attention`."""
        return _requested(self.arrays, "scores")

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
        return isinstance(word, str) and bool(self._places(word))

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
            place = index(token)
        except TypeError:
            raise TypeError(
                "Give a word or a position; `list(sentence)[1:3]` gives several tokens."
            ) from None
        if not -count <= place < count:
            raise IndexError(f"The sentence has {count} tokens; positions count from 0.")
        return self._encoded(place % count)

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
        places = self._places(word)
        if not places:
            raise NoSuchTokenError(
                "The sentence has no token with this text: `sentence.words` lists its tokens."
            )
        if not 0 <= nth < len(places):
            raise NoSuchTokenError(
                f"`nth` must be less than {len(places)}, the number of occurrences of the word, and"
                " not negative: it counts from 0."
            )
        return self._encoded(places[nth])

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

    def _places(self, word: str) -> list[int]:
        """Return the indices of the tokens with this text, or else with it in another case."""
        exact = word_places(self.words, match_forms([word], exact=True), exact=True)
        return exact or word_places(self.words, match_forms([word]))

    def _encoded(self, place: int) -> EncodedToken:
        rows = {part: self.arrays[part][place] for part in PER_TOKEN if part in self.arrays}
        if "attention" in self.arrays:
            rows["attention"] = self.arrays["attention"][..., place, :]
        return EncodedToken(**vars(self.tokens[place]), index=place, arrays=rows)


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


def _require(condition: object) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError


# JSON documents. These functions raise ValueError, TypeError, KeyError or AttributeError for
# malformed ones.

_RESOLUTIONS = frozenset(get_args(Resolution))
_TOKEN_FIELDS = ("text", "start", "end", "key", "resolution")


def read_token(document: Mapping[str, Any]) -> Token:
    """Read a token."""
    text, start, end, key, resolution = (document[name] for name in _TOKEN_FIELDS)
    _require(isinstance(text, str) and (key is None or isinstance(key, str)))
    _require(type(start) is type(end) and isinstance(start, int | None))
    _require(resolution in _RESOLUTIONS)
    return Token(text, start, end, key, resolution)


def read_models(document: Mapping[str, Any]) -> list[ModelFacts]:
    """Read the response of /v1/models."""
    return [read_model_facts(one) for one in document["data"]]


def read_model_facts(document: Mapping[str, Any]) -> ModelFacts:
    """Read the entry of one model."""
    names = ("dimension", "vocabulary_size", "layers", "heads")
    numbers: dict[str, Any] = {name: document.get(name) for name in names}
    _require(all(number is None or isinstance(number, int) for number in numbers.values()))
    default = document.get("default") is True
    return ModelFacts(str(document["id"]), default, document=document, **numbers)


# The .npz archives of /v1/encode.

_MAGIC = b"\x93NUMPY\x01\x00"
_MAX_HEADER_BYTES = 1024


def read_sentences(content: bytes, options: EncodeOptions, count: int) -> list[Sentence]:
    """Read the sentences of a `.npz` archive.

    Raises AnswerError unless the archive has exactly the requested sentences and arrays, with
    consistent shapes and finite values.
    """
    try:
        return list(_read_sentences(_read_archive(content), options, count))
    except Exception:  # noqa: BLE001 - zipfile, NumPy and orjson raise many for arbitrary bytes
        raise malformed_response() from None


def _read_archive(content: bytes) -> dict[str, Array]:
    """Read the arrays of an archive by their names."""
    with ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        # Compressed or repeated members could expand a few bytes into gigabytes.
        _require(all(one.compress_type == ZIP_STORED for one in infos))
        _require(all(one.filename.endswith(".npy") for one in infos))
        _require(len({one.filename for one in infos}) == len(infos))
        return {one.filename.removesuffix(".npy"): _read_npy(archive.read(one)) for one in infos}


def _read_npy(data: bytes) -> Array:
    """View the bytes of a `.npy` file as an array.

    No memory is allocated, so a header with a huge shape is harmless.
    """
    _require(data.startswith(_MAGIC))
    start = 10 + int.from_bytes(data[8:10], "little")
    _require(start <= _MAX_HEADER_BYTES)
    shape, dtype = _read_npy_header(data[8:start])
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


@lru_cache(1024)  # sentences of one length have the same headers
def _read_npy_header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the dtype of an array."""
    shape, fortran, dtype = read_array_header_1_0(io.BytesIO(header), _MAX_HEADER_BYTES)
    _require(not fortran and dtype.kind in "fiu" and all(side >= 0 for side in shape))
    return shape, dtype


def _read_sentences(
    arrays: dict[str, Array], options: EncodeOptions, count: int
) -> Iterator[Sentence]:
    offsets, documents = arrays.pop("offsets"), _read_documents(arrays.pop("tokens"))
    _require(offsets.dtype == np.int64 and offsets.shape == (count + 1,))
    _require(len(documents) == count)
    starts = offsets.tolist()
    lengths = [len(document["tokens"]) for document in documents]
    _require(starts[0] == 0 and np.diff(offsets).tolist() == lengths)

    rows = {part: arrays.pop(part) for part in PER_TOKEN if part in options.include}
    for array in rows.values():
        _require(array.ndim == 2 and len(array) == starts[-1] and array.shape[1] > 0)
    _require(len({array.shape[1] / PER_TOKEN[part] for part, array in rows.items()}) <= 1)
    per_layer = [part for part in PER_LAYER if part in options.include]
    layer_arrays = [{part: arrays.pop(f"{part}_{i}") for part in per_layer} for i in range(count)]
    _require(not arrays)
    _check_layers(layer_arrays, lengths, options)
    for array in (*rows.values(), *(one for parts in layer_arrays for one in parts.values())):
        _require(array.dtype == np.dtype(options.dtype) and np.isfinite(array).all())

    for i, (document, of_layers) in enumerate(zip(documents, layer_arrays, strict=True)):
        of_tokens = {part: array[starts[i] : starts[i + 1]] for part, array in rows.items()}
        # Copies are writable, and one sentence does not keep the whole response in memory.
        copies = {part: array.copy() for part, array in (of_tokens | of_layers).items()}
        tokens = [read_token(token) for token in document["tokens"]]
        yield Sentence(tokens, copies, document["truncated"])


def _read_documents(array: Array) -> list[dict[str, Any]]:
    """Return the tokens of each sentence and the number of words that were cut off."""
    _require(array.dtype == np.uint8)
    documents = orjson.loads(array.tobytes())
    _require(isinstance(documents, list))
    for one in documents:
        _require(isinstance(one["tokens"], list) and type(one["truncated"]) is int)
    return list(documents)


def _check_layers(
    layer_arrays: list[dict[Part, Array]], lengths: list[int], options: EncodeOptions
) -> None:
    """Check the shapes [L, h, n, …], or [L, n, n] for the mean of the heads."""
    shapes: dict[Part, set[tuple[int, ...]]] = {}
    for arrays, n in zip(layer_arrays, lengths, strict=True):
        for part, array in arrays.items():
            paired = part in PER_PAIR
            axes = 3 if paired and options.heads == "mean" else 4
            _require(array.ndim == axes and array.shape[-2] == n)
            _require(not paired or array.shape[-1] == n)
            if options.layers != "all":
                wanted = 1 if options.layers == "last" else len(set(options.layers))
                _require(len(array) == wanted)
            shapes.setdefault(part, set()).add(array.shape[:-2] + array.shape[-1:][paired:])
    _require(all(len(one) == 1 for one in shapes.values()))
