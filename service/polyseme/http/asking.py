"""What a computing route asks of the application: a model, and how much a request may want."""

from flask import current_app, g

from polyseme.encoding.limits import Limits
from polyseme.http.upkeep import registry_of
from polyseme.models.model import Model


def model_asked_for(name: str | None) -> Model:
    """A model, the default one without a name; it is entered into the request's account.

    Raises UnknownModelError or ModelFolderError.
    """
    model = registry_of(current_app).model(name)
    g.account.model = model.manifest.name
    return model


def request_limits() -> Limits:
    """How much one request may ask for."""
    limits: Limits = current_app.extensions["polyseme-limits"]
    return limits
