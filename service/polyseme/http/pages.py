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
_HERE = Path(__file__).parent
_FILES = {
    **{
        f"/page/{file.relative_to(_PAGE).as_posix()}": file
        for file in _PAGE.rglob("*")
        if file.suffix in _TYPES
    },
    "/": _PAGE / "index.html",
    "/docs": _HERE / "docs.html",
    "/docs/start.js": _HERE / "docs.js",
    "/docs/swagger-ui.css": _HERE / "vendor" / "swagger-ui.css",
    "/docs/swagger-ui-bundle.js": _HERE / "vendor" / "swagger-ui-bundle.js",
}
"""Static files by path. A requested path is looked up here, never opened."""
_POLICIES = {
    "/": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " object-src 'none'; img-src 'self' data:",
    # Swagger UI needs inline styles and data: images, but no inline scripts.
    "/docs": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " frame-ancestors 'none'",
}


@pages.get("/", strict_slashes=False)  # `GET http://host` has an empty path
@pages.get("/page/<path:name>")
@pages.get("/docs")
@pages.get("/docs/start.js")
@pages.get("/docs/swagger-ui.css")
@pages.get("/docs/swagger-ui-bundle.js")
def static_file(name: str = "") -> Response:
    """Send a file of the web interface or of Swagger UI, or 304 if the client's copy is current.

    Browsers revalidate on every use, except published files of Swagger UI. Range and If-Match
    headers are ignored, because the API defines no 416 or 412 error.
    """
    del name
    path = request.path
    file = _FILES.get(path) or abort(404)
    max_age = 86_400 if path.startswith("/docs/swagger-ui") else None
    response = send_file(file, mimetype=_TYPES[file.suffix], max_age=max_age, conditional=False)
    if max_age is None:
        response.headers["Cache-Control"] = "no-cache"
    if path in _POLICIES:
        response.headers["Content-Security-Policy"] = _POLICIES[path]
    names = ("REQUEST_METHOD", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE")
    environ = {name: request.environ[name] for name in names if name in request.environ}
    response.make_conditional(environ)
    return response


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
