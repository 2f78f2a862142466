"""The Host header: pages of other sites reach no service by a name that points to this machine."""

import httpx
import pytest

from polyseme.settings import SettingError, Settings
from tests.http.bodies import BODIES
from tests.http.conftest import expect_problem, in_process
from tests.http.service import Caller, raw

LOCAL = ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:8000", "127.8.8.8", "[::1]:8000"]
OTHER = ["example.org:8000", "localhost.example.org", "10.0.0.1", "[::2]", "0.0.0.0"]
INVALID = ["", "a b", "localhost:x:y", "@localhost", "localhost,example.org", "a" * 300]


def status(client: httpx.Client, host: str, path: str = "/v1/models") -> int:
    response = client.get(path, headers={"Host": host.encode()})
    if response.status_code == 421:
        expect_problem(response, 421, "unknown_host")
    return response.status_code


def test_only_names_of_this_machine_are_allowed_by_default(client: httpx.Client) -> None:
    assert {status(client, host) for host in LOCAL} == {200}
    for path in ("/v1/models", "/", "/metrics", "/docs", "/nothing"):
        assert {status(client, host, path) for host in (*OTHER, *INVALID)} == {421}
    # Health is shown to probes of any host.
    for path in ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert {status(client, host, path) for host in OTHER} == {200}


EVERY = ("0.0.0.0", "::", "", "/run/polyseme.sock")
"""The addresses of a service that listens on all of them."""


@pytest.mark.parametrize(
    ("bound", "allowed", "rejected"),
    [
        *((bound, [*LOCAL, *OTHER], []) for bound in EVERY),
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
    assert {status(in_process(hosts="*"), host) for host in (*LOCAL, *OTHER)} == {200}
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
