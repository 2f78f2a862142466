"""Sentence vectors: the vectors of a sentence pooled to one unit vector."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PlainValidator

from polyseme.engine import Floats, require_finite, unit
from polyseme.errors import FieldError, InvalidError
from polyseme.models.model import Model, log_smooth_inverse_frequency
from polyseme.operations.encode import encode_stacks, record_token_counts, tokenize, windows
from polyseme.operations.limits import MAX_VALUE_BYTES, Limits, current_budget, stage
from polyseme.operations.schema import ArrayEncoding, EncodeOptions, Input, Part, Request
from polyseme.operations.serialize import json_parts
from polyseme.tokenizer import ResolvedToken, Tokenized

Pooling: TypeAlias = Literal["whitened", "sif", "informativeness", "mean"]
"""`sif` weights unit static vectors by smooth inverse frequency; `whitened` is `sif`, then the
model's whitening; `informativeness` weights contextual vectors by informativeness; `mean` weights
them equally."""
DEFAULT_POOLING: Pooling = "whitened"
Wordless: TypeAlias = Literal["refuse", "zero"]
"""`refuse` rejects a text in which no word has a vector; `zero` gives it a zero vector."""
_STATIC: tuple[Pooling, ...] = ("whitened", "sif")
_ENTRY_BYTES = 64
"""Approximate bytes of an `Embedding` in JSON, without its vector."""


def _read_vector(value: Any) -> NDArray[np.float32]:
    if isinstance(value, str):
        return np.frombuffer(pybase64.b64decode(value, validate=True), "<f4")
    return np.array(value, np.float32)


@dataclass(frozen=True)
class Embedding:
    """The unit vector of one text.

    With `wordless: "zero"`, it is zero if no word has a vector or the vectors cancel out.
    """

    object: Literal["embedding"]
    index: int
    """index of the text in `input`"""
    embedding: Annotated[
        NDArray[np.float32] | str,
        PlainValidator(_read_vector, json_schema_input_type=list[float] | str),
    ]
    """[d], or base64 of float32, little-endian"""


@dataclass(frozen=True)
class EmbeddingsUsage:
    """The number of tokens of the request, by this service's tokenizer."""

    prompt_tokens: int
    total_tokens: int


@dataclass(frozen=True)
class Embeddings:
    """One vector per text, in OpenAI's format."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


def _reject_token_ids(value: Any) -> Any:
    """Raise ValueError for token IDs, which refer to OpenAI's vocabularies."""
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    has_ids = isinstance(first, int)
    if has_ids:
        raise ValueError(
            "send texts, not token IDs; LangChain's OpenAIEmbeddings sends texts with"
            " `check_embedding_ctx_length=False`"
        )
    return value


class EmbeddingsRequest(Request[Embeddings]):
    """Texts to embed, as in OpenAI's API."""

    input: Annotated[Input, BeforeValidator(_reject_token_ids)]
    """a text, a list of texts, or a list of lists of words (an extension of OpenAI's API); each
    text needs a word that has a vector, unless `wordless` is `zero`"""
    # Any string, because OpenAI's API returns 404 for an invalid name.
    model: str | None = None
    """name of a model; the default model if omitted"""
    encoding_format: ArrayEncoding = "float"
    """numbers, or base64 of float32, little-endian"""
    dimensions: Annotated[int, Field(ge=1)] | None = None
    """keep this many dimensions and normalize again; all if omitted"""
    user: str | None = None
    """accepted and ignored"""
    pooling: Pooling | None = None
    """extension of OpenAI's API: the pooling; the setting if omitted"""
    wordless: Wordless | None = None
    """extension of OpenAI's API: for a text in which no word has a vector, return an error
    (`refuse`) or a zero vector (`zero`); the setting if omitted"""
    truncate: bool | None = None
    """extension of OpenAI's API: truncate texts that are too long instead of rejecting them; the
    setting if omitted"""

    def with_defaults(self, **defaults: Any) -> Self:
        """Return the request with defaults for fields that are null."""
        absent = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return self.model_copy(update=absent)


def embed(model: Model, request: EmbeddingsRequest, limits: Limits | None = None) -> Embeddings:
    """Return the unit vector of each text.

    Raises InvalidError for `dimensions` that the model does not have, UnknownWordError or
    InvalidError for a text that has no direction if `wordless` is `refuse`, and the errors of
    `tokenize` and `encode_sentences`.
    """
    limits = limits or Limits()
    refuse, pooling = request.wordless != "zero", request.pooling or DEFAULT_POOLING
    texts = [request.input] if isinstance(request.input, str) else request.input
    with stage("tokens"):
        options, d = pooled_options(pooling), model.manifest.dimension
        options = options.model_copy(update={"truncate": bool(request.truncate)})
        width = request.dimensions or d
        if width > d:
            message = f"must be 1 to {d}, the model's dimension"
            raise InvalidError([FieldError(("dimensions",), message)])
        each = width * MAX_VALUE_BYTES[request.encoding_format] + _ENTRY_BYTES
        limits.check("max_answer_bytes", len(texts) * each)
        sentences = tokenize(model, request.input, options, limits, require_words=refuse)
        current_budget().reserve(int(len(texts) * each))
        counts = record_token_counts(sentences)
    data: list[Embedding] = []
    for window in windows(model, sentences, options):
        for vector in sentence_vectors(model, window, pooling, width):
            if refuse and not vector.any():
                message = "the vectors of its words cancel out, so the text has no direction"
                path = ("input",) if request.input is not texts else ("input", len(data))
                raise InvalidError([FieldError(path, message)])
            written: NDArray[np.float32] | str = vector
            if request.encoding_format == "base64":
                written = pybase64.b64encode_as_string(vector.astype("<f4", copy=False).data)
            data.append(Embedding("embedding", len(data), written))
    usage = EmbeddingsUsage(counts.tokens, counts.tokens)
    return Embeddings("list", data, model.manifest.name, usage)


