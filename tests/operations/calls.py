"""Calls of the encoding functions with some options and defaults for the rest."""

import io
import json
from contextlib import contextmanager
from typing import get_args

import numpy as np
import pytest

from polyseme.errors import InvalidError, TooLargeError
from polyseme.operations.compare import CompareRequest, compare
from polyseme.operations.encode import TokenCounts, encode, tokenize
from polyseme.operations.neighbors import NeighborsRequest, neighbors
from polyseme.operations.schema import EncodeOptions, Part
from polyseme.operations.serialize import encode_json, npz_parts
from polyseme.operations.trace import TraceRequest, trace
from polyseme.senses.find import SensesRequest, find_senses
from tests.tiny import LIMITS

EVERY = [*get_args(Part)]


def ask(model, texts, limits=LIMITS, **options):
    """Encode some texts."""
    return encode(model, texts, EncodeOptions(**options), limits)


def ask_one(model, text, **options):
    """Encode one text."""
    return ask(model, [text], **options)[0]


def json_of(model, texts, encoding="float", limits=LIMITS, **options):
    """The response in JSON, as bytes."""
    request = EncodeOptions(encoding=encoding, **options)
    counts = TokenCounts(tokenize(model, texts, request, limits))
    return b"".join(encode_json(model, encode(model, texts, request, limits), counts, request))


def document_of(model, texts, encoding="float", limits=LIMITS, **options):
    """The response in JSON, parsed."""
    return json.loads(json_of(model, texts, encoding, limits, **options))


def npz_of(model, texts, limits=LIMITS, **options):
    """The response in `.npz`, as bytes."""
    encoded = ask(model, texts, limits, **options)
    return b"".join(npz_parts(model.manifest, encoded, EncodeOptions(**options)))


def arrays_of(model, texts, limits=LIMITS, **options):
    """The response in `.npz`, read."""
    with np.load(io.BytesIO(npz_of(model, texts, limits, **options)), allow_pickle=False) as file:
        return dict(file)


def neighbors_of_word(model, word, k, case="auto"):
    """The words nearest to a word."""
    return neighbors(model, NeighborsRequest(word=word, k=k, case=case)).neighbors


def neighbors_of_vector(model, vector, k):
    """The words nearest to a vector."""
    found = neighbors(model, NeighborsRequest(vector=vector, k=k))
    assert found.resolution is None
    return found.neighbors


def compare_occurrences(model, occurrences, limits=LIMITS, **fields):
    """The comparison of any number of occurrences."""
    request = CompareRequest.model_construct(occurrences=occurrences, **fields)
    return compare(model, request, limits)


def senses_in(model, word, texts, limits=None, **fields):
    """The senses of a word in texts."""
    request = SensesRequest.model_construct(word=word, texts=texts, **fields)
    return find_senses(model, request, limits)


def senses_of_occurrences(model, occurrences, limits=None, **fields):
    """The senses of given occurrences."""
    request = SensesRequest.model_construct(occurrences=occurrences, **fields)
    return find_senses(model, request, limits)


def trace_text(model, text, layer=0, limits=LIMITS):
    """The trace of a text."""
    return trace(model, TraceRequest(text=text, layer=layer), limits)


@contextmanager
def rejected(pointer, message):
    """See an InvalidError of one field, whose message has these words."""
    with pytest.raises(InvalidError) as caught:
        yield
    (error,) = caught.value.errors
    assert error.pointer == pointer
    assert message in error.message


@contextmanager
def too_large(**expected):
    """See a TooLargeError with a setting, its limit and a size."""
    with pytest.raises(TooLargeError) as caught:
        yield
    assert caught.value.extra == expected


def same_bits(a, b):
    """Whether two encoded sentences are the same to the last bit."""
    return a.tokens == b.tokens and {n: as_bits(x) for n, x in a.arrays.items()} == {
        n: as_bits(x) for n, x in b.arrays.items()
    }


def as_bits(array):
    """The shape and the bytes of a float32 array."""
    assert array.dtype == np.float32
    return array.shape, array.tobytes()
