"""Encoding with the choices of a test and defaults for the rest."""

import io
import json
from dataclasses import replace
from typing import get_args

import numpy as np

from polyseme.encoding.encode import Batch, Timings, encode
from polyseme.encoding.options import EncodeOptions, Part
from polyseme.encoding.serialize import answer
from tests.tiny import LIMITS

EVERY = frozenset(get_args(Part))
STREAMED = replace(LIMITS, stream_bytes=1)


def ask(model, texts, limits=LIMITS, stages=None, **choice):
    return encode(model, texts, EncodeOptions(**choice), limits, stages or Timings())


def ask_one(model, text, **choice):
    return ask(model, [text], **choice)[0]


def batch_of(model, texts, limits=LIMITS, **choice):
    return Batch(model, texts, EncodeOptions(**choice), limits, Timings())


def written(model, texts, kind="json", encoding="float", limits=LIMITS, **choice):
    """The bytes of an answer, which is held first where it is small, as a service does."""
    batch = batch_of(model, texts, limits, **choice)
    if not batch.large:
        batch.hold()
    return b"".join(answer(batch, kind, encoding))


def document_of(model, texts, encoding="float", limits=LIMITS, **choice):
    """The answer in JSON, read."""
    return json.loads(written(model, texts, "json", encoding, limits, **choice))


def arrays_of(model, texts, limits=LIMITS, **choice):
    """The answer in `.npz`, read."""
    data = written(model, texts, "npz", limits=limits, **choice)
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return dict(file)


def same_bits(a, b):
    """Whether two answers of a sentence are the same to the last bit."""
    return a.tokens == b.tokens and {n: as_bits(x) for n, x in a.arrays.items()} == {
        n: as_bits(x) for n, x in b.arrays.items()
    }


def as_bits(array):
    assert array.dtype == np.float32
    return array.shape, array.tobytes()
