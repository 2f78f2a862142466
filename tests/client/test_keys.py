"""A key goes to the service and nowhere else."""

import logging
import shutil
import ssl
import subprocess
import traceback

import pytest

from polyseme.client import AnswerError, AsyncClient, Client, UnreachableError
from polyseme.errors import UnauthorisedError
from tests.client.conftest import both_clients, call
from tests.client.scripted_server import ScriptedResponse, scripted_server

KEY = "polyseme_xyzzy-secret"
NO_NEIGHBORS = ScriptedResponse(body=b'{"neighbors": [], "resolution": null}')


@pytest.fixture(scope="module")
def locked(serve, models_dir):
    """The address of a service that requires a key."""
    return str(serve(models_dir=models_dir, model="tiny", api_keys=KEY).base_url).rstrip("/")


@both_clients
def test_a_key_is_given_or_that_of_the_environment(locked, monkeypatch, kind):
    monkeypatch.delenv("POLYSEME_API_KEY", raising=False)
    for key in (None, "", "another"):
        with pytest.raises(UnauthorisedError):
            call(kind, locked, "encode", ["bank"], client={"key": key})
    assert call(kind, locked, "encode", ["bank"], client={"key": KEY})[0].words == ["bank"]
    monkeypatch.setenv("POLYSEME_API_KEY", KEY)
    assert "tiny" in {one.name for one in call(kind, locked, "models")}
    with pytest.raises(UnauthorisedError):
        call(kind, locked, "models", client={"key": ""})


def test_a_key_is_in_no_representation_log_or_traceback(caplog):
    caplog.set_level(logging.DEBUG)
    with scripted_server(NO_NEIGHBORS, ScriptedResponse(500, "text/html")) as server:
        with Client(server.url, KEY, retries=0) as client:
            client.neighbors("bank")
            with pytest.raises(AnswerError) as caught:
                client.neighbors("bank")
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    shown = "".join(traceback.format_exception(caught.value))
    for text in (repr(client), str(client), shown, caplog.text, repr(AsyncClient("http://a", KEY))):
        assert text and KEY not in text


def test_a_redirection_does_not_get_the_key():
    with scripted_server(NO_NEIGHBORS) as elsewhere:
        headers = {"Location": f"{elsewhere.url}/v1/neighbors"}
        redirections = [ScriptedResponse(code, "text/html", b"", headers) for code in (301, 307)]
        with scripted_server(*redirections) as server, Client(server.url, KEY) as client:
            for _ in redirections:
                with pytest.raises(AnswerError, match="does not follow it"):
                    client.neighbors("bank")
        assert elsewhere.requests == []


def test_no_cookie_is_kept_and_the_path_of_an_address_is_a_prefix():
    response = NO_NEIGHBORS._replace(headers={"Set-Cookie": "a=b"})
    with scripted_server(response) as server, Client(f"{server.url}/words/") as client:
        client.neighbors("bank")
        client.neighbors("bank")
        assert {request.path for request in server.requests} == {"/words/v1/neighbors"}
        assert all("Cookie" not in request.headers for request in server.requests)


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    with scripted_server(NO_NEIGHBORS) as server, scripted_server(NO_NEIGHBORS) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with Client(server.url, KEY) as client:
            client.neighbors("bank")
        assert (len(server.requests), len(proxy.requests)) == (1, 0)
        with Client("http://service.invalid", KEY, proxy=proxy.url) as client:
            client.neighbors("bank")
        assert [request.path for request in proxy.requests] == [
            "http://service.invalid/v1/neighbors"
        ]


URLS = [
    *("", "localhost:8000", "ftp://localhost", "http://", "http://a:b", "//a", "http://a\n"),
    *("http://user:xyzzy@localhost", "http://a?", "http://a/?b", "http://a/#", "http://[a"),
]


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        *((url, None, r"http://127.0.0.1:8000") for url in URLS),
        *(("http://a", key, "The key") for key in ("xyzzy words", "xyzzy\n", "xyzzyü", "xyzzy\0")),
    ],
)
def test_an_invalid_address_or_key_is_rejected_without_being_shown(url, key, message):
    with pytest.raises(ValueError, match=message) as caught:
        Client(url, key)
    assert "xyzzy" not in str(caught.value)


def test_tls_certificates_are_verified(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "certificate.pem"]
    subprocess.run(command, check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    trusted = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    with scripted_server(NO_NEIGHBORS, tls=served) as server:
        with Client(server.url, KEY, tls=trusted) as client:
            assert client.neighbors("bank") == []
        with (
            Client(server.url, KEY, retries=0) as client,
            pytest.raises(UnreachableError, match="CERTIFICATE"),
        ):
            client.neighbors("bank")
        assert len(server.requests) == 1
