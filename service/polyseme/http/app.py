"""The application: wiring, and nothing else."""

from functools import partial

from flask import Flask
from threadpoolctl import threadpool_limits

from polyseme.http import accounts, cors, headers, keys, metrics, problems, proxies, spans, tally
from polyseme.http.catalogue import catalogue
from polyseme.http.documentation import documentation
from polyseme.http.embeddings import embeddings
from polyseme.http.health import health
from polyseme.http.inference import inference
from polyseme.http.page import page
from polyseme.http.routes import routes
from polyseme.http.upkeep import keep, report
from polyseme.models.registry import Registry
from polyseme.settings import Settings


def create_app(settings: Settings | None = None, registry: Registry | None = None) -> Flask:
    """Make the WSGI application, its models loaded as the settings say, where they can be.

    One BLAS thread: several in each of several workers only get into each other's way, and the
    bits of an answer would depend on their number.
    """
    threadpool_limits(1)
    settings = settings or Settings()
    app = Flask("polyseme", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.url_map.merge_slashes = False
    registry = registry or Registry.of(
        settings.models_dir,
        settings.model,
        verify=settings.verify_models,
        preload=settings.preload_models,
    )
    app.extensions["polyseme-settings"] = settings
    app.extensions["polyseme-registry"] = registry
    app.extensions["polyseme-limits"] = settings.limits()
    registry.load()
    report(registry)
    # In the order in which a request meets them; an answer meets them in the other.
    headers.init_app(app)
    problems.init_app(app)
    accounts.init_app(app)
    for module in (proxies, spans, metrics, cors, keys):
        module.init_app(app, settings)
    # After the keys: one that was taken away is not to open anything while models are read.
    keep(app, "models", registry.refresh)
    keep(app, "metrics", partial(tally.stand, registry))
    for blueprint in (routes, embeddings, inference, catalogue, health, documentation, page):
        app.register_blueprint(blueprint)
    return app
