"""Encoding with the choices of a test and defaults for the rest."""

from typing import get_args

import numpy as np

from service.encoding.encoder import Choice, Part, encode
from service.encoding.stages import Stages
from tests.tiny import LIMITS

EVERY = frozenset(get_args(Part))


def ask(model, texts, limits=LIMITS, stages=None, **choice):
    return encode(model, texts, Choice(**choice), limits, stages or Stages())


def ask_one(model, text, **choice):
    return ask(model, [text], **choice)[0]


def same_bits(a, b):
    """Whether two answers of a sentence are the same to the last bit."""
    return a.tokens == b.tokens and {n: as_bits(x) for n, x in a.arrays.items()} == {
        n: as_bits(x) for n, x in b.arrays.items()
    }


def as_bits(array):
    assert array.dtype == np.float32
    return array.shape, array.tobytes()
