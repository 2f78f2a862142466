"""Whether the process lives, and whether it can answer."""

from typing import Any

import orjson
from flask import Blueprint, Response, current_app, g

from polyseme.errors import DrainingError, NotReadyError
from polyseme.http.draining import draining
from polyseme.http.problems import problem_document
from polyseme.http.upkeep import registry_of
from polyseme.http.writing import json_response
from polyseme.models.registry import ModelStatus, Registry

health = Blueprint("health", __name__)


@health.get("/livez")
def livez() -> Response:
    """Alive: the process answers."""
    return json_response({"status": "alive"})


@health.get("/readyz")
def readyz() -> Response:
    """Ready: the default model is loaded. How the others stand does not matter, but is said."""
    registry = registry_of(current_app)
    error, states = why_not_ready(registry), registry.states()
    models = [_document(name, name == registry.default, one) for name, one in states.items()]
    if error:
        return _problem(error, models)
    return json_response({"status": "ready", "models": models})


def why_not_ready(registry: Registry) -> NotReadyError | None:
    """Why the service cannot answer now; None where it can."""
    if draining():
        return DrainingError()
    if registry.ready():
        return None
    return NotReadyError(_why(registry.states().get(registry.default)))


def _document(name: str, default: bool, state: ModelStatus) -> dict[str, Any]:
    problem = {"problem": state.problem} if state.problem else {}
    return {"id": name, "default": default, "status": state.status, **problem}


def _why(state: ModelStatus | None) -> str:
    if state is None:
        return "The default model cannot be used: no model of its name is here."
    return f"The default model cannot be used: {state.problem or 'it is being read.'}"


def _problem(error: NotReadyError, models: list[dict[str, Any]]) -> Response:
    g.code = error.code
    document = {**problem_document(error, g.request_id), "models": models}
    kind = "application/problem+json"
    return Response(orjson.dumps(document), error.status, error.headers(), content_type=kind)
