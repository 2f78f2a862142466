"""The Open Inference Protocol (version 2) with Triton's binary tensor data extension.

Binary data is little-endian and in C order; an element of a BYTES tensor is its length, an integer
of four bytes, followed by the content. Lengths in a request are checked before memory is allocated.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from flask import Blueprint, Response

from polyseme import __version__
from polyseme.errors import FieldError, FieldPath, InvalidError
from polyseme.http.context import current_context
from polyseme.http.inference_schemas import (
    DATATYPES,
    DEFAULT_OUTPUTS,
    INPUT,
    VERSION,
    InferRequest,
    InputTensor,
    OutputName,
)
from polyseme.http.parsing import BINARY, JSON, negotiate_media_type, read_json_and_bytes
from polyseme.http.routes import json_response
from polyseme.http.service import current_service
from polyseme.operations.encode import Encoded, count_tokens, encode_sentences, tokenize
from polyseme.operations.options import PER_TOKEN, Limits
from polyseme.operations.serialize import number_cost
from polyseme.operations.work import encode_cost
from polyseme.stages import stage

inference = Blueprint("inference", __name__, url_prefix="/v2")

HEADER_LENGTH = "Inference-Header-Content-Length"
_EXTENSIONS = ("binary_tensor_data", "parameters")
_LENGTH_BYTES = 4


class Output(NamedTuple):
    """A requested tensor."""

    name: OutputName
    binary: bool
    """whether it is sent as bytes after the JSON"""


@inference.get("")
def server() -> Response:
    """Return the metadata of the server."""
    negotiate_media_type(JSON)
    return json_response({"name": "polyseme", "version": __version__, "extensions": _EXTENSIONS})


@inference.get("/health/live")
def live() -> Response:
    """Return 200 if the process is running."""
    return json_response({"live": True})


@inference.get("/health/ready")
def ready() -> Response:
    """Return 200 if the default model can be used and the service is not draining."""
    error = current_service().not_ready()
    if error:
        raise error
    return json_response({"ready": True})


@inference.get("/models/<name>", endpoint="metadata")
@inference.get(f"/models/<name>/versions/{VERSION}", endpoint="metadata_of_version")
def metadata(name: str) -> Response:
    """Return the input and output tensors of a model; -1 is a variable size."""
    negotiate_media_type(JSON)
    d = current_service().models.manifest(name).dimension
    row_shapes: dict[str, list[int]] = {part: [width * d] for part, width in PER_TOKEN.items()}
    outputs = [
        {"name": one, "datatype": datatype, "shape": [-1, *row_shapes.get(one, [])]}
        for one, datatype in DATATYPES.items()
    ]
    return json_response(
        {
            "name": name,
            "versions": [VERSION],
            "platform": "polyseme",
            "inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}],
            "outputs": outputs,
        }
    )


@inference.get("/models/<name>/ready", endpoint="model_ready")
@inference.get(f"/models/<name>/versions/{VERSION}/ready", endpoint="model_ready_of_version")
def model_ready(name: str) -> Response:
    """Load the model unless it is loaded, so that `infer` works after a 200."""
    current_service().find_model(name)
    return json_response({"name": name, "ready": True})


@inference.post("/models/<name>/infer", endpoint="infer")
@inference.post(f"/models/<name>/versions/{VERSION}/infer", endpoint="infer_of_version")
def infer(name: str) -> Response:
    """Return the requested tensors of sentences."""
    context, service = current_context(), current_service()
    with stage("parse").since(context.started):
        negotiate_media_type(JSON, BINARY)
        body, rest = read_json_and_bytes(InferRequest, HEADER_LENGTH)
        texts = _sentences(body.inputs[0], rest, service.limits)
        outputs = _requested_outputs(body)
    with stage("tokens"):
        model, limits = service.find_model(name), service.limits
        options = body.options(frozenset(one.name for one in outputs))
        in_json = any(not one.binary and DATATYPES[one.name] == "FP32" for one in outputs)
        try:
            cost = encode_cost(model, options, number_cost("json" if in_json else "npz"))
            sentences = tokenize(
                model, texts, options, limits, lambda n: ("inputs", 0, "data", n), cost
            )
        except InvalidError as error:
            # Name the fields of this protocol, not those of /v1/encode, and drop duplicate errors.
            errors = [FieldError(_path(one.path), one.message) for one in error.errors]
            error.errors = list(dict.fromkeys(errors))
            raise
        counts = count_tokens(sentences)
    encoded = encode_sentences(model, sentences, options)
    with stage("write"):
        facts = {
            "model_name": model.manifest.name,
            "model_version": VERSION,
            **({} if body.id is None else {"id": body.id}),
            "parameters": {
                "layers": len(options.layer_numbers(model)),
                "heads": 1 if options.heads == "mean" else model.manifest.heads,
                "tokens": counts.tokens,
                "oov": counts.oov,
                "truncated": counts.truncated,
            },
        }
        content, length = _serialize(facts, outputs, encoded, model.manifest.dimension)
    limits.check_response_bytes(len(content))
    response = Response(content, content_type=JSON if length is None else BINARY)
    if length is not None:
        response.headers[HEADER_LENGTH] = str(length)
    return response


def _sentences(tensor: InputTensor, rest: bytes, limits: Limits) -> list[str]:
    """Return the sentences of a tensor, from its `data` or from the bytes after the JSON.

    Raises TooLargeError if there are too many, InvalidError if the tensor is invalid.
    """
    count = tensor.shape[0]
    if tensor.shape[1:] not in ([], [1]):
        raise _invalid("must be [S] or [S, 1] for S sentences", "shape")
    limits.check_sentences(count)
    declared = tensor.parameters.binary_data_size if tensor.parameters else None
    if (tensor.data is None) == (declared is None):
        raise _invalid("give either `data` or `binary_data_size`")
    if len(rest) != (declared or 0):
        message = f"must be {len(rest)}, the number of bytes after the JSON"
        raise _invalid(message, "parameters", "binary_data_size")
    if tensor.data is None:
        return _decode_bytes(rest, count)
    found: list[str] = []
    for row in tensor.data:
        one = [row] if isinstance(row, str) else row
        if len(one) != 1 or (isinstance(row, list) and len(tensor.shape) == 1):
            raise _invalid("is not nested according to its shape", "data")
        found += one
    if len(found) != count:
        raise _invalid("does not have the number of elements of the shape", "data")
    return found


def _decode_bytes(data: bytes, count: int) -> list[str]:
    """Return the `count` strings of a BYTES tensor; raise InvalidError for other data."""
    found: list[str] = []
    end = 0
    while end < len(data):
        if len(found) == count:
            raise _invalid("has more bytes than the elements of its shape need")
        start = end + _LENGTH_BYTES
        end = start + int.from_bytes(data[end:start], "little")
        if end > len(data) or start > len(data):
            raise _invalid(f"element {len(found)} is longer than the rest of the bytes")
        try:
            found.append(data[start:end].decode())
        except UnicodeDecodeError:
            raise _invalid(f"element {len(found)} is not UTF-8") from None
    if len(found) < count:
        raise _invalid("has fewer elements than its shape")
    return found


def _invalid(message: str, *path: str) -> InvalidError:
    return InvalidError([FieldError(("inputs", 0, *path), message)])


def _path(path: FieldPath) -> FieldPath:
    """Convert the path of an option: `layers[0]` becomes `parameters.layers`."""
    return path if path[0] == "inputs" else ("parameters", path[0])


def _requested_outputs(body: InferRequest) -> list[Output]:
    """Return the requested outputs, or the default ones; raise InvalidError for a duplicate."""
    binary = body.given_parameters.binary_data_output
    if not body.outputs:
        return [Output(name, binary) for name in DEFAULT_OUTPUTS]
    found: dict[str, Output] = {}
    for place, one in enumerate(body.outputs):
        if one.name in found:
            raise InvalidError([FieldError(("outputs", place, "name"), "is a duplicate")])
        own = one.parameters.binary_data if one.parameters else None
        found[one.name] = Output(one.name, binary if own is None else own)
    return list(found.values())


def _serialize(
    facts: dict[str, Any], outputs: Sequence[Output], encoded: Sequence[Encoded], d: int
) -> tuple[bytes, int | None]:
    """Return the body of the response, and the length of its JSON if bytes follow."""
    described: list[dict[str, Any]] = []
    following: list[bytes] = []
    for output in outputs:
        per_pair = facts["parameters"]["layers"] * facts["parameters"]["heads"]
        values = _tensor(output.name, encoded, d, per_pair)
        facts_of_output: dict[str, Any] = {
            "name": output.name,
            "datatype": DATATYPES[output.name],
            "shape": list(values.shape) if isinstance(values, np.ndarray) else [len(values)],
        }
        if output.binary:
            content = _encode_bytes(values)
            facts_of_output["parameters"] = {"binary_data_size": len(content)}
            following.append(content)
        else:
            flat = values.reshape(-1) if isinstance(values, np.ndarray) else values
            facts_of_output["data"] = flat
        described.append(facts_of_output)
    head = orjson.dumps({**facts, "outputs": described}, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"".join([head, *following]), len(head) if following else None


def _tensor(name: OutputName, encoded: Sequence[Encoded], d: int, per_pair: int) -> Any:
    """Return an array, or strings for `tokens`; attention has `per_pair`·n² values a sentence.

    The array of each sentence is removed, because memory for both would be twice the response.
    """
    if name == "tokens":
        return [token.text for one in encoded for token in one.sentence.words]
    lengths = [len(one.sentence.words) for one in encoded]
    if name == "offsets":
        return np.cumsum([0, *lengths], dtype=np.int64)
    if name == "attention_offsets":
        return np.cumsum([0, *(per_pair * n**2 for n in lengths)], dtype=np.int64)
    if name == "attention":
        parts = [one.arrays.pop(name).reshape(-1) for one in encoded]
        return np.concatenate(parts) if parts else np.empty(0, np.float32)
    empty = np.empty((0, PER_TOKEN[name] * d), np.float32)
    return np.concatenate([empty, *(one.arrays.pop(name) for one in encoded)])


def _encode_bytes(values: Any) -> bytes:
    """Return the bytes of a tensor."""
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    content = [value.encode() for value in values]
    return b"".join(len(one).to_bytes(_LENGTH_BYTES, "little") + one for one in content)
