"""The Open Inference Protocol (version 2) with Triton's binary tensor data extension.

Binary data is little-endian and in C order; an element of a BYTES tensor is its length, an integer
of four bytes, followed by the content. Lengths in a request are checked before memory is allocated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import orjson
import regex
from flask import Blueprint, Response, request
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, Tag

from polyseme import __version__
from polyseme.errors import FieldError, InvalidError, NotJsonError, UnsupportedMediaError
from polyseme.http.parsing import (
    JSON,
    negotiate_media_type,
    parse_query_value,
    read_body,
    validate_json,
)
from polyseme.http.routes import current_service, json_response, respond
from polyseme.operations.encode import Encoded, encode_sentences, record_token_counts, tokenize
from polyseme.operations.limits import MAX_VALUE_BYTES, Limits, stage
from polyseme.operations.schema import (
    PER_TOKEN,
    EncodeOptions,
    Layers,
    Part,
    Request,
    SentenceOptions,
    Strings,
    one_of_kinds,
)
from polyseme.operations.serialize import flat_parts, json_parts, little_endian_parts

inference = Blueprint("inference", __name__, url_prefix="/v2")

BINARY = "application/octet-stream"
HEADER_LENGTH = "Inference-Header-Content-Length"
VERSION = "1"
"""The version reported for every model; models are not versioned."""
Datatype: TypeAlias = Literal["BYTES", "FP32", "INT64"]
OutputName: TypeAlias = Literal[
    "static", "contextual", "features", "attention", "offsets", "attention_offsets", "tokens"
]
DATATYPES: dict[OutputName, Datatype] = {
    "static": "FP32",
    "contextual": "FP32",
    "features": "FP32",
    "attention": "FP32",
    "offsets": "INT64",
    "attention_offsets": "INT64",
    "tokens": "BYTES",
}
"""The tensors, in the order of a response to a request without `outputs`."""
_PARTS: tuple[Part, ...] = ("static", "contextual", "features", "attention")
_EXTENSIONS = ("binary_tensor_data", "parameters")
_LENGTH_BYTES = 4
_MAX_SIZE = (1 << 31) - 1
_SIZE = regex.compile(r"[0-9]{1,15}")


ContentType: TypeAlias = Literal["str"] | None
"""How MLServer's codecs name texts; accepted and ignored."""


class InputParameters(Request[None]):
    """The parameters of an input, from the binary tensor data extension and of MLServer."""

    binary_data_size: Annotated[int, Field(ge=0)] | None = None
    """size in bytes of the tensor if it is sent after the JSON, without `data`"""
    content_type: ContentType = None


def _kind_of_data(value: Any) -> str | None:
    if isinstance(value, list):
        return "<nested>" if value and isinstance(value[0], list) else "<flat>"
    return None


class InputTensor(Request[None]):
    """The sentences."""

    name: Literal["text"]
    datatype: Literal["BYTES"]
    shape: list[Annotated[int, Field(ge=1, le=_MAX_SIZE)]] = Field(
        min_length=1, max_length=2, fail_fast=True
    )
    """[S] or [S, 1]"""
    data: (
        Annotated[
            Annotated[Strings, Tag("<flat>")]
            | Annotated[list[Strings], Field(fail_fast=True), Tag("<nested>")],
            one_of_kinds(_kind_of_data, "must be a list of strings, or a list of lists of strings"),
            Field(
                description="a flat list of sentences, or lists of one sentence for the shape"
                " [S, 1]"
            ),
        ]
        | None
    ) = None
    parameters: InputParameters | None = None


class OutputParameters(Request[None]):
    """The parameters of an output, from the binary tensor data extension and of MLServer."""

    binary_data: bool | None = None
    """whether to return the tensor as bytes after the JSON"""
    content_type: ContentType = None


class OutputTensor(Request[None]):
    """A requested output."""

    name: OutputName
    parameters: OutputParameters | None = None


def _layers(value: Any) -> Any:
    """Convert the parameter to `layers` of /v1/encode, for example "0,2" to [0, 2].

    A parameter of this protocol cannot be a list.
    """
    if isinstance(value, str):
        return parse_query_value(EncodeOptions, "layers", [value])
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


class InferParameters(SentenceOptions):
    """Options for all sentences: `binary_data_output`, and fields of /v1/encode."""

    binary_data_output: bool = False
    """the default of each output's `binary_data`"""
    content_type: ContentType = None
    layers: Annotated[Layers, BeforeValidator(_layers)] = "all"


