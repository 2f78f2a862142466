"""Serialization of encoded sentences as JSON, NDJSON or `.npz`."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
import pybase64

from polyseme.engine.arrays import Floats
from polyseme.models.manifest import Manifest
from polyseme.operations.encode import Encoded, Token, TokenCounts
from polyseme.operations.options import PER_TOKEN, Dtype, EncodeOptions, Encoding
from polyseme.operations.schema import response
from polyseme.operations.work import NumberCost
from polyseme.tokenizer import Tokenized

Format: TypeAlias = Literal["json", "ndjson", "npz"]
_JSON_NUMBER_BYTES = 17.0
"""Maximum bytes of a float32 and its comma in JSON, as in `-0.0000137053285,`."""
_ITEM_SIZES: dict[Dtype, float] = {"float32": 4.0, "float16": 2.0}
_NUMBER_WORK = {"float": 4.2e-5, "base64": 1.1e-5, "npz": 7e-6}
"""Milliseconds of one processor to write and send an array element (`benchmarks/work.py`)."""
_LITTLE_ENDIAN = {size: np.dtype(f"<f{size}") for size in (2, 4, 8)}


# The dataclasses describe the documents for the OpenAPI document and for tests. The functions below
# write dictionaries, which have only the requested arrays.


@dataclass(frozen=True)
class Base64Array:
    """The bytes of an array in base64: little-endian, C order."""

    __pydantic_config__ = response("Base64Array")
    shape: list[int]
    dtype: Dtype
    data: str


_Rows: TypeAlias = list[list[float]] | Base64Array | None
_Nested: TypeAlias = list[Any] | Base64Array | None


@dataclass(frozen=True)
class SentenceDocument:
    """One sentence, with the requested arrays."""

    __pydantic_config__ = response("ResultResponse")
    tokens: list[Token]
    truncated: int
    """number of words removed by truncation"""
    static: _Rows = None
    """[n, d]"""
    contextual: _Rows = None
    """[n, d]"""
    features: _Rows = None
    """[n, 2d], the unit static vector followed by the unit context"""
    attention: _Nested = None
    """[L, h, n, n], or [L, n, n] as the mean of the heads; row = query token"""
    contributions: _Nested = None
    """[L, n, m]: the exact share of each token in a contextual vector, all heads together, then
    those of the residual, the position and the output bias, where they belong to the sum"""
    queries: _Nested = None
    """[L, h, n, k]"""
    keys: _Nested = None
    """[L, h, n, k]"""
    values: _Nested = None
    """[L, h, n, v]"""
    scores: _Nested = None
    """[L, h, n, n], or [L, n, n] as the mean of the heads: queries·keysᵀ before scaling, biases and
    softmax"""


@dataclass(frozen=True)
class Usage:
    """Token counts of the request."""

    __pydantic_config__ = response("UsageResponse")
    tokens: int
    oov: int
    """number of tokens without a vector"""
    truncated: int
    """number of words removed by truncation"""


@dataclass(frozen=True)
class EncodeDocument:
    """Static vectors, contextual vectors and attention."""

    __pydantic_config__ = response("EncodeResponse")
    model: str
    dimension: int
    layers: int
    """number of layers of the model"""
    heads: int
    """number of attention heads of the model"""
    results: list[SentenceDocument]
    usage: Usage


def number_cost(form: Format, encoding: Encoding = "float", dtype: Dtype = "float32") -> NumberCost:
    """Return the cost of writing one array element."""
    if form == "npz":
        return NumberCost(_NUMBER_WORK["npz"], _ITEM_SIZES[dtype])
    size = _JSON_NUMBER_BYTES if encoding == "float" else _ITEM_SIZES[dtype] * 4 / 3
    return NumberCost(_NUMBER_WORK[encoding], size)


def token_documents(sentence: Tokenized) -> list[dict[str, Any]]:
    """Return tokens as JSON objects, without their vocabulary rows."""
    if sentence.text is None:
        return [
            {"text": text, "start": start, "end": end, "key": key, "resolution": resolution}
            for text, start, end, key, resolution, _, _ in sentence.words
        ]
    return [
        {
            "text": text,
            "start": start,
            "end": start + len(text),
            "key": key,
            "resolution": resolution,
        }
        for start, (text, _, _, key, resolution, _, _) in zip(
            sentence.starts, sentence.words, strict=True
        )
    ]


def sentence_document(one: Encoded, encoding: Encoding = "float") -> dict[str, Any]:
    """Return a `SentenceDocument` as a dictionary, with arrays that orjson serializes."""
    document: dict[str, Any] = {"tokens": token_documents(one.sentence)}
    for part, array in one.arrays.items():
        document[part] = np.ascontiguousarray(array) if encoding == "float" else as_base64(array)
    document["truncated"] = one.truncated
    return document


def sentence_json(one: Encoded, encoding: Encoding = "float") -> bytes:
    """Return one sentence as a line of NDJSON, without the line break."""
    return orjson.dumps(sentence_document(one, encoding), option=orjson.OPT_SERIALIZE_NUMPY)


def as_base64(array: Floats) -> dict[str, Any]:
    """Return a `Base64Array`: the bytes are little-endian, in C order."""
    little = np.ascontiguousarray(array, _LITTLE_ENDIAN[array.itemsize])
    return {
        "shape": array.shape,
        "dtype": f"float{8 * array.itemsize}",
        "data": pybase64.b64encode_as_string(little.data),
    }


def manifest_document(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a manifest that /v1/models shows."""
    return {
        "dimension": manifest.dimension,
        "vocabulary_size": manifest.vocabulary_size,
        "dtype": manifest.dtype,
        "bytes": sum(
            entry.bytes for name, entry in manifest.files.items() if not manifest.in_base(name)
        ),
        "base": manifest.base,
        "layers": len(manifest.layers),
        "heads": manifest.heads,
        "cased": manifest.cased,
        "subwords": manifest.subwords is not None,
        "languages": manifest.languages,
        "licence": manifest.licence,
        "source": manifest.source,
        "training": manifest.training,
        "quality": manifest.quality,
    }


