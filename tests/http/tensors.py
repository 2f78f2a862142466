"""Requests of the Open Inference Protocol, and the tensors of its responses."""

import json

import httpx
import numpy as np
from docs.openapi import InferResponse

KEY = {"Authorization": "Bearer plain-key"}
LENGTH = "Inference-Header-Content-Length"
_DTYPES = {"FP32": "<f4", "INT64": "<i8"}


def request(texts=("apple bank",), shape=None, **fields) -> dict:
    """The body of a request for one row of texts."""
    shape = [len(texts)] if shape is None else shape
    return {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": shape, "data": list(texts)}],
        **fields,
    }


def packed(texts) -> bytes:
    """The elements of a BYTES tensor, each after its length."""
    elements = [text.encode() for text in texts]
    return b"".join(len(one).to_bytes(4, "little") + one for one in elements)


def binary_request(texts, **fields) -> tuple[bytes, int]:
    """A body with the sentences as bytes after its JSON, and the length of the JSON."""
    body, data = request(texts, **fields), packed(texts)
    del body["inputs"][0]["data"]
    body["inputs"][0]["parameters"] = {"binary_data_size": len(data)}
    head = json.dumps(body).encode()
    return head + data, len(head)


def post(client, body, model="tiny", headers=()) -> httpx.Response:
    path = f"/v2/models/{model}/infer"
    if isinstance(body, dict):
        return client.post(path, json=body, headers={**KEY, **dict(headers)})
    return client.post(path, content=body, headers={**KEY, **dict(headers)})


def tensors_of(answer: httpx.Response) -> dict[str, np.ndarray]:
    """The tensors of a response, read as the protocol specifies."""
    assert answer.status_code == 200, answer.text
    length = int(answer.headers.get(LENGTH, len(answer.content)))
    document, rest = json.loads(answer.content[:length]), answer.content[length:]
    InferResponse.model_validate(document)
    found = {}
    for one in document["outputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        if size is None:
            values = one["data"]
        else:
            data, rest = rest[:size], rest[size:]
            if one["datatype"] == "BYTES":
                values = unpacked(data)
            else:
                values = np.frombuffer(data, _DTYPES[one["datatype"]])
        dtype = _DTYPES.get(one["datatype"], object)
        found[one["name"]] = np.array(values, dtype).reshape(one["shape"])
    assert not rest
    return found


def unpacked(data: bytes) -> list[str]:
    """The texts of a BYTES tensor."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "little")
        found.append(data[4 : 4 + size].decode())
        data = data[4 + size :]
    return found
