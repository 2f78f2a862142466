"""Fields of a request that do not go together."""

import pytest

from polyseme.operations.compare import CompareRequest
from polyseme.operations.neighbors import NeighborsRequest
from polyseme.operations.trace import TraceRequest
from tests.operations.calls import rejected

OTHER = {"text": "a bank", "word": "bank"}
MATRIX = [[1.0]]
WORDS = {"text": ["bank"]}


def occurrence(**fields):
    return CompareRequest, {"occurrences": [OTHER, {"text": "bank", **fields}]}


@pytest.mark.parametrize(
    ("request_of", "pointer", "message"),
    [
        (occurrence(), "/occurrences/1", "give either `word` or both"),
        (occurrence(start=0), "/occurrences/1", "give either `word` or both"),
        (occurrence(word="bank", start=0, end=4), "/occurrences/1", "give either `word` or both"),
        (occurrence(start=0, end=4, nth=0), "/occurrences/1", "`nth` requires `word`"),
        (occurrence(start=2, end=2), "/occurrences/1", "a non-empty span of the text"),
        (occurrence(start=0, end=5), "/occurrences/1", "a non-empty span of the text"),
        (occurrence(index=0), "/occurrences/1", "`index` requires a list of words in `text`"),
        (occurrence(**WORDS, index=0, nth=0), "/occurrences/1", "`nth` requires `word`"),
        (occurrence(**WORDS, word="a", index=0), "/occurrences/1", "give either `word` or both"),
        (occurrence(**WORDS, start=0, end=1), "/occurrences/1", "`start` and `end` require a str"),
        (occurrence(text={}, word="a"), "/occurrences/1/text", "must be a string or a list of str"),
        (occurrence(text=["a", ["b"]], index=0), "/occurrences/1/text/1", "must be a string"),
        ((NeighborsRequest, {}), "", "give one of `word`, `vector`"),
        ((NeighborsRequest, {"word": "a", "vector": [1.0]}), "", "give one of `word`, `vector`"),
        ((NeighborsRequest, {"word": "a", "negative": ["b"]}), "", "give one of `word`, `vector`"),
        ((NeighborsRequest, {"positive": [], "negative": []}), "", "give one of `word`, `vector`"),
        ((TraceRequest, {}), "", "give one of"),
        ((TraceRequest, {"text": "a", "embeddings": MATRIX}), "", "give one of"),
        ((TraceRequest, {"queries": MATRIX, "keys": MATRIX}), "", "give one of"),
        ((TraceRequest, {"text": "a", "heads": 2, "scale": True}), "", "heads, scale: not used"),
        ((TraceRequest, {"embeddings": MATRIX, "layer": 0}), "", "layer: not used"),
        ((TraceRequest, {"embeddings": MATRIX}), "", "`tokens` is required"),
    ],
)
def test_fields_that_do_not_go_together_are_rejected(request_of, pointer, message):
    kind, fields = request_of
    with rejected(pointer, message):
        kind.of(**fields)
