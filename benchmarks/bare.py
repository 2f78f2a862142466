"""Flask and nothing else: routes that read the body and answer with bytes that are ready."""

from functools import partial
from pathlib import Path

from flask import Flask, Response, request

from polyseme.http.app import create_app
from polyseme.http.reading import JSON, NPZ


def bare_app(folder: str) -> Flask:
    """An application with a route for each file of a folder, which answers with the file."""
    app = Flask("bare", static_folder=None)
    # The service's master and workers run it, and ask the application for what it is run with.
    app.extensions.update(create_app().extensions)
    for file in Path(folder).iterdir():
        kind = NPZ if "npz" in file.name else JSON
        answer = partial(_answer, file.read_bytes(), kind)
        app.add_url_rule(f"/{file.name}", file.name, answer, methods=["POST"])
    return app


def _answer(body: bytes, kind: str) -> Response:
    request.get_data()
    return Response(body, content_type=kind)
