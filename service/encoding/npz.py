"""The answer for many sentences as one `.npz`, which NumPy reads without pickle."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from service.encoding.documents import sentence_document
from service.encoding.encoder import Encoded, Part

_BY_ROW: tuple[Part, ...] = ("static", "contextual")


def npz_bytes(encoded: Sequence[Encoded]) -> bytes:
    """Write sentences as `.npz`; rows of sentence i are `offsets[i]:offsets[i+1]`.

    `offsets` int64 [S+1]; `static`, `contextual` [N, d]; `attention_0`, … and the other arrays of
    each sentence by its number; `tokens` uint8, the UTF-8 JSON of what is not an array.
    """
    facts = orjson.dumps([sentence_document(one) for one in encoded])
    arrays: dict[str, Any] = {
        "offsets": np.cumsum([0, *(len(one.tokens) for one in encoded)], dtype=np.int64),
        "tokens": np.frombuffer(facts, np.uint8),
    }
    for part in _BY_ROW:
        if part in encoded[0].arrays:
            arrays[part] = np.concatenate([one.arrays[part] for one in encoded])
    for number, one in enumerate(encoded):
        arrays |= {f"{p}_{number}": a for p, a in one.arrays.items() if p not in _BY_ROW}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
