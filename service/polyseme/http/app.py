"""The application factory."""

import logging

import regex
from flask import Flask, Response, request
from threadpoolctl import threadpool_limits

from polyseme.http import errors, limits, metrics, middleware
from polyseme.http.auth import ApiKeyAuth
from polyseme.http.inference import HEADER_LENGTH, inference
from polyseme.http.pages import pages
from polyseme.http.routes import Service, routes
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
    auth, rate_limits = ApiKeyAuth(settings), limits.RateLimits(settings)
    service = Service(settings, registry, settings.limits(), auth, rate_limits)
    app.extensions["polyseme"] = service
    registry.load()
    service.log_problems()
    # Requests pass these in this order, responses in reverse order.
    tracer = None
    if settings.otlp_endpoint:
        from polyseme.http.tracing import Tracer

        tracer = app.extensions["polyseme-tracer"] = Tracer(settings.otlp_endpoint)
    middleware.init_app(app, settings, tracer)
    errors.init_app(app)
    if settings.cors_origins:
        _init_cors(app, settings.cors_origins)
    auth.init_app(app, rate_limits)
    limits.init_app(app, settings, rate_limits)
    for blueprint in (routes, inference, pages):
        app.register_blueprint(blueprint)
    if settings.metrics != "off":
        metrics.init_app(app, registry)
    return app


_REQUEST_HEADERS = regex.compile(
    rf"authorization|content-type|accept|x-request-id|{HEADER_LENGTH.lower()}"
    r"|x-stainless-[a-z-]+"  # OpenAI's client in browsers
)
_RESPONSE_HEADERS = (
    f"{HEADER_LENGTH}, RateLimit, RateLimit-Policy, Retry-After, Server-Timing, X-Request-ID"
)


def _init_cors(app: Flask, origins: tuple[str, ...]) -> None:
    """Allow pages of some origins to send requests and to read responses."""

    @app.after_request
    def allow(response: Response) -> Response:
        # Every response varies, also those to requests without an Origin header.
        response.vary.add("Origin")
        sent, headers = request.headers, response.headers
        if sent.get("Origin") in origins:
            headers["Access-Control-Allow-Origin"] = sent["Origin"]
            headers["Access-Control-Expose-Headers"] = _RESPONSE_HEADERS
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in sent:
                headers["Access-Control-Allow-Methods"] = "GET, POST"
                headers["Access-Control-Max-Age"] = "600"  # seconds
                names = sent.get("Access-Control-Request-Headers", "").split(",")
                allowed = [
                    n for n in map(str.strip, names) if _REQUEST_HEADERS.fullmatch(n.lower())
                ]
                if allowed:
                    headers["Access-Control-Allow-Headers"] = ", ".join(allowed)
        return response