def usage(counts: TokenCounts) -> dict[str, int]:
    """Return the `Usage` of a response."""
    return {"tokens": counts.tokens, "oov": counts.oov, "truncated": counts.truncated}


def json_document(
    manifest: Manifest, results: Sequence[dict[str, Any]], counts: TokenCounts
) -> bytes:
    """Return the `EncodeDocument` in JSON, from the document of each sentence."""
    document = {
        "model": manifest.name,
        "dimension": manifest.dimension,
        "layers": len(manifest.layers),
        "heads": manifest.heads,
        "results": results,
        "usage": usage(counts),
    }
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def npz_archive(manifest: Manifest, sentences: Sequence[Encoded], options: EncodeOptions) -> bytes:
    """Return all sentences as one `.npz` archive, which NumPy reads without pickle.

    For N tokens in S sentences, the arrays are `static` and `contextual` [N, d] and `features`
    [N, 2d], with the rows of sentence i at `offsets[i]:offsets[i+1]`; `offsets` int64 [S+1];
    `attention_i` and the other arrays by layer of each sentence i; `tokens` uint8, the tokens and
    the number of truncated words of each sentence as UTF-8 JSON. The concatenated arrays are
    removed from the sentences, because memory for both would be twice the archive.
    """
    lengths = [len(one.sentence.words) for one in sentences]
    facts = [{"tokens": token_documents(s.sentence), "truncated": s.truncated} for s in sentences]
    arrays: dict[str, Any] = {
        "offsets": np.cumsum([0, *lengths], dtype=np.int64),
        "tokens": np.frombuffer(orjson.dumps(facts), np.uint8),
    }
    for part, width in PER_TOKEN.items():
        if part in options.include:
            rows = [one.arrays.pop(part) for one in sentences]
            empty = np.empty((0, width * manifest.dimension), options.dtype)
            arrays[part] = np.concatenate(rows) if rows else empty
    for number, one in enumerate(sentences):
        for part, array in one.arrays.items():
            if part not in PER_TOKEN:
                arrays[f"{part}_{number}"] = array
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
