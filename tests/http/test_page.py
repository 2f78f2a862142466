"""The files of the page, as a real gunicorn sends them. What they do is tested in tests/page."""

import hashlib
import json
import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

PAGE = Path(__file__).parents[2] / "service" / "polyseme" / "page"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
FILES = [file for file in sorted(PAGE.rglob("*")) if file.is_file()]


def name_of(file: Path) -> str:
    return file.relative_to(PAGE).as_posix()


def test_the_page_may_use_nothing_but_the_service(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'self'"
    # Nothing else is let in: what else is said forbids.
    assert all(rule.endswith("'none'") for rule in policy[1:])
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_script_or_style_of_its_own_and_no_address_of_another_host(
    client: httpx.Client,
) -> None:
    text = client.get("/").text
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", text)
    links = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(links) > 5
    # Relative, so that the page also works behind a prefix of a proxy.
    assert not [link for link in links if re.match(r"/|\w+:", link)]
    for link in links:
        assert client.get(f"/{link}").status_code == 200


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_is_sent_as_it_is_and_with_its_type(client: httpx.Client, file: Path) -> None:
    answer = client.get("/" if file.name == "index.html" else f"/page/{name_of(file)}")
    assert answer.status_code == 200
    assert answer.content == file.read_bytes()
    assert answer.headers["content-type"] == TYPES[file.suffix]
    assert answer.headers["cache-control"] == "no-cache"
    again = client.get(answer.request.url, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("", "nothing.js", "../http/app.py", "%2e%2e/http/app.py", "..%2fhttp%2fapp.py"),
        *("vendor", "vendor/", "vendor/../start.js", "/etc/passwd", "start.js/", "start.js%00"),
        *("views/%2e%2e/start.js", "%2fetc%2fpasswd", "START.JS", "start.js%20"),
    ],
)
def test_no_other_path_leads_to_a_file(client: httpx.Client, path: str) -> None:
    # httpx would clear the dots away before they are sent.
    connection = HTTPConnection(client.base_url.host, client.base_url.port)
    with closing(connection):
        connection.request("GET", f"/page/{path}")
        answer = connection.getresponse()
        assert answer.status == 404
        assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_needs_no_key_and_its_questions_do(serve) -> None:
    client = serve(api_keys="a-key-of-this-test")
    assert client.get("/").status_code == 200
    assert client.get("/page/start.js").status_code == 200
    assert client.get("/v1/models").status_code == 401


def test_what_comes_from_others_is_what_they_published() -> None:
    sources = json.loads((PAGE / "vendor" / "sources.json").read_text("utf-8"))["files"]
    scripts = {file.name: file for file in (PAGE / "vendor").glob("*.js")}
    assert scripts.keys() == sources.keys()
    licence = (PAGE / "vendor" / "LICENSE.txt").read_text("utf-8")
    for name, source in sources.items():
        content = scripts[name].read_bytes()
        assert hashlib.sha256(content).hexdigest() == source["sha256"]
        assert f"v{source['version']} Copyright".encode() in content
        assert f"{source['package']} {source['version']}" in licence
