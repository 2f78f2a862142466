"""/, the page for people: files of `page` as they are, nothing made and nothing fetched."""

from importlib.resources import files
from pathlib import Path

from flask import Blueprint, Response, abort, send_file

from polyseme.http.writing import unless_kept

page = Blueprint("page", __name__)

_FOLDER = Path(str(files("polyseme"))) / "page"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_FILES = {
    file.relative_to(_FOLDER).as_posix(): file
    for file in sorted(_FOLDER.rglob("*"))
    if file.suffix in _TYPES
}
"""Every file there is, by its address: no path is made from a request."""
_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " object-src 'none'"
)


@page.get("/", strict_slashes=False)  # an empty path, of `GET http://x`, is this one too
def start() -> Response:
    """The page."""
    response = _file("index.html")
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


@page.get("/page/<path:name>")
def part(name: str) -> Response:
    """A script, a style, a picture or some examples."""
    if name not in _FILES:
        abort(404)
    return _file(name)


def _file(name: str) -> Response:
    """A file; a browser keeps it and asks each time whether it is still the same."""
    file = _FILES[name]
    response = send_file(file, mimetype=_TYPES[file.suffix], conditional=False)
    response.headers["Cache-Control"] = "no-cache"
    return unless_kept(response)
