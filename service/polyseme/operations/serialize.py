"""Serialization of responses as JSON, NDJSON or `.npz`.

Large ones are written in parts: one piece would take the memory of the arrays several times.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Literal, TypeAlias

import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray

from polyseme.engine import Floats
from polyseme.engine.layers import other_terms
from polyseme.models.manifest import Manifest
from polyseme.models.model import Model
from polyseme.operations.encode import Encoded, TokenCounts
from polyseme.operations.schema import PER_TOKEN, ArrayEncoding, EncodeOptions
from polyseme.tokenizer import Tokenized

Format: TypeAlias = Literal["json", "ndjson", "npz"]
_PART_NUMBERS = 1 << 17
"""Numbers of an array that are written at once."""
_WHOLE_NUMBERS = 1 << 19
"""Numbers of a response that is written at once, which takes less time than parts."""
_PART_BYTES, _SLICE = 1 << 18, 3 << 18
"""Bytes that are sent at once, and bytes of an array that are converted at once."""


def token_documents(sentence: Tokenized) -> list[dict[str, Any]]:
    """Return tokens as JSON objects, without their vocabulary rows."""
    starts = repeat(None) if sentence.text is None else sentence.starts
    return [
        {
            "text": text,
            "start": start if at is None else at,
            "end": end if at is None else at + len(text),
            "key": key,
            "resolution": resolution,
        }
        for at, (text, start, end, key, resolution, _, _) in zip(
            starts, sentence.tokens, strict=False
        )
    ]


def sentence_document(one: Encoded, encoding: ArrayEncoding = "float") -> dict[str, Any]:
    """Return a sentence as a dictionary, with arrays that orjson serializes."""
    document: dict[str, Any] = {"tokens": token_documents(one.sentence)}
    for part, array in one.arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        if encoding == "base64":
            data, dtype = pybase64.b64encode_as_string(little.data), f"float{8 * array.itemsize}"
            document[part] = {"shape": array.shape, "dtype": dtype, "data": data}
        else:
            document[part] = little
    document["truncated"] = one.sentence.truncated
    return document


def sentence_parts(one: Encoded, encoding: ArrayEncoding = "float") -> Iterator[bytes]:
    """Yield a `sentence_document` in JSON; one part unless its arrays are large."""
    if sum(array.size for array in one.arrays.values()) <= _PART_NUMBERS:
        yield orjson.dumps(sentence_document(one, encoding), option=orjson.OPT_SERIALIZE_NUMPY)
        return
    yield orjson.dumps({"tokens": token_documents(one.sentence)})[:-1]
    for part, array in one.arrays.items():
        yield f',"{part}":'.encode()
        yield from array_parts(array, encoding)
    yield f',"truncated":{one.truncated}}}'.encode()


def array_parts(array: Floats, encoding: ArrayEncoding = "float") -> Iterator[bytes]:
    """Yield an array in JSON: nested lists, or an object with its bytes in base64."""
    if encoding == "base64":
        facts = {"shape": array.shape, "dtype": f"float{8 * array.itemsize}", "data": ""}
        yield orjson.dumps(facts)[:-2]
        yield from map(pybase64.b64encode, little_endian_parts(array))
        yield b'"}'
    elif array.ndim == 1:
        yield from flat_parts([array])
    elif array.size <= _PART_NUMBERS:
        yield _numbers(array)
    else:
        yield b"["
        for index, row in enumerate(array):
            yield b"," if index else b""
            yield from array_parts(row)
        yield b"]"


def flat_parts(arrays: Iterable[NDArray[Any]]) -> Iterator[bytes]:
    """Yield the numbers of arrays in JSON, as one list."""
    separator = b"["
    for array in arrays:
        flat = array.reshape(-1)
        for first in range(0, len(flat), _PART_NUMBERS):
            yield separator + _numbers(flat[first : first + _PART_NUMBERS])[1:-1]
            separator = b","
    yield b"]" if separator == b"," else b"[]"


def _numbers(array: NDArray[Any]) -> bytes:
    return orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)


def little_endian_parts(array: NDArray[Any]) -> Iterator[memoryview]:
    """Yield the bytes of an array; a multiple of three in each part but the last."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    content = little.reshape(-1).view(np.uint8)
    for first in range(0, len(content), _SLICE):
        yield content[first : first + _SLICE].data


