"""Well-formed requests to every route, and the parts that hostile ones are made of."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from tests.api.problem import SECRET

MARK = SECRET
"""Stands in every hostile request that has room for it, and in no refusal."""


class Hostile(NamedTuple):
    """A request, and what may become of it."""

    sent: bytes
    answers: int = 1
    """how many answers it may have at most"""
    kept: bool = False
    """whether it is well-formed HTTP, so that its connection goes on"""
    head: bool = False
    """whether its answer has no body"""
    kind: str = ""


NAME, JSON = "wiki-en", "application/json"
INFER = f"/v2/models/{NAME}/infer"
TEXT = f"Apple launched a phone {MARK} while I ate an apple."
BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/encode": [
        {"input": TEXT},
        {"input": [TEXT, "the bank"], "include": ["static"], "encoding": "base64"},
        {
            "input": [["the", MARK, "bank"], ["river"]],
            "model": NAME,
            "include": ["contextual", "attention", "queries", "keys", "values", "scores"],
            "layers": [0],
            "heads": "mean",
            "oov": "zero",
            "case": "lower",
            "truncate": True,
            "encoding": "float",
            "dtype": "float16",
        },
        {"input": TEXT, "oov": "error", "layers": "last", "case": "exact"},
    ],
    "/v1/compare": [
        {
            "occurrences": [
                {"text": "an apple a day", "word": "apple", "nth": 0},
                {"text": f"{MARK} apple", "start": 9, "end": 14},
            ],
            "neighbors": 0,
            "map": True,
            "model": NAME,
            "case": "auto",
        }
    ],
    "/v1/trace": [
        {"text": "the bank", "model": NAME, "layer": 0, "case": "auto"},
        {
            "tokens": ["a", MARK],
            "embeddings": [[1.0, 0.5], [0.25, 2.0]],
            "weights": {
                "query": [[1, 0], [0, 1]],
                "key": [[1, 2], [3, 4]],
                "output": [[1, 0], [0, 1]],
            },
            "heads": 2,
            "scale": True,
            "convention": "column",
        },
        {"tokens": ["a"], "queries": [[1.5]], "keys": [[2]], "values": [[3, 4]]},
    ],
    "/v1/neighbors": [
        {"word": "apple", "k": 2, "model": NAME, "case": "auto"},
        {"vector": [0.5] * 300, "k": 1},
        {"word": MARK},
    ],
    "/v1/embeddings": [
        {"input": TEXT},
        {
            "input": [TEXT, "the bank"],
            "model": NAME,
            "encoding_format": "base64",
            "dimensions": 7,
            "user": MARK,
        },
    ],
    INFER: [
        {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [TEXT]}]},
        {
            "id": "seven",
            "inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [2, 1], "data": [[TEXT], ["a"]]},
            ],
            "outputs": [
                {"name": "attention", "parameters": {"binary_data": True}},
                {"name": "tokens"},
            ],
            "parameters": {"layers": "0", "heads": "mean", "case": "lower", "truncate": True},
        },
    ],
}
ROUTES = tuple(BODIES)
PATHS = (
    *ROUTES,
    *("/v1/models", f"/v1/models/{NAME}", "/livez", "/readyz", "/openapi.json", "/docs", "/"),
    *("/v2", "/v2/health/ready", f"/v2/models/{NAME}", f"/v2/models/{NAME}/ready"),
)


def body_of(rng: Random, path: str | None = None) -> tuple[str, dict[str, Any]]:
    """A route, and a copy of a well-formed body for it."""
    path = path or rng.choice(ROUTES)
    return path, json.loads(json.dumps(rng.choice(BODIES[path])))


def text_of(document: Any) -> bytes:
    """A document as JSON."""
    return json.dumps(document).encode()


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: what it is in, and its key or index."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(inside)[:8]:
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


def headed(
    method: str, target: str, headers: tuple[tuple[str, str], ...] = (), body: bytes = b""
) -> bytes:
    """A request with such headers, whatever is in them."""
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *(f"{name}: {one}" for name, one in headers)]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace") + body


def posted(path: str, body: bytes, *headers: tuple[str, str], kind: str = JSON) -> bytes:
    """A request with a body that is declared as it is."""
    declared = (("Content-Type", kind), ("Content-Length", str(len(body))))
    return headed("POST", path, (*declared, *headers), body)


def sent(path: str, body: bytes, *headers: tuple[str, str], kind: str = JSON) -> Hostile:
    """A body in a request that is well-formed HTTP."""
    return Hostile(posted(path, body, *headers, kind=kind), kept=True)


def valid(rng: Random) -> bytes:
    """A request that nothing is wrong with."""
    if rng.random() < 0.2:
        return headed("GET", rng.choice(PATHS[len(ROUTES) :]))
    path, document = body_of(rng)
    return posted(path, text_of(document))
