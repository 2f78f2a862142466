"""A bare Flask application: its routes read the body and return prepared bytes."""

from functools import partial
from pathlib import Path

from flask import Flask, Response, request

from polyseme.http.app import create_app
from polyseme.http.parsing import JSON, NPZ


def bare_app(folder: str) -> Flask:
    """Return an application with one POST route for each file of a folder."""
    app = Flask("bare", static_folder=None)
    # The hooks of the service's gunicorn configuration read these extensions.
    app.extensions.update(create_app().extensions)
    for file in Path(folder).iterdir():
        kind = NPZ if "npz" in file.name else JSON
        view = partial(_response, file.read_bytes(), kind)
        app.add_url_rule(f"/{file.name}", file.name, view, methods=["POST"])
    return app


def _response(body: bytes, kind: str) -> Response:
    request.get_data()
    return Response(body, content_type=kind)
