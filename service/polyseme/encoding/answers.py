"""The answer of /v1/encode as bytes, in pieces that do not grow with it."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import orjson

from polyseme.encoding.arrays import Write, base64_pieces, number_pieces
from polyseme.encoding.choice import Dtype
from polyseme.encoding.documents import sentence_document
from polyseme.encoding.encoder import Batch, Encoded
from polyseme.encoding.npz import npz_answer

Kind: TypeAlias = Literal["json", "ndjson", "npz"]
Encoding: TypeAlias = Literal["float", "base64"]
_JSON_FLOAT_BYTES = 16.0
"""What a float32 and its comma take in JSON at most, such as `-1.1754944e-38,`."""
_ITEM_SIZES: dict[Dtype, float] = {"float32": 4.0, "float16": 2.0}


def answer(batch: Batch, kind: Kind, encoding: Encoding = "float") -> Iterator[bytes]:
    """Write the answer of one kind; nothing is encoded before the first piece is asked for."""
    if kind == "npz":
        return npz_answer(batch)
    write = base64_pieces if encoding == "base64" else number_pieces
    return json_answer(batch, write) if kind == "json" else ndjson_answer(batch, write)


def number_bytes(kind: Kind, encoding: Encoding = "float", dtype: Dtype = "float32") -> float:
    """How many bytes of an answer one number takes at most."""
    if kind == "npz":
        return _ITEM_SIZES[dtype]
    return _JSON_FLOAT_BYTES if encoding == "float" else _ITEM_SIZES[dtype] * 4 / 3


def json_answer(batch: Batch, write: Write = number_pieces) -> Iterator[bytes]:
    """Write one document: what the model is, `results`, and `usage` at the end."""
    manifest = batch.model.manifest
    head = {
        "model": manifest.name,
        "dimension": manifest.dimension,
        "layers": len(manifest.layers),
        "heads": manifest.heads,
    }
    yield orjson.dumps(head)[:-1] + b',"results":['
    for number, one in enumerate(batch):
        if number:
            yield b","
        yield from _result(one, write)
    counts = batch.counts
    usage = {"tokens": counts.tokens, "oov": counts.unknown, "truncated": counts.truncated}
    yield b'],"usage":' + orjson.dumps(usage) + b"}"


def ndjson_answer(batch: Batch, write: Write = number_pieces) -> Iterator[bytes]:
    """Write a line for each sentence: the same as an entry of `results`."""
    for one in batch:
        yield from _result(one, write)
        yield b"\n"


def _result(one: Encoded, write: Write) -> Iterator[bytes]:
    """Write a sentence and its arrays."""
    yield orjson.dumps(sentence_document(one))[:-1]
    for part, array in one.arrays.items():
        yield b',"%s":' % part.encode()
        yield from write(array)
    yield b"}"
