"""The web interface, /docs, /openapi.json, /livez and /readyz."""

from pathlib import Path
from typing import Any

from flask import Blueprint, Response, abort, request, send_file

from polyseme.http.errors import problem
from polyseme.http.parsing import JSON
from polyseme.http.routes import current_service, json_response

pages = Blueprint("pages", __name__)

_PAGE = Path(__file__).parents[1] / "page"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_FILES = {
    file.relative_to(_PAGE).as_posix(): file
    for file in sorted(_PAGE.rglob("*"))
    if file.suffix in _TYPES
}
"""Static files by path relative to /page/. A requested path is looked up here, never opened."""
_PAGE_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " object-src 'none'; img-src 'self' data:"
)
_HERE = Path(__file__).parent
# Swagger UI needs inline styles and data: images, but no inline scripts.
_DOCS_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " frame-ancestors 'none'"
)


@pages.get("/", strict_slashes=False)  # `GET http://host` has an empty path
def index() -> Response:
    """Serve the web interface."""
    response = _file(_FILES["index.html"])
    response.headers["Content-Security-Policy"] = _PAGE_POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


@pages.get("/page/<path:name>")
def page_file(name: str) -> Response:
    """Serve a static file of the web interface."""
    return _file(_FILES[name]) if name in _FILES else abort(404)


def _file(file: Path, max_age: int | None = None) -> Response:
    """Send a file, or 304 if the client's copy is current.

    Without `max_age`, browsers revalidate on every use. Range and If-Match headers are ignored,
    because the API defines no 416 or 412 error.
    """
    response = send_file(file, mimetype=_TYPES[file.suffix], max_age=max_age, conditional=False)
    if max_age is None:
        response.headers["Cache-Control"] = "no-cache"
    names = ("REQUEST_METHOD", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
    environ = {name: request.environ[name] for name in names if name in request.environ}
    response.make_conditional(environ)
    return response


@pages.get("/docs")
def docs() -> Response:
    """Serve Swagger UI."""
    response = _file(_HERE / "docs.html")
    response.headers["Content-Security-Policy"] = _DOCS_POLICY
    return response


@pages.get("/docs/start.js", defaults={"name": "docs.js", "max_age": None})
@pages.get("/docs/swagger-ui.css", defaults={"name": "vendor/swagger-ui.css"})
@pages.get("/docs/swagger-ui-bundle.js", defaults={"name": "vendor/swagger-ui-bundle.js"})
def docs_file(name: str, max_age: int | None = 86_400) -> Response:
    """Serve a file of Swagger UI, or the script that starts it."""
    return _file(_HERE / name, max_age)


@pages.get("/openapi.json")
def openapi() -> Response:
    """Serve the OpenAPI 3.1 document, which `docs/openapi.py` makes."""
    return Response((_HERE / "openapi.json").read_bytes(), content_type=JSON)


@pages.get("/livez")
def livez() -> Response:
    """Return 200 if the process is running."""
    return json_response({"status": "alive"})


@pages.get("/readyz")
def readyz() -> Response:
    """Return 200 if the default model can be used and the service is not draining.

    The status of the other models is informational.
    """
    service = current_service()
    models: list[dict[str, Any]] = []
    for name, state in service.models.states().items():
        default = name == service.models.default
        models.append({"id": name, "default": default, "status": state.status})
        if state.problem:
            models[-1]["problem"] = state.problem
    error = service.not_ready()
    if error:
        return problem(error, models=models)
    return json_response({"status": "ready", "models": models})
