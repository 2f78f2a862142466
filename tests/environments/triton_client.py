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
TEXTS = np.array(["apple bank", "", "Zoë river"], np.object_)
NAMES = ["static", "contextual", "attention", "offsets", "attention_offsets", "tokens"]
client = triton.InferenceServerClient(address)


def described(array):
    """The dtype, the shape and the values of an array."""
    if array.dtype == np.object_:
        # Binary tensors have bytes, JSON has strings.
        array = np.array([v.decode() if isinstance(v, bytes) else v for v in array], np.object_)
    return {"dtype": str(array.dtype), "shape": array.shape, "values": array.tolist()}


def tensor(texts=TEXTS, *, binary=True, name="text", kind="BYTES"):
    inputs = triton.InferInput(name, list(texts.shape), kind)
    return [inputs.set_data_from_numpy(texts, binary_data=binary)]


def outputs(*names, binary):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in names]


def arrays(result):
    return {
        one["name"]: described(result.as_numpy(one["name"]))
        for one in result.get_response()["outputs"]
    }


def infer(inputs, headers=KEY, model="tiny", **fields):
    # A copy, because the client changes its argument.
    return client.infer(model, inputs, headers=dict(headers), **fields)


def error_of(inputs, **fields):
    """The error of a request."""
    try:
        infer(inputs, **fields)
    except InferenceServerException as error:
        return {"status": error.status(), "said": error.message(), "text": str(error)}
    raise AssertionError("no error")


async def asynchronous():
    """Two concurrent requests of the asynchronous client."""
    async with tritonclient.http.aio.InferenceServerClient(address) as async_client:
        live = await async_client.is_server_live()
        calls = [async_client.infer("tiny", tensor(), headers=dict(KEY)) for _ in range(2)]
        return live, [arrays(result) for result in await asyncio.gather(*calls)]


one = infer(tensor(), request_id="seven", model_version="1")
mixed = [*outputs("tokens", "static", binary=True), *outputs("offsets", binary=False)]
results = {
    "live": client.is_server_live(),
    "ready": client.is_server_ready(),
    "model_ready": client.is_model_ready("tiny", headers=KEY),
    "version_ready": client.is_model_ready("tiny", "1", headers=KEY),
    "other_ready": client.is_model_ready("none", headers=KEY),
    "id": one.get_response()["id"],
    "every": arrays(one),
    "in_json": arrays(
        infer(
            tensor(binary=False),
            headers={**KEY, "Content-Type": "application/json"},  # the client itself sends none
            outputs=outputs(*NAMES, binary=False),
        ),
    ),
    "mixed": arrays(infer(tensor(), outputs=mixed)),
    "plain": arrays(infer(tensor(np.array([b"apple bank", b"river"], np.object_)))),
    "asked": arrays(
        infer(tensor(np.array(["APPLE"], np.object_)), parameters={"case": "lower"}),
    ),
    "twin": asyncio.run(asynchronous()),
    "refused": {
        "no key": error_of(tensor(), headers={}),
        "not UTF-8": error_of(tensor(np.array([b"\xff"], np.object_))),
    },
}
client.close()
sys.stdout.write(json.dumps(results))
