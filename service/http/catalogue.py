"""Which models there are."""

from typing import Any

from flask import Blueprint, Response, current_app

from service.encoding.documents import model_document
from service.errors import ModelFolderError
from service.http.reading import JSON, accepted
from service.http.writing import json_response
from service.store.folder import MANIFEST
from service.store.registry import Registry

catalogue = Blueprint("catalogue", __name__, url_prefix="/v1/models")


@catalogue.get("")
def models() -> Response:
    """All models."""
    accepted(JSON)
    registry = _registry()
    data = [_document(registry, name) for name in registry.names]
    return json_response({"object": "list", "data": data})


@catalogue.get("/<name>")
def model(name: str) -> Response:
    """One model."""
    accepted(JSON)
    return json_response(_document(_registry(), name))


def _document(registry: Registry, name: str) -> dict[str, Any]:
    """OpenAI's shape, and what the manifest says; a model that cannot be read says why."""
    folder = registry.folder(name)
    default = name == registry.default
    document = {"id": name, "object": "model", "owned_by": "polyseme", "default": default}
    try:
        manifest, created = registry.manifest(name), int((folder / MANIFEST).stat().st_mtime)
    except (ModelFolderError, OSError) as error:
        problem = error.sentence if isinstance(error, ModelFolderError) else "The folder is gone."
        return {**document, "created": 0, "status": "broken", "problem": problem}
    return {**document, "created": created, "status": "ok", **model_document(manifest)}


def _registry() -> Registry:
    registry: Registry = current_app.extensions["polyseme-registry"]
    return registry
