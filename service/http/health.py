"""Whether the process lives, and whether it can answer."""

from flask import Blueprint, Response, current_app

from service.errors import NotReadyError
from service.http.writing import json_response
from service.store.registry import Registry

health = Blueprint("health", __name__)


@health.get("/livez")
def livez() -> Response:
    """Alive: the process answers."""
    return json_response({"status": "alive"})


@health.get("/readyz")
def readyz() -> Response:
    """Ready: the default model is loaded."""
    registry: Registry = current_app.extensions["polyseme-registry"]
    if not registry.ready():
        raise NotReadyError("The default model cannot be used.")
    return json_response({"status": "ready"})
