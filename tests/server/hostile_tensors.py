"""Tensors after their JSON, whose lengths lie or whose bytes are not what they should be."""

from random import Random
from typing import Any

from tests.faults.requests import INFER, MARK, Hostile, sent, text_of

LENGTH = "Inference-Header-Content-Length"
BYTES = "application/octet-stream"
_LENGTHS = (0, 1, 4, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_ODD = ("", "-1", "+1", "1e1", "0x10", "1.0", " 1", "1, 1", "9" * 40, "nan", MARK)


def _element(rng: Random) -> bytes:
    held = rng.choice([MARK.encode(), b"", b"\xff\xfe", b"\x00", b"\xc3", b"a" * 300])
    length = len(held) if rng.random() < 0.6 else rng.choice(_LENGTHS)
    return length.to_bytes(4, "little") + held


def _head(rng: Random, number: int, size: Any) -> bytes:
    shape = rng.choice([[number], [number], [number, 1], [1, number], [number + 1]])
    tensor = {"name": "text", "datatype": "BYTES", "shape": shape}
    tensor["parameters"] = {"binary_data_size": size}
    whole = {"inputs": [tensor], "outputs": [{"name": "offsets"}]}
    whole["parameters"] = {"binary_data_output": rng.random() < 0.5}
    return text_of(whole)


def elements_that_lie(rng: Random) -> Hostile:
    """Elements of which some have another length than they say, and JSON that fits them."""
    number = rng.randrange(1, 6)
    data = b"".join(_element(rng) for _ in range(number))
    data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
    head = _head(rng, number, len(data))
    return sent(INFER, head + data, (LENGTH, str(len(head))), kind=BYTES)


def sizes_that_lie(rng: Random) -> Hostile:
    """Bytes of which the JSON, or the header, says another number than there are."""
    data = b"\x05\x00\x00\x00Apple"
    size = rng.choice([0, 8, 9, 9, 10, -1, 1 << 40, 1 << 63, 9.0, "9", None, True, [9]])
    head = _head(rng, 1, size)
    near = [len(head) + step for step in (-1, 0, 0, 1, 9, 10)]
    said = rng.choice([*_ODD, *map(str, near)])
    return sent(INFER, head + data, (LENGTH, said), kind=BYTES)


def bytes_without_json(rng: Random) -> Hostile:
    """Bytes that have no JSON before them, however long it is said to be."""
    data = rng.randbytes(rng.randrange(64))
    said = rng.choice(["0", str(len(data)), "1", *_ODD])
    return sent(INFER, data, (LENGTH, said), kind=BYTES)


MAKERS = (elements_that_lie, sizes_that_lie, bytes_without_json)
