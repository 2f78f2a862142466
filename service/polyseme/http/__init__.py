"""The HTTP API: the factory of its WSGI application."""

import logging
import re

from flask import Flask, Response
from threadpoolctl import threadpool_limits

from polyseme.http import admission, errors, inference, metrics, middleware, routes
from polyseme.models.registry import Registry
from polyseme.settings import Settings, unknown_variables

_log = logging.getLogger("polyseme")


def create_app(settings: Settings | None = None, registry: Registry | None = None) -> Flask:
    """Create the WSGI application and load the default model, or all with `preload_models`.

    BLAS is limited to one thread: the threads of several workers would compete for the processors,
    and the last bits of a result would depend on the number of threads.
    """
    threadpool_limits(1)
    settings = settings or Settings()
    for warning in unknown_variables():
        _log.warning("polyseme: %s", warning)
    registry = registry or Registry.of(
        settings.models_dir,
        settings.model,
        preload=settings.preload_models,
    )
    app = Flask("polyseme", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.url_map.merge_slashes = False
    tracer = None
    if settings.otlp_endpoint:
        from polyseme.http.tracing import Tracer

        tracer = Tracer(settings.otlp_endpoint)
    auth, rate_limits = admission.ApiKeyAuth(settings), admission.RateLimits(settings)
    service = routes.Service(settings, registry, settings.limits(), auth, rate_limits, tracer)
    app.extensions["polyseme"] = service
    registry.load()
    service.log_problems()
    # Requests pass these in this order, responses in reverse order.
    middleware.init_app(app, settings, tracer)
    errors.init_app(app)
    if settings.cors_origins:
        _init_cors(app, settings)
    admission.init_app(app, settings, auth, rate_limits)
    for blueprint in (routes.routes, inference.inference, routes.pages):
        app.register_blueprint(blueprint)
    if settings.metrics != "off":
        metrics.init_app(app, registry)
    return app


def _init_cors(app: Flask, settings: Settings) -> None:
    """Allow pages of the configured origins to send requests."""
    from flask_cors import CORS

    # At lower levels, flask-cors logs paths and origins, which are text of requests.
    logging.getLogger("flask_cors").setLevel(logging.WARNING)
    CORS(
        app,
        # Patterns, because flask-cors ignores the case of plain strings.
        origins=[re.compile(rf"{re.escape(origin)}\Z") for origin in settings.cors_origins],
        methods=["GET", "POST"],
        allow_headers=[
            "Authorization",
            "Content-Type",
            "Accept",
            "X-Request-ID",
            inference.HEADER_LENGTH,
            "X-Stainless-[A-Za-z-]+",  # OpenAI's client in browsers
        ],
        expose_headers=[
            "X-Request-ID",
            "Server-Timing",
            "Retry-After",
            "RateLimit",
            "RateLimit-Policy",
            inference.HEADER_LENGTH,
        ],
        max_age=600,  # seconds for which a browser remembers a preflight response
        supports_credentials=False,
        allow_private_network=False,
        intercept_exceptions=False,
        vary_header=False,
    )

    @app.after_request
    def vary(response: Response) -> Response:
        """Add `Vary: Origin` to every response, even if the request has no Origin header."""
        response.vary.add("Origin")
        return response
