"""The answer of the Open Inference Protocol as bytes, in pieces that do not grow with it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from polyseme.encoding.answers import number_bytes
from polyseme.encoding.choice import Part, size_of
from polyseme.encoding.encoder import Batch
from polyseme.http.inference_requests import OutputName
from polyseme.http.tensors import (
    ITEM_SIZES,
    Datatype,
    Values,
    binary_pieces,
    element_bytes,
    json_pieces,
)

VERSION = "1"
"""Of every model: a name has one model at a time."""
DATATYPES: dict[OutputName, Datatype] = {
    "static": "FP32",
    "contextual": "FP32",
    "attention": "FP32",
    "offsets": "INT64",
    "attention_offsets": "INT64",
    "tokens": "BYTES",
}
"""The outputs, in the order of an answer to who names none."""


class Output(NamedTuple):
    """A tensor of the answer."""

    name: OutputName
    binary: bool
    """as bytes after the JSON"""


def largest_number(outputs: Iterable[Output]) -> float:
    """How many bytes of the answer one number takes at most."""
    in_json = any(not one.binary and DATATYPES[one.name] == "FP32" for one in outputs)
    return number_bytes("json") if in_json else ITEM_SIZES["FP32"]


def answer(
    batch: Batch, outputs: Sequence[Output], identity: str | None
) -> tuple[Iterator[bytes], int | None]:
    """Write the answer; say how many bytes of it are JSON where others follow.

    The JSON of a small answer is written once, that of a large one counted first.
    """
    after = [one.name for one in outputs if one.binary]
    head: Iterable[bytes] = _head(batch, outputs, identity)
    if not after:
        return iter(head), None
    if not batch.large:
        head = list(head)
    length = sum(map(len, _head(batch, outputs, identity) if batch.large else head))
    tensors = (binary_pieces(_values(batch, name)) for name in after)
    return chain(head, chain.from_iterable(tensors)), length


def _head(batch: Batch, outputs: Sequence[Output], identity: str | None) -> Iterator[bytes]:
    """Write the JSON: what is said of the tensors, and those that are in it."""
    counts = batch.counts
    facts = {
        "model_name": batch.model.manifest.name,
        "model_version": VERSION,
        **({} if identity is None else {"id": identity}),
        "parameters": {
            "layers": len(batch.layers),
            "heads": 1 if batch.choice.mean_of_heads else batch.model.manifest.heads,
            "tokens": counts.tokens,
            "oov": counts.unknown,
            "truncated": counts.truncated,
        },
    }
    yield orjson.dumps(facts)[:-1] + b',"outputs":['
    for place, one in enumerate(outputs):
        yield b"," if place else b""
        yield orjson.dumps(_described(batch, one))[:-1]
        if not one.binary:
            yield b',"data":'
            yield from json_pieces(_values(batch, one.name))
        yield b"}"
    yield b"]}"


def _described(batch: Batch, output: Output) -> dict[str, Any]:
    name = output.name
    shape, datatype = _shape(batch, name), DATATYPES[name]
    facts: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    if output.binary:
        if datatype == "BYTES":
            size = sum(element_bytes(texts) for texts in _tokens(batch))
        else:
            size = int(np.prod(shape, dtype=np.int64)) * ITEM_SIZES[datatype]
        facts["parameters"] = {"binary_data_size": size}
    return facts


def _shape(batch: Batch, name: OutputName) -> list[int]:
    if name in {"static", "contextual"}:
        return [batch.counts.tokens, batch.model.manifest.dimension]
    if name == "attention":
        return [int(_attention_offsets(batch)[-1])]
    return [batch.counts.tokens if name == "tokens" else len(batch.lengths) + 1]


def _values(batch: Batch, name: OutputName) -> Iterable[Values]:
    """The values of a tensor, of one sentence after another."""
    if name == "offsets":
        return [np.cumsum([0, *batch.lengths], dtype=np.int64)]
    if name == "attention_offsets":
        return [_attention_offsets(batch)]
    return _tokens(batch) if name == "tokens" else _numbers(batch, name)


def _numbers(batch: Batch, part: Part) -> Iterator[NDArray[np.float32]]:
    for one in batch.through({part}):
        yield one.arrays[part].reshape(-1)


def _tokens(batch: Batch) -> Iterator[list[str]]:
    for one in batch.through(()):
        yield [token.text for token in one.tokens]


def _attention_offsets(batch: Batch) -> NDArray[np.int64]:
    """Where the attention of each sentence begins, and that of the last one ends. -> [S + 1]"""
    choice = replace(batch.choice, include=frozenset({"attention"}))
    size = size_of(batch.model, choice, len(batch.layers))
    return np.cumsum([0, *map(size.numbers, batch.lengths)], dtype=np.int64)
