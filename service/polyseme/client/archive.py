"""Sentences from the `.npz` that /v1/encode answers with; nothing in it is believed."""

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import orjson
from numpy.lib.format import read_array_header_1_0

from polyseme.client.errors import misshapen
from polyseme.client.results import token_of
from polyseme.client.vectors import Array, Sentence
from polyseme.encoding.choice import BY_PAIR, PER_LAYER, Choice, Part

_MAGIC = b"\x93NUMPY\x01\x00"
_LONGEST_HEADER = 1024
_BY_ROW: tuple[Part, ...] = ("static", "contextual")
_ROWS = 2


def sentences(content: bytes, choice: Choice, number: int) -> list[Sentence]:
    """Read so many sentences; raise AnswerError where they are not what was asked for."""
    try:
        return list(_sentences(_members(content), choice, number))
    except Exception:  # noqa: BLE001 - bytes of anybody; zipfile, NumPy and orjson each have many
        raise misshapen() from None


def _members(content: bytes) -> dict[str, Array]:
    """Read the arrays by their names."""
    with ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        # Compressed, or named again and again, a few bytes could stand for any number of them.
        _require(all(one.compress_type == ZIP_STORED for one in infos))
        _require(len({one.filename for one in infos}) == len(infos))
        return {one.filename: _array(archive.read(one)) for one in infos}


def _array(data: bytes) -> Array:
    """An array of a `.npy`: the bytes that came, so that no header can ask for more memory."""
    _require(data.startswith(_MAGIC))
    start = 10 + int.from_bytes(data[8:10], "little")
    _require(start <= _LONGEST_HEADER)
    shape, dtype = _described(data[8:start])
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


@lru_cache(1024)
def _described(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype that a header tells. Sentences of one length have the same."""
    shape, fortran, dtype = read_array_header_1_0(io.BytesIO(header), _LONGEST_HEADER)
    _require(not fortran and dtype.kind in "fiu" and all(side >= 0 for side in shape))
    return shape, dtype


def _sentences(members: dict[str, Array], choice: Choice, number: int) -> Iterator[Sentence]:
    offsets, facts = members.pop("offsets.npy"), _facts(members.pop("tokens.npy"))
    _require(offsets.dtype == np.int64 and offsets.shape == (number + 1,))
    _require(len(facts) == number)
    places = offsets.tolist()
    lengths = [len(fact["tokens"]) for fact in facts]
    _require(places[0] == 0 and np.diff(offsets).tolist() == lengths)
    rows = {part: members.pop(f"{part}.npy") for part in _BY_ROW if part in choice.include}
    for array in rows.values():
        _require(array.ndim == _ROWS and len(array) == places[-1] and array.shape[1] > 0)
    _require(len({array.shape for array in rows.values()}) <= 1)
    others = [part for part in PER_LAYER if part in choice.include]
    taken = [{part: members.pop(f"{part}_{i}.npy") for part in others} for i in range(number)]
    _require(not members)
    _check(taken, lengths, choice)
    for array in (*rows.values(), *(one for arrays in taken for one in arrays.values())):
        _require(array.dtype == np.dtype(choice.dtype) and np.isfinite(array).all())
    for i, (fact, own) in enumerate(zip(facts, taken, strict=True)):
        of_rows = {part: array[places[i] : places[i + 1]] for part, array in rows.items()}
        # Copies, so that they may be written to, and one sentence does not keep all the others.
        arrays = {part: array.copy() for part, array in (of_rows | own).items()}
        tokens = [token_of(token) for token in fact["tokens"]]
        yield Sentence(tokens, truncated=fact["truncated"], **arrays)


def _facts(array: Array) -> list[dict[str, Any]]:
    """What is said of sentences that is not an array."""
    _require(array.dtype == np.uint8)
    facts = orjson.loads(array.tobytes())
    _require(isinstance(facts, list))
    for fact in facts:
        _require(isinstance(fact["tokens"], list) and type(fact["truncated"]) is int)
    return list(facts)


def _check(taken: list[dict[Part, Array]], lengths: list[int], choice: Choice) -> None:
    """Arrays of a layer and a head each: [L, h, n, …], [L, n, n] as a mean of the heads."""
    kinds: dict[Part, set[tuple[int, ...]]] = {}
    for arrays, n in zip(taken, lengths, strict=True):
        for part, array in arrays.items():
            paired = part in BY_PAIR
            axes = 3 if paired and choice.mean_of_heads else 4
            _require(array.ndim == axes and array.shape[-2] == n)
            _require(not paired or array.shape[-1] == n)
            _require(choice.layers == "all" or len(array) == _layers(choice))
            kinds.setdefault(part, set()).add(array.shape[:-2] + array.shape[-1:][paired:])
    _require(all(len(kind) == 1 for kind in kinds.values()))


def _layers(choice: Choice) -> int:
    return 1 if choice.layers == "last" else len(set(choice.layers))


def _require(so: object) -> None:
    if not so:
        raise ValueError
