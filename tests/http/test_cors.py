"""CORS headers; `tests/page` has a browser."""

import httpx
import pytest

from polyseme.http import create_app
from polyseme.settings import SettingError, Settings
from tests.http.conftest import expect_problem

LISTED, OTHER = "https://example.org", "http://localhost:3000"
"""The origins that the service allows."""
KEY = {"Authorization": "Bearer a-key"}
EXPOSED = (
    "Inference-Header-Content-Length, RateLimit, RateLimit-Policy, Retry-After, Server-Timing,"
    " X-Request-ID"
)
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture(scope="module")
def service(make_client) -> httpx.Client:
    """A service with keys that allows pages of two origins."""
    origins = f"{LISTED}, {OTHER}"
    return make_client(cors_origins=origins, api_keys="a-key", rate_limit="100/hour")


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: v for name, v in answer.headers.items() if name.startswith("access-control-")}


# A preflight request needs no key, and names the headers of clients.
@pytest.mark.parametrize(
    ("path", "origin", "sent", "other"),
    [
        ("/v1/models/wiki-en", OTHER, "authorization, content-type, x-request-id", ", accept-x"),
        ("/v2/models/wiki-en/infer", LISTED, "Inference-Header-Content-Length, accept", ""),
        ("/v1/embeddings", LISTED, "X-Stainless-Os, content-type, x-stainless-retry-count", ""),
        ("/v1/embeddings", LISTED, "authorization", ", not-x-stainless-os"),
        ("/metrics", LISTED, "", "x-other"),
    ],
)
def test_pages_may_send_the_headers_of_clients(service, path, origin, sent, other) -> None:
    headers = {**PREFLIGHT, "Origin": origin, "Access-Control-Request-Headers": sent + other}
    answer = service.options(path, headers=headers)
    assert answer.status_code == 200
    assert cors_headers(answer) == {
        **({"access-control-allow-headers": sent} if sent else {}),
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, POST",
        "access-control-expose-headers": EXPOSED,
        "access-control-max-age": "600",
    }
    assert "origin" in answer.headers["vary"].lower()


ABSENT = ["https://example.com", "http://example.org", "https://example.org.evil.net"]
ABSENT += ["https://evilexample.org", "HTTPS://EXAMPLE.ORG", "https://example.org/", "null", "*"]


@pytest.mark.parametrize("origin", ABSENT)
def test_an_unlisted_origin_gets_no_cors_headers(service: httpx.Client, origin: str) -> None:
    headers = {"Origin": origin}
    for answer in (
        service.options("/v1/encode", headers={**headers, **PREFLIGHT}),
        service.post("/v1/encode", json={"input": "a"}, headers={**headers, **KEY}),
    ):
        assert cors_headers(answer) == {}
        assert "origin" in answer.headers["vary"].lower()


@pytest.mark.parametrize("without", ["Origin", "Access-Control-Request-Method"])
def test_an_options_request_that_is_no_preflight_needs_a_key(service, without):
    headers = {"Origin": LISTED, **PREFLIGHT}
    del headers[without]
    expect_problem(service.options("/v1/encode", headers=headers), 401, "unauthorised")


def test_pages_read_responses_and_errors_and_preflights_are_not_counted(make_client) -> None:
    limited = make_client(cors_origins=LISTED, rate_limit="1/hour", api_keys="a-key")
    headers = {"Origin": LISTED, **PREFLIGHT}
    preflights = [limited.options("/v1/encode", headers=headers).status_code for _ in range(5)]
    assert preflights == [200] * 5
    for sent, status in ((headers, 401), ({**headers, **KEY}, 200), ({**headers, **KEY}, 429)):
        answer = limited.get("/v1/models", headers=sent)
        assert answer.status_code == status
        assert cors_headers(answer) == {
            "access-control-allow-origin": LISTED,
            "access-control-expose-headers": EXPOSED,
        }


def test_without_the_setting_no_response_has_cors_headers(client):
    headers = {"Origin": LISTED, **PREFLIGHT}
    for answer in (
        client.options("/v1/encode", headers=headers),
        client.post("/v1/encode", json={"input": "a"}, headers=headers),
    ):
        assert cors_headers(answer) == {}
        assert "vary" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [
        *("*", "null", "example.org", "https://*.example.org", "https://example.org/"),
        *("https://Example.org", "https://example.org:443", "https://example.org:0"),
        *("https://user@example.org", "https://", "https://example.org\nhttps://other.org"),
    ],
)
def test_an_inexact_origin_is_rejected_at_startup(origin: str) -> None:
    with pytest.raises(SettingError, match=r"^cors_origins: "):
        Settings(cors_origins=f"{LISTED},{origin}")


@pytest.mark.parametrize("origin", ["https://a-b.example:8443", "http://[::1]:8080", "app://local"])
def test_an_exact_origin_is_allowed(origin: str) -> None:
    client = create_app(Settings(cors_origins=origin)).test_client()
    answer = client.get("/livez", headers={"Origin": origin})
    assert answer.headers.get("access-control-allow-origin") == origin
