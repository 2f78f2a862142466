"""/openapi.json, and /docs: Swagger UI from an installed package, not from a CDN."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from flask import Blueprint, Response, send_from_directory

from polyseme.http.reading import JSON
from polyseme.http.writing import json_response, unless_kept

documentation = Blueprint("documentation", __name__)

_SWAGGER = Path(str(files("flask_openapi_swagger"))) / "templates" / "swagger"
_ASSETS = {
    "swagger-ui.css": "css/swagger-ui.css",
    "swagger-ui-bundle.js": "js/swagger-ui-bundle.js",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Polyseme: the API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<script defer src="/docs/swagger-ui-bundle.js"></script>
<script defer src="/docs/start.js"></script>
</head>
<body><main id="api"></main></body>
</html>
"""
_START = """\
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null });
"""
# Swagger UI sets style attributes and draws its icons from data: addresses; scripts are files.
_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " frame-ancestors 'none'"
)


@documentation.get("/openapi.json")
def openapi() -> Response:
    """The OpenAPI 3.1 document."""
    return Response(_openapi(), content_type=JSON)


@cache
def _openapi() -> bytes:
    from polyseme.http.openapi import document  # noqa: PLC0415 - the models of all answers

    return json_response(document()).get_data()


@documentation.get("/docs")
def docs() -> Response:
    """The page that shows every route and tries it."""
    response = Response(_PAGE, content_type="text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = _POLICY
    return response


@documentation.get("/docs/start.js")
def start_script() -> Response:
    """What starts Swagger UI."""
    return Response(_START, content_type="text/javascript; charset=utf-8")


def _asset(name: str) -> Response:
    return unless_kept(
        send_from_directory(_SWAGGER, _ASSETS[name], max_age=86_400, conditional=False)
    )


@documentation.get("/docs/swagger-ui.css")
def stylesheet() -> Response:
    """Swagger UI's styles."""
    return _asset("swagger-ui.css")


@documentation.get("/docs/swagger-ui-bundle.js")
def script() -> Response:
    """Swagger UI."""
    return _asset("swagger-ui-bundle.js")
