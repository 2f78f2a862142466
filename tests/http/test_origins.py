"""Pages of other sites: which names of the service and which origins it accepts.

`tests/page` has a browser.
"""

import httpx
import pytest

from polyseme.http import create_app
from polyseme.settings import SettingError, Settings
from tests.http.bodies import BODIES
from tests.http.conftest import expect_problem, in_process
from tests.http.service import Caller, raw

LOCAL = ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:8000", "127.8.8.8", "[::1]:8000"]
FOREIGN = ["example.org:8000", "localhost.example.org", "10.0.0.1", "[::2]", "0.0.0.0"]
INVALID = ["", "a b", "localhost:x:y", "@localhost", "localhost,example.org", "a" * 300]


def status(client: httpx.Client, host: str, path: str = "/v1/models") -> int:
    response = client.get(path, headers={"Host": host.encode()})
    if response.status_code == 421:
        expect_problem(response, 421, "unknown_host")
    return response.status_code


def test_only_names_of_this_machine_are_allowed_by_default(client: httpx.Client) -> None:
    assert {status(client, host) for host in LOCAL} == {200}
    for path in ("/v1/models", "/", "/metrics", "/docs", "/nothing"):
        assert {status(client, host, path) for host in (*FOREIGN, *INVALID)} == {421}
    # Health is shown to probes of any host.
    for path in ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert {status(client, host, path) for host in FOREIGN} == {200}


EVERY = ("0.0.0.0", "::", "", "/run/polyseme.sock")
"""The addresses of a service that listens on all of them."""


@pytest.mark.parametrize(
    ("bound", "allowed", "rejected"),
    [
        *((bound, [*LOCAL, *FOREIGN], []) for bound in EVERY),
        ("10.1.2.3", ["10.1.2.3:8000", "localhost"], ["10.1.2.4"]),
    ],
)
def test_the_address_that_is_listened_on_is_allowed(client, bound, allowed, rejected) -> None:
    app = client._transport.app.test_client()
    found = [
        app.get("/v1/models", headers={"Host": host}, environ_overrides={"SERVER_NAME": bound})
        for host in (*allowed, *rejected)
    ]
    statuses = [response.status_code for response in found]
    assert statuses == [200] * len(allowed) + [421] * len(rejected)


def test_the_setting_lists_all_allowed_hosts() -> None:
    client = in_process(hosts="vectors.example.org, [2001:db8::1] ,Other")
    allowed = ("vectors.example.org", "vectors.example.org:443", "[2001:db8::1]:80", "other")
    assert {status(client, host) for host in allowed} == {200}
    assert {status(client, host) for host in ("localhost", "127.0.0.1", "example.org")} == {421}
    assert {status(in_process(hosts="*"), host) for host in (*LOCAL, *FOREIGN)} == {200}
    assert status(in_process(hosts="*"), "a" * 256) == 421


@pytest.mark.parametrize("hosts", ["example.org:80", "http://example.org", "a b", ".", "a,-b", ","])
def test_an_invalid_host_in_the_setting_is_rejected(hosts: str) -> None:
    with pytest.raises(SettingError, match=r"^hosts: "):
        Settings(hosts=hosts)


def test_a_real_service_rejects_rebinding_and_needs_no_host(live_client: httpx.Client) -> None:
    address = live_client.base_url.host, live_client.base_url.port
    with Caller(address) as caller:
        assert caller.ask(b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n").status == 421
    assert raw(address, b"GET /v1/models HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 ")


@pytest.mark.parametrize("kind", [None, "", "text/plain", "multipart/form-data; boundary=a"])
@pytest.mark.parametrize("path", BODIES)
def test_a_post_without_the_type_of_json_is_a_415(client: httpx.Client, path: str, kind) -> None:
    # Browsers send these types, or none, for pages of other origins without asking the service.
    headers = {} if kind is None else {"Content-Type": kind}
    response = client.post(path, content=b'{"input": "a"}', headers=headers)
    expect_problem(response, 415, "unsupported_media")


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