class InferRequest(Request[None]):
    """Sentences, requested outputs and options."""

    id: Annotated[str, Field(max_length=256)] | None = None
    """returned in the response"""
    model_name: str | None = None
    """sent by KServe's client; the path names the model"""
    inputs: list[InputTensor] = Field(min_length=1, max_length=1)
    outputs: Annotated[list[OutputTensor], Field(max_length=16)] | None = None
    """default: all outputs but `features`"""
    parameters: InferParameters | None = None


@inference.get("")
def server() -> Response:
    """Return the metadata of the server."""
    negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON)
    return json_response({"name": "polyseme", "version": __version__, "extensions": _EXTENSIONS})


@inference.get("/health/live")
def live() -> Response:
    """Return 200 if the process is running."""
    return json_response({"live": True})


@inference.get("/health/ready")
def ready() -> Response:
    """Return 200 if the default model can be used and the service is not draining."""
    error = current_service().readiness_error()
    if error:
        raise error
    return json_response({"ready": True})


@inference.get("/models/<name>", endpoint="metadata")
@inference.get(f"/models/<name>/versions/{VERSION}", endpoint="metadata_of_version")
def metadata(name: str) -> Response:
    """Return the input and output tensors of a model; -1 is a variable size."""
    negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON)
    d = current_service().models.manifest(name).dimension
    widths: dict[str, list[int]] = {part: [width * d] for part, width in PER_TOKEN.items()}
    return json_response(
        {
            "name": name,
            "versions": [VERSION],
            "platform": "polyseme",
            "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
            "outputs": [
                {"name": output, "datatype": datatype, "shape": [-1, *widths.get(output, [])]}
                for output, datatype in DATATYPES.items()
            ],
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
    service = current_service()
    limits = service.limits
    negotiate_media_type(request.environ.get("HTTP_ACCEPT"), JSON, BINARY)
    body, rest = _read()
    parameters = body.parameters or InferParameters()
    texts = _sentences(body.inputs[0], rest, limits)
    # The requested tensors, and whether each is sent as bytes after the JSON.
    outputs: dict[OutputName, bool] = {}
    for i, output in enumerate(body.outputs or ()):
        if output.name in outputs:
            raise InvalidError([FieldError(("outputs", i, "name"), "is a duplicate")])
        own = output.parameters.binary_data if output.parameters else None
        outputs[output.name] = parameters.binary_data_output if own is None else own
    if not outputs:
        default = (name for name in DATATYPES if name != "features")
        outputs = dict.fromkeys(default, parameters.binary_data_output)
    model = service.find_model(name)
    with stage("tokens"):
        options = EncodeOptions(
            include=[part for part in _PARTS if part in outputs],
            **parameters.model_dump(exclude={"binary_data_output", "content_type"}),
        )
        in_json = any(not binary and DATATYPES[name] == "FP32" for name, binary in outputs.items())
        try:
            sentences = tokenize(
                model,
                texts,
                options,
                limits,
                lambda n: ("inputs", 0, "data", n),
                number_bytes=MAX_VALUE_BYTES["float" if in_json else "npz"],
            )
        except InvalidError as error:
            # Name the fields of this protocol, not those of /v1/encode: `layers[0]` becomes
            # `parameters.layers`, which several errors may have.
            renamed: dict[FieldError, None] = {}
            for one in error.errors:
                fits = one.path[0] == "inputs"
                renamed[replace(one, path=one.path if fits else ("parameters", one.path[0]))] = None
            error.errors = list(renamed)
            raise
        counts = record_token_counts(sentences)
    encoded = encode_sentences(model, sentences, options)
    with stage("write"):
        facts = {
            "model_name": model.manifest.name,
            "model_version": VERSION,
            **({} if body.id is None else {"id": body.id}),
            "parameters": {
                "layers": len(options.layer_numbers(model)),
                "heads": 1 if options.heads == "mean" else model.manifest.heads,
                **counts.usage,
            },
        }
        parts, length = _serialize(facts, outputs, encoded, model.manifest.dimension)
    response = respond(parts, JSON if length is None else BINARY)
    if length is not None:
        response.headers[HEADER_LENGTH] = str(length)
    return response


def _read() -> tuple[InferRequest, bytes]:
    """Parse and validate JSON with optional bytes after it.

    Clients send such bodies as application/octet-stream or, with the header of the JSON's length,
    without a Content-Type. Raises the errors of `read_json`.
    """
    length = request.headers.get(HEADER_LENGTH)
    # A page of another origin can send a request without a media type, but not with this header.
    kinds = {JSON, BINARY, *([""] if length else [])}
    if request.mimetype not in kinds:
        hint = f"Send the header `Content-Type: {JSON}`, or `{BINARY}` if bytes follow the JSON."
        raise UnsupportedMediaError(f"The Content-Type header is not {JSON} or {BINARY}.", hint)
    content = read_body()
    if length is None:
        return validate_json(InferRequest, content), b""
    if not _SIZE.fullmatch(length) or int(length) > len(content):
        hint = "Omit the header if no bytes follow the JSON."
        raise NotJsonError(f"The header {HEADER_LENGTH} is not a length within the body.", hint)
    size = int(length)
    return validate_json(InferRequest, content[:size]), content[size:]


def _sentences(tensor: InputTensor, rest: bytes, limits: Limits) -> list[str]:
    """Return the sentences of a tensor, from its `data` or from the bytes after the JSON.

    Raises TooLargeError if there are too many, InvalidError if the tensor is invalid.
    """
    count = tensor.shape[0]
    if tensor.shape[1:] not in ([], [1]):
        raise _invalid("must be [S] or [S, 1] for S sentences", "shape")
    limits.check("max_sentences", count)
    declared = tensor.parameters.binary_data_size if tensor.parameters else None
    if (tensor.data is None) == (declared is None):
        raise _invalid("give either `data` or `binary_data_size`")
    if len(rest) != (declared or 0):
        message = f"must be {len(rest)}, the number of bytes after the JSON"
        raise _invalid(message, "parameters", "binary_data_size")
    sentences: list[str] = []
    if tensor.data is None:
        end = 0
        while end < len(rest):
            if len(sentences) == count:
                raise _invalid("has more bytes than the elements of its shape need")
            start = end + _LENGTH_BYTES
            end = start + int.from_bytes(rest[end:start], "little")
            if end > len(rest) or start > len(rest):
                raise _invalid(f"element {len(sentences)} is longer than the rest of the bytes")
            try:
                sentences.append(rest[start:end].decode())
            except UnicodeDecodeError:
                raise _invalid(f"element {len(sentences)} is not UTF-8") from None
        if len(sentences) < count:
            raise _invalid("has fewer elements than its shape")
        return sentences
    for row in tensor.data:
        texts = [row] if isinstance(row, str) else row
        if len(texts) != 1 or (isinstance(row, list) and len(tensor.shape) == 1):
            raise _invalid("is not nested according to its shape", "data")
        sentences += texts
    if len(sentences) != count:
        raise _invalid("does not have the number of elements of the shape", "data")
    return sentences


def _invalid(message: str, *path: str) -> InvalidError:
    return InvalidError([FieldError(("inputs", 0, *path), message)])


def _serialize(
    facts: dict[str, Any], outputs: dict[OutputName, bool], encoded: Sequence[Encoded], d: int
) -> tuple[Iterable[bytes], int | None]:
    """Return the parts of the response, and the length of its JSON if bytes follow."""
    per_pair = facts["parameters"]["layers"] * facts["parameters"]["heads"]
    lengths = [len(result.sentence.tokens) for result in encoded]
    described: list[Iterable[bytes]] = []
    following: list[Iterable[bytes]] = []
    for name, binary in outputs.items():
        arrays: list[NDArray[Any]] = []
        output: dict[str, Any] = {"name": name, "datatype": DATATYPES[name], "shape": []}
        if name == "tokens":
            texts = [token.text for result in encoded for token in result.sentence.tokens]
            output["shape"] = [len(texts)]
            data: Iterable[bytes] = [orjson.dumps(texts)]
            content: Iterable[Any] = [b"".join(map(_length_and_text, texts)) if binary else b""]
            size = sum(map(len, content))
        else:
            if name == "offsets":
                arrays = [np.cumsum([0, *lengths], dtype=np.int64)]
            elif name == "attention_offsets":
                arrays = [np.cumsum([0, *(per_pair * n**2 for n in lengths)], dtype=np.int64)]
            else:
                arrays = [result.arrays[name] for result in encoded]
            count = sum(array.size for array in arrays)
            width = PER_TOKEN[name] * d if name in PER_TOKEN else 0
            output["shape"] = [count // width, width] if width else [count]
            data = flat_parts(arrays)
            content = chain.from_iterable(map(little_endian_parts, arrays))
            size = sum(array.nbytes for array in arrays)
        if binary:
            output["parameters"] = {"binary_data_size": size}
            described.append([orjson.dumps(output)])
            following.append(map(bytes, content))
        else:
            described.append(chain([orjson.dumps(output)[:-1], b',"data":'], data, [b"}"]))
    head = json_parts(facts, "outputs", described, {})
    if not following:
        return head, None
    parts = list(head)
    return chain(parts, *following), sum(map(len, parts))


def _length_and_text(text: str) -> bytes:
    content = text.encode()
    return len(content).to_bytes(_LENGTH_BYTES, "little") + content
