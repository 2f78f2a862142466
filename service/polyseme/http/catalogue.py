"""Which models there are."""

from typing import Any

from flask import Blueprint, Response, current_app

from polyseme.encoding.documents import model_document
from polyseme.http.reading import JSON, accepted
from polyseme.http.upkeep import registry_of
from polyseme.http.writing import json_response
from polyseme.models.registry import ModelStatus, Registry

catalogue = Blueprint("catalogue", __name__, url_prefix="/v1/models")


@catalogue.get("")
def models() -> Response:
    """All models."""
    accepted(JSON)
    registry = registry_of(current_app)
    data = [_document(registry, name, state) for name, state in registry.states().items()]
    return json_response({"object": "list", "data": data})


@catalogue.get("/<name>")
def model(name: str) -> Response:
    """One model."""
    accepted(JSON)
    registry = registry_of(current_app)
    return json_response(_document(registry, name, registry.state(name)))


def _document(registry: Registry, name: str, state: ModelStatus) -> dict[str, Any]:
    """OpenAI's shape, and what the manifest says; a model with a problem says which."""
    return {
        "id": name,
        "object": "model",
        "owned_by": "polyseme",
        "default": name == registry.default,
        "created": state.created,
        "status": "broken" if state.status == "broken" else "ok",
        **({"problem": state.problem} if state.problem else {}),
        **(model_document(state.manifest) if state.manifest else {}),
    }
