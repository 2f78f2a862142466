"""What every answer says to browsers and caches, through a real gunicorn."""

import socket

import httpx
import pytest
from polyseme.http.headers import SECURITY_HEADERS

NOTHING = "default-src 'none'; frame-ancestors 'none'"


def test_they_are_these() -> None:
    assert SECURITY_HEADERS == {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Content-Security-Policy": NOTHING,
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/encode", {"input": "a"}),
        ("POST", "/v1/encode", {}),
        ("GET", "/v1/models", None),
        ("GET", "/v1/encode", None),
        ("OPTIONS", "/v1/encode", None),
        ("GET", "/nothing", None),
        ("GET", "/page/nothing", None),
        ("GET", "/livez", None),
        ("GET", "/readyz", None),
        ("GET", "/metrics", None),
        ("GET", "/openapi.json", None),
    ],
)
def test_every_answer_has_them(
    client: httpx.Client, method: str, path: str, body: dict | None
) -> None:
    answer = client.request(method, path, json=body)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers.get_list(name) == [value]


def test_an_answer_that_is_sent_as_it_is_made_has_them(serve) -> None:
    body = {"input": ["a river"] * 500}
    answer = serve(stream_bytes=1).post("/v1/encode", json=body)
    assert "chunked" in answer.headers["transfer-encoding"]
    assert SECURITY_HEADERS.items() <= {k: answer.headers[k] for k in SECURITY_HEADERS}.items()


def test_an_answer_to_what_is_not_http_has_them(client: httpx.Client) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port), 30) as one:
        one.sendall(b"nothing\r\n\r\n")
        head = one.makefile("rb").read().partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    assert head[0].startswith("http/1.1 400 ")
    for name, value in SECURITY_HEADERS.items():
        assert head.count(f"{name}: {value}".lower()) == 1


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_says_what_it_needs_and_has_the_rest(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    (policy,) = answer.headers.get_list("content-security-policy")
    assert policy.startswith("default-src 'self'; ")
    assert "frame-ancestors 'none'" in policy
    for name in ("X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy"):
        assert answer.headers[name] == SECURITY_HEADERS[name]


@pytest.mark.parametrize(
    ("path", "kept"),
    [("/page/start.js", "no-cache"), ("/docs/swagger-ui.css", "public, max-age=86400")],
)
def test_files_may_be_kept_by_browsers(client: httpx.Client, path: str, kept: str) -> None:
    assert client.get(path).headers["cache-control"] == kept
