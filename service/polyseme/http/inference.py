"""The Open Inference Protocol, version 2: KServe's, and Triton's binary tensor data extension."""

from typing import Any

from flask import Blueprint, Response, current_app, g

from polyseme import __version__
from polyseme.encoding.encoder import Batch
from polyseme.errors import FieldError, InvalidError, ModelFolderError
from polyseme.http.asking import model_asked_for, request_limits
from polyseme.http.health import why_not_ready
from polyseme.http.inference_answers import DATATYPES, VERSION, Output, answer, largest_number
from polyseme.http.inference_requests import INPUT, InferRequest, sentences_of
from polyseme.http.reading import BINARY, JSON, accepted, read_headed
from polyseme.http.upkeep import registry_of
from polyseme.http.writing import json_response, streamed, whole
from polyseme.models.manifest import Manifest

inference = Blueprint("inference", __name__, url_prefix="/v2")

HEADER_LENGTH = "Inference-Header-Content-Length"
_EXTENSIONS = ("binary_tensor_data", "parameters")


@inference.get("")
def server() -> Response:
    """What this server is."""
    accepted(JSON)
    facts = {"name": "polyseme", "version": __version__, "extensions": _EXTENSIONS}
    return json_response(facts)


@inference.get("/health/live")
def live() -> Response:
    """Alive: the process answers."""
    return json_response({"live": True})


@inference.get("/health/ready")
def ready() -> Response:
    """Ready: the default model is loaded, and the service is not told to stop."""
    error = why_not_ready(registry_of(current_app))
    if error:
        raise error
    return json_response({"ready": True})


@inference.get("/models/<name>", endpoint="metadata")
@inference.get(f"/models/<name>/versions/{VERSION}", endpoint="metadata_of_version")
def metadata(name: str) -> Response:
    """The tensors that a model takes and gives; -1 is a length that varies."""
    accepted(JSON)
    tensors = _tensors(_manifest(name))
    facts = {"name": name, "versions": [VERSION], "platform": "polyseme", **tensors}
    return json_response(facts)


@inference.get("/models/<name>/ready", endpoint="model_ready")
@inference.get(f"/models/<name>/versions/{VERSION}/ready", endpoint="model_ready_of_version")
def model_ready(name: str) -> Response:
    """Ready: the model is loaded, or will be at its first use."""
    _manifest(name)
    return json_response({"name": name, "ready": True})


@inference.post("/models/<name>/infer", endpoint="infer")
@inference.post(f"/models/<name>/versions/{VERSION}/infer", endpoint="infer_of_version")
def infer(name: str) -> Response:
    """Tensors of sentences."""
    accepted(JSON, BINARY)
    with g.stages("parse"):
        body, rest = read_headed(InferRequest, HEADER_LENGTH)
        sentences = sentences_of(body.inputs[0], rest, request_limits())
        outputs = _outputs(body)
    batch = _batch(name, sentences, body, outputs)
    g.account.counts = batch.counts
    if not batch.large:
        batch.hold()
    with g.stages("write"):
        pieces, length = answer(batch, outputs, body.id)
        media = JSON if length is None else BINARY
        if batch.large:
            response = streamed(pieces, media, g.request_id)
        else:
            response = whole(pieces, media, request_limits())
    if length is not None:
        response.headers[HEADER_LENGTH] = str(length)
    return response


def _batch(name: str, sentences: list[str], body: InferRequest, outputs: list[Output]) -> Batch:
    """The batch; its errors name the places of this protocol and not those of /v1/encode."""
    choice = body.choice(frozenset(one.name for one in outputs))
    model, size = model_asked_for(name), largest_number(outputs)
    try:
        return Batch(model, sentences, choice, request_limits(), g.stages, size)
    except InvalidError as error:
        error.errors = [FieldError(_pointer(one.pointer), one.message) for one in error.errors]
        raise


def _pointer(pointer: str) -> str:
    """A place of /v1/encode, here; a layer is not always in a list."""
    _, field, *rest = pointer.split("/")
    return "/".join(["/inputs/0/data", *rest]) if field == "input" else f"/parameters/{field}"


def _outputs(body: InferRequest) -> list[Output]:
    """The outputs that are wanted, each once; raise InvalidError."""
    default = body.asked.binary_data_output
    if not body.outputs:
        return [Output(name, default) for name in DATATYPES]
    wanted: dict[str, Output] = {}
    for place, one in enumerate(body.outputs):
        if one.name in wanted:
            raise InvalidError([FieldError(f"/outputs/{place}/name", "is named twice")])
        said = one.parameters.binary_data if one.parameters else None
        wanted[one.name] = Output(one.name, default if said is None else said)
    return list(wanted.values())


def _manifest(name: str) -> Manifest:
    """What a model that can answer says of itself."""
    state = registry_of(current_app).state(name)
    if state.manifest is None:
        raise ModelFolderError(state.problem)
    return state.manifest


def _tensors(manifest: Manifest) -> dict[str, Any]:
    wide = {"static", "contextual"}
    outputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": [-1, manifest.dimension] if name in wide else [-1],
        }
        for name, datatype in DATATYPES.items()
    ]
    return {"inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}], "outputs": outputs}
