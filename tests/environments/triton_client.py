"""Print results and errors of Triton's client as JSON. Arguments: HOST:PORT KEY."""

import asyncio
import json
import sys

import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

address, key = sys.argv[1:]
KEY = {"Authorization": f"Bearer {key}"}
TEXTS = ["apple bank", "", "Zoë river"]
NAMES = ["static", "contextual", "attention", "offsets", "attention_offsets", "tokens"]
client = triton.InferenceServerClient(address)


def tensor(texts=TEXTS, *, binary=True):
    inputs = triton.InferInput("text", [len(texts)], "BYTES")
    return [inputs.set_data_from_numpy(np.array(texts, np.object_), binary_data=binary)]


def outputs(*names, binary):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in names]


def arrays(result):
    """The tensors of a result as lists; binary texts are bytes, those in JSON are strings."""
    found = {one["name"]: result.as_numpy(one["name"]) for one in result.get_response()["outputs"]}
    lists = {name: array.tolist() for name, array in found.items()}
    if "tokens" in lists:
        lists["tokens"] = [v.decode() if isinstance(v, bytes) else v for v in lists["tokens"]]
    return lists


def infer(inputs, headers=KEY, **fields):
    # A copy, because the client changes its argument.
    return client.infer("tiny", inputs, headers=dict(headers), **fields)


def error_of(inputs, **fields):
    """The status and the message of an error."""
    try:
        infer(inputs, **fields)
    except InferenceServerException as error:
        return error.status(), error.message()
    raise AssertionError("no error")


async def asynchronous():
    """Two concurrent requests of the asynchronous client."""
    async with tritonclient.http.aio.InferenceServerClient(address) as async_client:
        live = await async_client.is_server_live()
        calls = [async_client.infer("tiny", tensor(), headers=dict(KEY)) for _ in range(2)]
        return live, [arrays(result) for result in await asyncio.gather(*calls)]


one = infer(tensor(), request_id="seven", model_version="1")
mixed = [*outputs("tokens", "static", binary=True), *outputs("offsets", binary=False)]
in_json = {**KEY, "Content-Type": "application/json"}  # the client itself sends none
results = {
    "ready": [
        client.is_server_live(),
        client.is_server_ready(),
        client.is_model_ready("tiny", headers=KEY),
        client.is_model_ready("tiny", "1", headers=KEY),
    ],
    "other_ready": client.is_model_ready("none", headers=KEY),
    "id": one.get_response()["id"],
    "every": arrays(one),
    "in_json": arrays(
        infer(tensor(binary=False), in_json, outputs=outputs(*NAMES, binary=False)),
    ),
    "mixed": arrays(infer(tensor(), outputs=mixed)),
    "asked": arrays(infer(tensor(["APPLE"]), parameters={"case": "lower"})),
    "twin": asyncio.run(asynchronous()),
    "refused": {
        "no key": error_of(tensor(), headers={}),
        "not UTF-8": error_of(tensor([b"\xff"])),
    },
}
client.close()
sys.stdout.write(json.dumps(results))
