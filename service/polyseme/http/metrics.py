"""/metrics, for Prometheus: what all processes of the service count (`tally.py`, `shares.py`)."""

from flask import Blueprint, Flask, Response, current_app, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from polyseme.http import tally
from polyseme.http.accounts import at_the_end
from polyseme.http.ledger import ledger
from polyseme.http.shares import shares
from polyseme.http.upkeep import registry_of
from polyseme.settings import Settings

metrics = Blueprint("metrics", __name__)


def init_app(app: Flask, settings: Settings) -> None:
    """Count every request, unless the settings have it off."""
    if settings.metrics == "off":
        return
    at_the_end(app, ledger.enter)
    app.register_blueprint(metrics)


@metrics.get("/metrics")
def exposition() -> Response:
    """The numbers, as text or as OpenMetrics."""
    ledger.settle()
    tally.stand(registry_of(current_app))
    encode, kind = choose_encoder(request.environ.get("HTTP_ACCEPT", ""))
    return Response(encode(_all()), content_type=kind)


def _all() -> CollectorRegistry:
    """The numbers of every process, or of this one alone."""
    if shares.folder is None:
        return tally.REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(shares.folder))  # type: ignore[no-untyped-call]
    return registry


def touch(app: Flask) -> None:
    """Make the metrics of an application, in the process that its workers are forked from."""
    tally.touch(app.url_map, registry_of(app).names)
