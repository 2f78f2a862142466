"""The state shared by the routes: settings, models, limits, keys and the draining flag."""

import logging
import mmap
from dataclasses import dataclass, field

from flask import current_app, request

from polyseme.errors import DrainingError, NotReadyError
from polyseme.http.auth import ApiKeyAuth
from polyseme.http.context import CONTEXT
from polyseme.http.rate_limits import RateLimits
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.operations.limits import Limits
from polyseme.settings import Settings

_log = logging.getLogger("polyseme")
# Waiting, which other errors with status 503 advise, does not help: an operator must act.
_SELECT = "Add the model on the server, or set POLYSEME_MODEL to one that GET /v1/models lists."
_REPAIR = (
    "Repair the model on the server, where `polyseme models verify NAME` reports the problem; the"
    " next request finds the repaired files."
)


@dataclass(frozen=True)
class Service:
    """The state of one application; gunicorn's workers inherit it from the master."""

    settings: Settings
    models: Registry
    limits: Limits
    auth: ApiKeyAuth
    rate_limits: RateLimits
    _draining: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1))
    """one byte of memory shared by the master and its workers"""

    def start_draining(self) -> None:
        """Make `/readyz` fail in every process."""
        self._draining[0] = 1

    @property
    def draining(self) -> bool:
        """Whether the service is shutting down."""
        return self._draining[0] == 1

    def reload(self) -> None:
        """Reload changed keys and models; log failures and keep the previous ones."""
        for name, load in (("keys", self.auth.refresh), ("models", self.models.load)):
            try:
                load()
            except Exception:  # noqa: BLE001 - no error may stop the service
                _log.exception("polyseme: the %s could not be reloaded", name)
        self.log_problems()

    def log_problems(self) -> None:
        """Log a warning for each model with a problem."""
        for name, state in self.models.states().items():
            if state.problem:
                _log.warning("polyseme: %s is %s: %s", name, state.status, state.problem)

    def find_model(self, name: str | None) -> Model:
        """Return a model (None: the default one); raise UnknownModelError or ModelFolderError."""
        model = self.models.model(name)
        request.environ[CONTEXT].model = model.manifest.name
        return model

    def not_ready(self) -> NotReadyError | None:
        """Return an error if the service is not ready, else None."""
        if self.draining:
            return DrainingError()
        if self.models.ready():
            return None
        state = self.models.states().get(self.models.default)
        problem = "no model has its name." if state is None else state.problem
        if problem is None:
            return NotReadyError("The default model cannot be used: it is being loaded.")
        detail = f"The default model cannot be used: {problem}"
        return NotReadyError(detail, hint=_REPAIR if state else _SELECT)


def current_service() -> Service:
    """Return the service of the current application."""
    service: Service = current_app.extensions["polyseme"]
    return service
