"""Serve a bare Flask application whose routes read the body and return prepared bytes.

    python benchmarks/bare.py FOLDER serve --port PORT

The folder has a file for each route. The server is that of the service, with its settings.
"""

import sys
from functools import partial
from pathlib import Path

from flask import Flask, Response, request

from polyseme.http import create_app
from polyseme.http.parsing import JSON, NPZ
from polyseme.http.server import Server
from polyseme.settings import Settings


class BareServer(Server):
    """The service's server of the bare application."""

    def load(self) -> Flask:
        """Return an application with a POST route for each file."""
        app = Flask("bare", static_folder=None)
        # The hooks of the service's gunicorn configuration read these extensions.
        app.extensions.update(create_app().extensions)
        for file in Path(sys.argv[1]).iterdir():
            kind = NPZ if "npz" in file.name else JSON
            view = partial(_response, file.read_bytes(), kind)
            app.add_url_rule(f"/{file.name}", file.name, view, methods=["POST"])
        return app


def _response(body: bytes, kind: str) -> Response:
    request.get_data()
    return Response(body, content_type=kind)


if __name__ == "__main__":
    BareServer(Settings(port=int(sys.argv[-1]))).run()