def embeddings_parts(result: Embeddings) -> Iterator[bytes]:
    """Yield embeddings in JSON."""
    data = ([orjson.dumps(one, option=orjson.OPT_SERIALIZE_NUMPY)] for one in result.data)
    after = {"model": result.model, "usage": result.usage}
    return json_parts({"object": result.object}, "data", data, after)


def pooled_part(pooling: Pooling) -> Part:
    """Return the array that a pooling needs."""
    return "static" if pooling in _STATIC else "contextual"


def pooled_options(pooling: Pooling) -> EncodeOptions:
    """Return the encoding options for a pooling."""
    return EncodeOptions(include=[pooled_part(pooling)])


def sentence_vectors(
    model: Model,
    sentences: Sequence[Tokenized],
    pooling: Pooling = DEFAULT_POOLING,
    width: int | None = None,
) -> NDArray[np.float32]:
    """Return the unit vectors of S sentences, from the first `width` columns (None: all).

    A vector is zero if no word has a vector. Its bits do not depend on other sentences. -> [S, d]
    """
    result = np.empty((len(sentences), width or model.manifest.dimension), np.float32)
    weights = token_weights(model, [sentence.tokens for sentence in sentences], pooling)
    for indices, arrays in encode_stacks(model, sentences, pooled_options(pooling)):
        of_stack, vectors = np.array([weights[i] for i in indices]), arrays[pooled_part(pooling)]
        result[list(indices)] = pool(model, of_stack, vectors, pooling, width)
    return result


def pool(
    model: Model,
    weights: NDArray[np.float32],
    vectors: Floats,
    pooling: Pooling,
    width: int | None = None,
) -> NDArray[np.float32]:
    """Return the unit vectors of B sentences of equal length, as `sentence_vectors` does.

    `weights` are those of `token_weights`, and `vectors` is the array of `pooled_part`.
    [B, n], [B, n, d] -> [B, d]
    """
    if pooling in _STATIC:
        vectors = unit(vectors)
    means = weighted_mean(vectors, weights)
    if pooling == "whitened":
        # One product for each sentence.
        whitened = model.whitening(means[:, None])[:, 0]
        means = np.where(weights.any(axis=1, keepdims=True), whitened, means)
    pooled: NDArray[np.float32] = require_finite(unit(means[:, :width]))
    return pooled


def weighted_mean(vectors: Floats, weights: Floats) -> Floats:
    """Return the mean of rows, weighted by non-negative numbers. [..., n, d], [..., n] -> [..., d]

    Equation 3 of Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings".
    The mean is zero if there are no rows, or if all weights are 0.
    """
    totals = weights.sum(axis=-1, dtype=np.float64, keepdims=True)
    shares = (weights / np.where(totals, totals, 1).astype(weights.dtype)).astype(vectors.dtype)
    mean: Floats = (shares[..., None, :] @ vectors)[..., 0, :]
    return mean


def token_weights(
    model: Model, sentences: Sequence[Sequence[ResolvedToken]], pooling: Pooling
) -> list[NDArray[np.float32]]:
    """Return the weights of the n tokens of each sentence in the mean. -> [n] per sentence

    A token without a vector has the weight 0. Weights are relative to the largest of a sentence.
    `informativeness` is s = exp(word bias): 1e-3 / (1e-3 + p) for a word of relative frequency p
    (docs/mathematics.md). `sif` and `whitened` are a / (a + p) with a = 1e-4 (Arora et al. 2017)
    and the p of s. A composed word has the mean word bias of the tokens of its length, and for
    `sif` and `whitened` that of the words. For `mean`, and without word biases, the weight of each
    token with a vector is 1.
    """
    tokens = list(chain.from_iterable(sentences))
    lengths = np.array(list(map(len, sentences)), np.intp)
    missing = [i for i, token in enumerate(tokens) if token.row is None]
    known = np.ones(len(tokens), np.bool_)
    known[missing] = [tokens[i].composed is not None for i in missing]
    weights = known.astype(np.float32)
    if pooling != "mean" and model.word_bias is not None:
        biases = model.word_bias[[token.row or 0 for token in tokens]]
        averaged_over: Literal["tokens", "words"] = "words" if pooling in _STATIC else "tokens"
        spellings = [tokens[i].composed or "" for i in missing]
        biases[missing] = model.expected_word_bias(spellings, averaged_over)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        has_words = np.bincount(owners, known, len(lengths)) > 0
        # The biases of a sentence with a word outside the vocabulary are float64.
        is_wide = np.zeros(len(lengths), np.bool_)
        is_wide[owners[missing]] = True
        for dtype, chosen in (("float32", has_words & ~is_wide), ("float64", has_words & is_wide)):
            of_tokens, counts = chosen[owners], lengths[chosen]
            logs: Floats = biases[of_tokens].astype(dtype)
            if pooling in _STATIC:
                logs = log_smooth_inverse_frequency(logs)
            logs = np.where(known[of_tokens], logs, -np.inf)
            if len(counts):
                logs -= np.repeat(np.maximum.reduceat(logs, np.cumsum(counts) - counts), counts)
            weights[of_tokens] = np.exp(logs)
    return [weights[end - n : end] for n, end in zip(lengths, np.cumsum(lengths), strict=True)]
