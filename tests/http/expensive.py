"""Requests that cost much for their size: those that an attack has found, and their kin."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import orjson

from tests.http.service import inventory_document

INFER = "/v2/models/wiki-en/infer"
NDJSON, NPZ = "application/x-ndjson", "application/x-npz"
MAX_BODY = 4 << 20
BANKS = "bank of " * 500
ALL_PARTS = [
    *("static", "contextual", "features", "attention", "contributions"),
    *("queries", "keys", "values", "scores"),
]


class Expensive(NamedTuple):
    """A request."""

    path: str
    body: bytes
    headers: dict[str, str]


def words(count: int, seed: int = 0) -> str:
    """A text of words that no vocabulary has, hardly any of them twice."""
    rng = Random(seed)
    return " ".join(
        "".join(rng.choices("bcdfghjklmnpqrstvwxyz", k=3)) + rng.choice("aeiou")
        for _ in range(count)
    )


def post(path: str, accept: str = "application/json", **body: Any) -> Expensive:
    content = orjson.dumps(body)
    assert len(content) <= MAX_BODY, (path, len(content))
    return Expensive(path, content, {"Accept": accept})


def infer(texts: list[str], output: str, **parameters: Any) -> Expensive:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}
    return post(INFER, inputs=[tensor], outputs=[{"name": output}], parameters=parameters)


def repeated(before: bytes, entry: bytes, after: bytes) -> bytes:
    """A body with as many entries of a list as fit."""
    count = (MAX_BODY - len(before) - len(after)) // (len(entry) + 1)
    return before + b",".join([entry] * count) + after


def centroids(size: int) -> dict[str, Any]:
    """An inventory of so many bytes with long strings among the numbers of its centroids."""
    inventory = inventory_document()
    for sense in inventory["senses"]:
        sense["centroid"] = [0.0] * 100 + ["a" * (size // len(inventory["senses"]))] + [0.0] * 100
    return inventory


def named() -> Iterator[tuple[str, Expensive]]:
    """Yield the name and the request of each."""
    most = {"examples": 100, "keywords": 100, "neighbors": 100, "map": True, "senses": 20}
    texts = [f"{BANKS} {n}" for n in range(4)]
    yield "senses, divisions", post("/v1/senses", word="bank", texts=texts, divisions=True, **most)
    texts = [f"bank {words(12, n)}" for n in range(5000)]
    yield "senses, many", post("/v1/senses", word="bank", texts=texts, divisions=True, **most)
    strings = {"inventory": centroids(3_900_000), "texts": ["bank"]}
    yield "apply, strings", post("/v1/senses/apply", **strings)
    inventory = inventory_document()
    texts = ["bank " * 1000] * 4
    yield "apply, occurrences", post("/v1/senses/apply", inventory=inventory, texts=texts)
    texts = [words(900, n) for n in range(180)]
    phrases = {"phrases": True, "include": ["static"]}
    yield "encode, phrases", post("/v1/encode", NDJSON, input=texts, **phrases)
    occurrences = [{"text": f"{text} bank", "word": "bank"} for text in texts[:64]]
    compared = {"neighbors": 100, "map": True}
    yield "compare, phrases", post("/v1/compare", occurrences=occurrences, phrases=True, **compared)
    yield "compare, texts", post("/v1/compare", occurrences=occurrences, **compared)
    fields = b",".join(b'"%d":0' % n for n in range(380_000))
    yield "unknown fields", Expensive("/v1/encode", b"{%b}" % fields, {})
    rows = repeated(b'{"tokens":["a"],"embeddings":[', b"[0]", b"]}")
    yield "trace, rows", Expensive("/v1/trace", rows, {})
    yield "trace, marks", post("/v1/trace", text="\u0316" * 2_000_000)
    yield "infer, attention", infer(["a " * 1000] * 7, "attention", binary_data_output=True)
    deep = {"model": "wiki-en-deep", "include": ["attention"]}
    yield "deep, a line", post("/v1/encode", NDJSON, input=["a " * 620], **deep)
    yield "deep, npz", post("/v1/encode", NPZ, input=["a " * 1000], **deep)
    every = {"model": "wiki-en-deep", "include": ALL_PARTS, "encoding": "base64"}
    yield "deep, all arrays", post("/v1/encode", input=["a " * 700], **every)
    texts = [
        f"the river bank is near the money bank and the boats lie there {n}" for n in range(16_384)
    ]
    yield "embeddings, texts", post("/v1/embeddings", input=texts)
    known = {"include": [], "truncate": True}
    for name, text in (
        ("signs", "、。" * 650),
        ("emoji", "👩\u200d💻🇩🇪" * 200),
        ("unknown words", words(700)),
        ("one word", "1," * 2_000_000),
    ):
        count = MAX_BODY // (len(text.encode()) + 8)
        yield f"encode, {name}", post("/v1/encode", input=[text] * count, **known)
    text = words(500)
    yield "encode, oov", post("/v1/encode", input=[text] * 1000, oov="error", truncate=True)


EXPENSIVE = dict(named())
LARGEST = ("infer, attention", "deep, a line", "deep, npz", "deep, all arrays")
"""The requests with the largest responses."""
