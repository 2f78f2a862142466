"""Valid bodies of the routes."""

from typing import Any

from pydantic import BaseModel

from polyseme.http.inference import InferRequest
from polyseme.operations.catalog import OPERATIONS
from polyseme.operations.encode import EncodeRequest
from tests.http.service import inventory_document

TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a bank"]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/encode": {"input": ["a"], "include": ["static"], "layers": [0]},
    "/v1/embeddings": {"input": ["a"]},
    "/v1/compare": {"occurrences": [{"text": "a", "word": "a"}] * 2},
    "/v1/senses": {"word": "a", "texts": ["a"], "forms": ["b"]},
    "/v1/senses/apply": {"inventory": inventory_document(), "texts": ["a"]},
    "/v1/trace": {
        "tokens": ["a"],
        "embeddings": [[1.0]],
        "weights": {name: [[1.0]] for name in ("query", "key", "value", "output")},
    },
    "/v1/neighbors": {"positive": ["bank", [1.0] * 300], "negative": ["river"]},
    "/v2/models/wiki-en/infer": {
        "inputs": [{**TENSOR, "parameters": {}}],
        "outputs": [{"name": "static", "parameters": {}}],
        "parameters": {"layers": [0]},
    },
}
"""A body of each route with all its lists."""
ALTERNATIVES: dict[str, list[dict[str, Any]]] = {
    "/v1/encode": [{"input": [["a"]]}],
    "/v1/embeddings": [{"input": [["a"]]}],
    "/v1/compare": [{"occurrences": [{"text": ["a"], "word": "a"}] * 2}],
    "/v1/senses": [
        {"occurrences": [{"text": "a", "word": "a"}]},
        {"word": "a", "texts": [["a"]]},
    ],
    "/v1/senses/apply": [
        {"inventory": inventory_document(), "occurrences": [{"text": ["a"], "word": "a"}]},
        {"inventory": inventory_document(), "texts": [["a"]]},
    ],
    "/v1/trace": [
        {"tokens": ["a"], "queries": [[1.0]], "keys": [[1.0]], "values": [[1.0]]},
    ],
    "/v1/neighbors": [{"vector": [1.0] * 300}],
}
"""Further bodies, with the lists that exclude others."""
SCHEMAS: dict[str, type[BaseModel]] = {
    "/v1/encode": EncodeRequest,
    **{f"/v1/{one.path}": one.request for one in OPERATIONS.values()},
    "/v2/models/wiki-en/infer": InferRequest,
}
"""The schema of the body of each POST route."""