def json_parts(
    before: dict[str, Any], name: str, items: Iterable[Iterable[bytes]], after: dict[str, Any]
) -> Iterator[bytes]:
    """Yield a JSON object whose member `name` is a list of the JSON of `items`.

    The members of `before` and `after` are written around it.
    """
    pending = [orjson.dumps(before)[:-1], f',"{name}":['.encode()]
    size = 0
    for index, item in enumerate(items):
        for part in chain((b",",) if index else (), item):
            pending.append(part)
            size += len(part)
            if size >= _PART_BYTES:
                yield b"".join(pending)
                pending.clear()
                size = 0
    pending.append(b"]," + orjson.dumps(after)[1:] if after else b"]}")
    yield b"".join(pending)


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


def encode_json(
    model: Model, sentences: Sequence[Encoded], counts: TokenCounts, options: EncodeOptions
) -> Iterable[bytes]:
    """Return the response of /v1/encode in JSON, in parts; one part unless its arrays are large."""
    manifest, encoding = model.manifest, options.encoding
    facts = {
        "model": manifest.name,
        "dimension": manifest.dimension,
        "layers": len(manifest.layers),
        "heads": manifest.heads,
    }
    after = counts.document
    if "contributions" in options.include:
        after = {**after, "terms": other_terms(model.layers)}
    if sum(array.size for one in sentences for array in one.arrays.values()) > _WHOLE_NUMBERS:
        results = (sentence_parts(one, encoding) for one in sentences)
        return json_parts(facts, "results", results, after)
    documents = [sentence_document(one, encoding) for one in sentences]
    document = {**facts, "results": documents, **after}
    return [orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)]


def npz_parts(
    manifest: Manifest, sentences: Sequence[Encoded], options: EncodeOptions
) -> Iterator[bytes]:
    """Yield all sentences as one `.npz` archive, which NumPy reads without pickle.

    For N tokens in S sentences, the arrays are `static` and `contextual` [N, d] and `features`
    [N, 2d], with the rows of sentence i at `offsets[i]:offsets[i+1]`; `offsets` int64 [S+1];
    `attention_i` and the other arrays by layer of each sentence i; `tokens` uint8, the tokens and
    the number of truncated words of each sentence as UTF-8 JSON.
    """
    offsets = np.cumsum([0, *(len(one.sentence.tokens) for one in sentences)], dtype=np.int64)
    tokens = b",".join(
        orjson.dumps({"tokens": token_documents(one.sentence), "truncated": one.truncated})
        for one in sentences
    )
    sink = _Sink()
    with zipfile.ZipFile(sink, "w") as archive:
        yield from _entry(archive, sink, "offsets", [offsets], offsets.shape)
        token_bytes = np.frombuffer(b"[%b]" % tokens, np.uint8)
        yield from _entry(archive, sink, "tokens", [token_bytes], token_bytes.shape)
        for part, width in PER_TOKEN.items():
            if part in options.include:
                rows = [one.arrays[part] for one in sentences] or [np.empty(0, options.dtype)]
                shape = (int(offsets[-1]), width * manifest.dimension)
                yield from _entry(archive, sink, part, rows, shape)
        for index, one in enumerate(sentences):
            for part, array in one.arrays.items():
                if part not in PER_TOKEN:
                    yield from _entry(archive, sink, f"{part}_{index}", [array], array.shape)
    yield sink.take()


class _Sink(io.RawIOBase):
    """A file that collects what `zipfile` writes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def write(self, content: Any) -> int:
        self.parts.append(bytes(content))
        self.size += len(content)
        return len(content)

    def take(self) -> bytes:
        """Return what was written since the last call."""
        content = b"".join(self.parts)
        self.parts, self.size = [], 0
        return content


def _entry(
    archive: zipfile.ZipFile,
    sink: _Sink,
    name: str,
    arrays: Sequence[NDArray[Any]],
    shape: tuple[int, ...],
) -> Iterator[bytes]:
    """Write arrays, one after the other, as an `.npy` file of an archive; yield what is large."""
    descr = np.lib.format.dtype_to_descr(arrays[0].dtype.newbyteorder("<"))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for array in arrays:
            for part in little_endian_parts(array):
                file.write(part)
                if sink.size >= _PART_BYTES:
                    yield sink.take()
