"""The page, /docs and /openapi.json, and the headers of every response."""

import hashlib
import json
import re
from pathlib import Path

import httpx
import orjson
import pytest
from docs.openapi import FILE, ROUTES, content

from polyseme.http import create_app
from polyseme.http.middleware import SECURITY_HEADERS
from polyseme.settings import BUNDLED, Settings
from tests.http.conftest import registry

PACKAGE = Path(__file__).parents[2] / "service" / "polyseme"
PAGE = PACKAGE / "page"
SWAGGER = PACKAGE / "http" / "vendor"
CSS = "docs/swagger-ui.css"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_has_no_inline_script_and_loads_nothing_from_other_hosts(client, path):
    text = client.get(path).text
    assert path == "/docs" or not re.search(r"<style|\sstyle=|\son\w+=", text)
    assert not re.search(r"<script(?![^>]*src=)", text)
    links = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(links) >= 4
    for link in links:
        # Relative, so that the page also works behind a prefix of a proxy.
        assert re.match(r"/(docs|page)/" if path == "/docs" else r"(?!/|\w+:)", link)
        assert client.get(f"/{link.removeprefix('/')}").status_code == 200


def test_a_file_is_sent_unchanged_with_its_type(client):
    files = {f"page/{f.relative_to(PAGE)}": f for f in PAGE.rglob("*") if f.is_file()}
    files[""] = files["page/index.html"]
    files |= {"docs/start.js": PACKAGE / "http/docs.js", CSS: SWAGGER / "swagger-ui.css"}
    for path, file in files.items():
        answer = client.get(f"/{path}")
        assert (answer.status_code, answer.content) == (200, file.read_bytes()), path
        kind = {".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml"}
        expected = kind.get(file.suffix, f"text/{file.suffix[1:].replace('txt', 'plain')}")
        assert answer.headers["content-type"].removesuffix("; charset=utf-8") == expected
        cache = "public, max-age=86400" if path == CSS else "no-cache"
        assert answer.headers["cache-control"] == cache
        again = client.get(f"/{path}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("", "nothing.js", "../api/app.py", "%2e%2e/api/app.py", "..%2fapi%2fapp.py", "vendor"),
        *("vendor/../start.js", "/etc/passwd", "start.js/", "start.js%00", "START.JS"),
    ],
)
def test_no_other_path_serves_a_file(path: str) -> None:
    # httpx would remove the dots before sending.
    app = create_app(Settings(), registry(Settings().models_dir, BUNDLED, False))
    answer = app.test_client().get(f"/page/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("folder", [PAGE / "vendor", SWAGGER], ids=lambda one: one.parent.name)
def test_vendored_files_are_those_that_were_published(folder: Path) -> None:
    packages = json.loads((folder / "sources.json").read_text("utf-8"))["packages"]
    published = {name: digest for one in packages for name, digest in one["files"].items()}
    contents = {f.name: f.read_bytes() for f in folder.iterdir() if f.suffix in {".css", ".js"}}
    assert {n: hashlib.sha256(text).hexdigest() for n, text in contents.items()} == published
    for package in packages:
        script = next(name for name in package["files"] if name.endswith(".js"))
        assert package["version"].encode() in contents[script]


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/encode", "/v1/models", "/nothing", "/livez", "/metrics"])
def test_every_response_of_the_api_has_the_security_headers(client, method, path):
    answer = client.request(method, path)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers.get_list(name) == [value]


@pytest.mark.parametrize(
    ("path", "styles"), [("/", []), ("/docs", ["style-src 'self' 'unsafe-inline'"])]
)
def test_pages_have_a_content_security_policy_and_security_headers(client, path, styles):
    headers = client.get(path).headers
    first, *others = headers["content-security-policy"].split("; ")
    # Figures contain images of their own. The other directives allow nothing.
    allowed = [rule for rule in others if not rule.endswith("'none'")]
    assert [first, *allowed] == ["default-src 'self'", *styles, "img-src 'self' data:"]
    assert "frame-ancestors 'none'" in others
    for name in ("X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy"):
        assert headers.get_list(name) == [SECURITY_HEADERS[name]]


UNDOCUMENTED = {"/", "/page/<path:name>", "/openapi.json", "/docs", "/metrics"}


@pytest.mark.slow
def test_the_document_is_valid_openapi_3_1(client: httpx.Client) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes seconds to import

    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(described).validate()
    assert orjson.loads(content()) == described


def test_the_committed_openapi_document_is_current() -> None:
    assert FILE.read_bytes() == content(), "run `make docs`"


def test_every_route_is_described_and_every_description_has_a_route() -> None:
    rules = {
        (method.lower(), re.sub(r"<(\w+)>", r"{\1}", rule.rule))
        for rule in create_app().url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule not in UNDOCUMENTED and not rule.rule.startswith("/docs/")
    }
    assert rules == {(route.method, route.path) for route in ROUTES}
